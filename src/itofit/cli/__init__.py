"""The command line: one module for each group of commands."""

from itofit.cli import answered, commands, comparing, demo, formula_command, reproduction
from itofit.cli.app import app

__all__ = ["answered", "app", "commands", "comparing", "demo", "formula_command", "reproduction"]
