"""The command line: one module for each group of commands."""

from itofit.cli import commands, demo, formula_command, reproduction
from itofit.cli.app import app

__all__ = ["app", "commands", "demo", "formula_command", "reproduction"]
