"""Sums of waves with free frequencies, and the normal equations of fits to data."""
