"""One page about a learned SDE: what was learned, how far to trust it, how it was made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from itofit._checks import RNG
from itofit.data.large.cluster import Client, on_cluster
from itofit.data.passes import Data
from itofit.model.formula.formula_sde import Formula
from itofit.model.learned import LearnedSDE

__all__ = ["report"]


def report(
    sde: LearnedSDE,
    data: Data,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    saved_as: str | os.PathLike[str] | None = None,
    formula: Formula | bool = True,
    figures: Literal["png", "svg"] = "png",
    rng: RNG = 0,
    client: Client | None = None,
) -> Path:
    """Write one page of HTML about a model: pictures, numbers with error bars, verdicts with advice, how it was made.

    The page is one file without scripts that asks for nothing over the network. The same model, data and seed make the
    same page with the same versions of the libraries: it holds no date. Needs ``pip install "itofit[plot]"``.

    Parameters
    ----------
    sde : LearnedSDE
    data : Transitions
        What to judge it on and to show: preferably held out of training. Of more than 200,000, stretches of
        consecutive ones are shown and judged.
    path : path
        Of the file, in a directory that exists; what was there stays until all of the page is written.
    title : str, optional
        Default: names of the variables.
    saved_as : path, optional
        Of the file that holds the model, for the code at the end of the page that loads it. Default: an example.
    formula : bool or Formula
        What stands at the top of the page: a formula that `LearnedSDE.formula` found. True: one is looked for within
        seconds, in up to 200,000 of the data (with m inputs one m²-th of that, and none with more than six), and the
        page says so if no short one was found. False: none.
    figures : {"png", "svg"}
        The format of the pictures within the page. SVG is sharp at any size and can be taken out for a paper; maps and
        dots within it are pixels.
    rng : int, Generator or None
        For `itofit.check` and simulated paths.
    client : distributed.Client, optional
        A Dask client, on whose workers passes over the data run, as in `itofit.fit`.

    Returns
    -------
    Path

    Examples
    --------
    >>> itofit.report(sde, held_out, "sde.html", title="Cells on a gradient")  # doctest: +SKIP
    """
    from itofit.looking.report.contents import write  # noqa: PLC0415  (plots and checks take long to import)

    return write(sde, on_cluster(data, client), path, title, saved_as, formula, figures, rng)
