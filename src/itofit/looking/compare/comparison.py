"""Comparison: what `compare` found, in numbers, words and pictures."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.data.notebooks import printed_html
from itofit.data.units import behind
from itofit.looking.check.phrases import capitalised, p_text
from itofit.looking.compare.compared_answers import AnswerDifference
from itofit.looking.compare.condition_test import ConditionTest
from itofit.looking.compare.uncertain_steps import uncertain_steps
from itofit.looking.plot.canvas import drawn
from itofit.model.learned import LearnedSDE
from itofit.model.sampled import SampledSDEs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Band(NamedTuple):
    """A difference at n places for d outputs, and the ends of its simultaneous band: shapes (n, d)."""

    value: Float
    low: Float
    high: Float

    def excludes(self, value: float) -> npt.NDArray[np.bool_]:
        """Where a value is outside the band, shape (n, d)."""
        return (self.low > value) | (self.high < value)


def simultaneous_band(value: Float, draws: Float, level: float) -> Band:
    """The band that holds all of a share 1 − level of the draws (s, n, d) around a value (n, d)."""
    std = np.maximum(draws.std(axis=0), np.finfo(float).tiny)
    farthest = np.abs((draws - draws.mean(axis=0)) / std).max(axis=(1, 2))
    width = np.quantile(farthest, 1 - level) * std
    return Band(value, value - width, value + width)


def _diagonals(matrices: Float) -> Float:
    """(..., d, d) to (..., d)."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)


