"""Looking at what was learned: checks, plots and reports."""
