"""The command line: one module for each group of commands."""

from itofit.cli import commands, comparing, demo, reproduction
from itofit.cli.app import app

__all__ = ["app", "commands", "comparing", "demo", "reproduction"]
