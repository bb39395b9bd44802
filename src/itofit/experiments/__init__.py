"""The paper's experiments: the equations that were learned, their data, and the settings they were learned with."""

from itofit.experiments.problems import PROBLEMS, Problem

__all__ = ["PROBLEMS", "Problem"]
