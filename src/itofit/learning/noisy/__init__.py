"""Learning from tracks that are seen through noise."""
