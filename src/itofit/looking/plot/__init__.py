"""Pictures of what was learned: drift and noise with error bars, potentials, flows, residuals, training.

Every function takes the axes to draw on and returns them; without axes it makes a figure with matplotlib's pyplot,
which notebooks show. The model comes first, then data, then keywords. Variables are chosen by number or by name. Data
are those that the model was learned from, the default, or others: they give the range. What those that were learned
from do not reach is shaded, also where they reach each input alone but not all at once; for that a model keeps some of
their places. Axes have the units of the data. matplotlib comes with ``pip
install "itofit[plot]"`` and is imported when something is drawn; its settings stay as they are.

>>> import itofit
>>> from itofit import plot
>>> ax = plot.drift(sde, data)                              # doctest: +SKIP
>>> ax = plot.diffusion(sde, data, what="sigma")            # doctest: +SKIP
>>> figure = plot.overview(sde, data)                       # doctest: +SKIP
>>> axes = plot.residuals(itofit.check(sde, data), sde=sde)  # doctest: +SKIP
"""

from itofit.looking.plot.curves import diffusion, drift
from itofit.looking.plot.fields import field
from itofit.looking.plot.formula_panels import formula
from itofit.looking.plot.grids import overview, slices
from itofit.looking.plot.histories import history
from itofit.looking.plot.maps import heatmap
from itofit.looking.plot.portraits import density, passage_times, phase_portrait
from itofit.looking.plot.potentials import potential
from itofit.looking.plot.remainders import residuals
from itofit.looking.plot.simulated import distributions

__all__ = [
    "density",
    "diffusion",
    "distributions",
    "drift",
    "field",
    "formula",
    "heatmap",
    "history",
    "overview",
    "passage_times",
    "phase_portrait",
    "potential",
    "residuals",
    "slices",
]


def __dir__() -> list[str]:
    return sorted(__all__)
