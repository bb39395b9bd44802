"""A stochastic differential equation that was learned: to evaluate, judge, simulate and keep."""
