"""What was learned, looked at: checks, plots and reports."""
