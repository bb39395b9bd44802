"""The version of itofit."""

__version__ = "0.2.0"
