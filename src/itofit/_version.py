"""The version of itofit."""

__version__ = "0.1.0"
