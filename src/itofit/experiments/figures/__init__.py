"""The figures of the paper from the runs of one experiment: losses, functions, and distributions of paths.

Every function returns a matplotlib Figure that no window or global state knows of; `save` writes and closes it. The
figures look the same whatever matplotlib is set to elsewhere in the program. Each method has its colour, marker and
dashes in all of them, so that methods can be told apart without colour too.
"""

from itofit.experiments.figures.drawing import LOOKS, save
from itofit.experiments.figures.functions import true_against_trained
from itofit.experiments.figures.loss import loss_against_time
from itofit.experiments.figures.paths import trajectory_distributions

__all__ = ["LOOKS", "loss_against_time", "save", "trajectory_distributions", "true_against_trained"]
