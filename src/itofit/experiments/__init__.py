"""The paper's experiments: the equations that were learned, their data, and the settings they were learned with."""

from itofit.experiments.problems import EXPERIMENTS, Experiment

__all__ = ["EXPERIMENTS", "Experiment"]