class Pair(NamedTuple):
    """Two learned equations, and equations drawn from the posterior of each."""

    a: LearnedSDE
    b: LearnedSDE
    samples: tuple[SampledSDEs, SampledSDEs]

    def drift(self, points: Float, level: float) -> Band:
        """f_b − f_a at points (n, m)."""
        of_a, of_b = self.samples
        return simultaneous_band(
            self.b.drift(points) - self.a.drift(points), of_b.drift(points) - of_a.drift(points), level
        )

    def variance_ratio(self, points: Float, level: float) -> Band:
        """Σ_b,ii / Σ_a,ii at points (n, m); its band is that of the logarithm.

        Where the length of steps was undone, a steeper drawn drift goes with a larger Σ, whose steps are the same.
        """

        def log_variance(own: LearnedSDE | SampledSDEs) -> Float:
            return np.log(_diagonals(own.covariance(points)))

        def drawn(sde: LearnedSDE, samples: SampledSDEs) -> Float:
            if sde.step_correction is None or sde.scheme == "euler":
                return log_variance(samples)
            h = np.full(len(points), sde.step_correction.h)
            steps = uncertain_steps(sde, samples, points, h)
            return log_variance(samples) - _diagonals(steps.changes) / _diagonals(steps.covariance)

        own = log_variance(self.b) - log_variance(self.a)
        draws = drawn(self.b, self.samples[1]) - drawn(self.a, self.samples[0])
        return Band(*map(np.exp, simultaneous_band(own, draws, level)))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Where and how two learned equations differ; `itofit.compare` makes it.

    Parameters
    ----------
    a, b : LearnedSDE
    names : two of str
        What the conditions are called.
    level : float
        Probability of a difference that is not there: of both tests together, and of each band.
    points : array of shape (n, m)
        Where functions were compared: evenly spaced for one input, otherwise where data are.
    drift : Band
        f_b − f_a at these places, shapes (n, d).
    variance_ratio : Band
        Σ_b,ii / Σ_a,ii at these places, shapes (n, d).
    drift_test, noise_test : ConditionTest or None
        Whether the data of both follow one drift, and one noise; None if they were not tested.
    why_not_tested : str
    answers : tuple of AnswerDifference
    samples : two SampledSDEs
        The equations that bands rest on.
    """

    a: LearnedSDE
    b: LearnedSDE
    names: tuple[str, str]
    level: float
    points: Float
    drift: Band
    variance_ratio: Band
    drift_test: ConditionTest | None
    noise_test: ConditionTest | None
    why_not_tested: str
    answers: tuple[AnswerDifference, ...]
    samples: tuple[SampledSDEs, SampledSDEs]

    @property
    def pair(self) -> Pair:
        """What is compared."""
        return Pair(self.a, self.b, self.samples)

    @property
    def drift_differs(self) -> bool:
        """Whether the drifts differ: by the test if there is one, else by the band."""
        return self._differs(self.drift_test, self.drift.excludes(0.0))

    @property
    def noise_differs(self) -> bool:
        """Whether the noises differ, likewise."""
        return self._differs(self.noise_test, self.variance_ratio.excludes(1.0))

    def _differs(self, test: ConditionTest | None, excluded: npt.NDArray[np.bool_]) -> bool:
        return bool(excluded.any()) if test is None else test.p < self.level / 2

    @property
    def differs(self) -> bool:
        """Whether anything differs."""
        return self.drift_differs or self.noise_differs

    def __repr__(self) -> str:
        differ = [word for word, own in (("drifts", self.drift_differs), ("noises", self.noise_differs)) if own]
        words = f"{' and '.join(differ)} differ" if differ else "no difference can be seen"
        return f"Comparison({self.names[0]}, {self.names[1]}: {words})"

    def __str__(self) -> str:
        (first, second), names = self.names, self.a.output_names
        lines = [f"{second} compared with {first}, at level {self.level:g}", ""]
        lines += self._words("drift", self.drift_test, self.drift_differs)
        lines += self._where("drift", self.drift, 0.0, "+.3g", [behind(self.a.units.drift(name)) for name in names])
        lines += self._words("noise", self.noise_test, self.noise_differs)
        lines += self._where("variance", self.variance_ratio, 1.0, ".3g", [" times"] * len(names))
        if self.why_not_tested:
            lines += [f"Not tested: {self.why_not_tested}."]
        if self.answers:
            lines += ["", *self._table()]
        return "\n".join(lines)

    def _words(self, what: str, test: ConditionTest | None, differs: bool) -> list[str]:
        if test is None:
            return [f"{capitalised(what)}: {'they differ' if differs else 'no difference can be seen'} by the band."]
        verdict = "they differ" if differs else "no difference can be seen"
        about = f"distance² {test.statistic:.3g} for {test.n_coefficients} coefficients, {p_text(test.p)}"
        return [f"{capitalised(what)}: {verdict} ({about})."]

    def _where(self, what: str, band: Band, none: float, form: str, units: Sequence[str]) -> list[str]:
        """For each output the range of the difference, and the share of places at which the band excludes none."""
        lines = []
        for j, (name, unit) in enumerate(zip(self.a.output_names, units, strict=True)):
            share = float(band.excludes(none)[:, j].mean())
            low, high = band.value[:, j].min(), band.value[:, j].max()
            lines.append(
                f"  {what} of {name}: {low:{form}} to {high:{form}}{unit}, beyond doubt at {share:.0%} of places"
            )
        return lines

    def _table(self) -> list[str]:
        width = max(len(own.name) for own in self.answers)
        head = f"{'':<{width}}  {self.names[0]:>12} {self.names[1]:>12}   difference"
        return [head, *(
            f"{own.name:<{width}}  {own.a:>12.4g} {own.b:>12.4g}   {own.text(self.level)}" for own in self.answers
        )]  # fmt: skip

    def _repr_html_(self) -> str:
        image = base64.b64encode(self.picture("png")).decode()
        shown = f'<img alt="both conditions and their differences" src="data:image/png;base64,{image}">'
        return printed_html(str(self)) + shown

    def as_dict(self) -> dict[str, Any]:
        """The comparison in numbers, lists and words, as JSON can hold them."""
        tested = {"drift": self.drift_test, "noise": self.noise_test}
        return {
            "names": list(self.names),
            "level": self.level,
            "units": self.a.units.as_dict(),
            "drift_differs": self.drift_differs,
            "noise_differs": self.noise_differs,
            "tests": {what: None if own is None else own._asdict() for what, own in tested.items()},
            "why_not_tested": self.why_not_tested,
            "points": self.points.tolist(),
            "drift": {name: own.tolist() for name, own in self.drift._asdict().items()},
            "variance_ratio": {name: own.tolist() for name, own in self.variance_ratio._asdict().items()},
            "answers": [asdict(own) for own in self.answers],
        }

    def picture(self, form: str = "png") -> bytes:
        """The figure of `plot` as the bytes of a file: "png", "svg" or "pdf"."""
        from matplotlib.figure import Figure  # noqa: PLC0415

        from itofit.looking.compare.compared_curves import figure_size  # noqa: PLC0415

        whole = Figure(figsize=figure_size(self), layout="constrained")
        return drawn(self.plot(whole), form, dpi=150)

    def plot(self, figure: Figure | None = None) -> Figure:
        """Drift and variance of both conditions, and below them their differences with simultaneous bands.

        Of several inputs, differences are drawn along each, the others at the middle of the compared places.
        """
        from itofit.looking.compare.compared_curves import drawn  # noqa: PLC0415

        return drawn(self, figure)
