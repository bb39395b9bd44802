"""The command line: one file for each group of commands."""

from itofit.cli import data, demo, reproduce
from itofit.cli.app import app

__all__ = ["app", "data", "demo", "reproduce"]
