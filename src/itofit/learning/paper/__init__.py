"""Algorithms 1 and 2 as published."""
