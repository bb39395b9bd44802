"""From transitions to a learned equation: one pipeline, two methods."""
