"""The figures of the paper from the runs of one experiment: losses, functions, and distributions of paths.

Every function returns a matplotlib Figure that is independent of pyplot; `save` writes and closes it. The figures do
not depend on the settings of matplotlib in the rest of the program. Each method has one colour, marker and dash pattern
in all figures, so that methods can be distinguished without colour too.
"""

from itofit.experiments.figures.drawing import LOOKS, save
from itofit.experiments.figures.functions import true_against_trained
from itofit.experiments.figures.loss import loss_against_time
from itofit.experiments.figures.paths import trajectory_distributions

__all__ = ["LOOKS", "loss_against_time", "save", "trajectory_distributions", "true_against_trained"]
