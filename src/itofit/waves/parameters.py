"""Parameters of Algorithm 1: as they may be set, and as one training uses them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from itofit._checks import InputError, count, flag, fraction, one_of, positive
from itofit.waves.normal_equations import LEAST_RIDGE, MOST_INPUTS, Form, cheaper_form

Pairing = Literal["printed", "reindex", "solve"]

SEARCH_ROWS_PER_FEATURE, SEARCH_ROWS_LEAST = 100, 25_000
"""Rows that a search with direct sums sees: enough to tell its frequencies apart, few enough for seconds."""
SEARCH_ROWS_THREE_INPUTS = 250_000
"""Rows that a search with moments of three inputs sees: more take seconds to make."""


@dataclass(frozen=True, kw_only=True)
class ARFF:
    """Parameters of Algorithm 1; `None` means "choose it from the data".

    How is said in docs/automatic.md for the default of `itofit.fit`, and below for ``fit(..., refine=False)`` and
    `ARFFRegressor`. A field that is set is obeyed by all of them.

    Parameters
    ----------
    n_features : int, optional
        K, the number of frequencies. None: one for every 20 rows, at least 8 and at most 128.
    ridge : float, optional
        λ, the Tikhonov parameter: (SᴴS + λN) β̂ = Sᴴy. None: 0.002, the paper's.
    delta : float, optional
        δ, the step of the frequencies' random walk, for inputs scaled to [0, 1]. None: 0.3; the paper's is 0.1.
    gamma : float, optional
        γ, the exponent of the Metropolis test. None: 1, the paper's.
    resample : bool
        Draw the frequencies again in proportion to their amplitudes before each proposal.
    pairing : {"printed", "reindex", "solve"}, optional
        Which amplitudes the Metropolis test compares with after resampling: those in the old order, as the paper
        prints it; those that travelled with their frequency; or those solved again for the resampled frequencies.
        None: "printed" (docs/amplitude-pairing.md has the measurement).
    min_iterations : int, optional
        Iterations before the stagnation rule starts to count. None: 20.
    max_iterations : int, optional
        Iterations at most. None: 300, or twice `min_iterations` if that is more.
    validation_fraction : float
        Share of the rows held out for the stagnation rule and the choice of the best network. The default of
        `itofit.fit` judges networks by evidence, which takes all rows.
    search_rows : int, optional
        With more rows than this, frequencies are searched on a random subset of this size and the final amplitudes
        solved on all rows; the default of `itofit.fit` takes that of the drift for both trainings. None: with gridded
        normal equations all rows for one or two inputs and 250,000 for three,
        with direct ones 100 for every feature, at least 25,000.
    normal_equations : {"direct", "gridded"}, optional
        How sums over the data are made: row by row, or from moments of the data at a cost that does not depend on
        the number of rows, for up to three inputs. None: whichever costs less. A gridded training whose frequencies
        grow beyond what is worth the moments starts again as a direct one.

    Examples
    --------
    >>> import itofit
    >>> itofit.ARFF(n_features=128, ridge=2e-3, delta=0.1).n_features
    128
    """

    n_features: int | None = None
    ridge: float | None = None
    delta: float | None = None
    gamma: float | None = None
    resample: bool = True
    pairing: Pairing | None = None
    min_iterations: int | None = None
    max_iterations: int | None = None
    validation_fraction: float = 0.1
    search_rows: int | None = None
    normal_equations: Form | None = None

    def __post_init__(self) -> None:
        for name, least in (("n_features", 1), ("min_iterations", 0), ("max_iterations", 0), ("search_rows", 20)):
            if getattr(self, name) is not None:
                count(name, getattr(self, name), least=least)
        for name in ("ridge", "delta", "gamma"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name), zero=True)
        if None not in (self.min_iterations, self.max_iterations) and self.min_iterations > self.max_iterations:  # type: ignore[operator]
            raise InputError(
                f"min_iterations must not exceed max_iterations, got {self.min_iterations} and {self.max_iterations}"
            )
        fraction("validation_fraction", self.validation_fraction)
        flag("resample", self.resample)
        if self.pairing is not None:
            one_of("pairing", self.pairing, get_args(Pairing))
        if self.normal_equations is not None:
            one_of("normal_equations", self.normal_equations, get_args(Form))

    def resolve(self, n_rows: int, n_inputs: int, n_outputs: int = 1) -> Settings:
        """These parameters with every `None` replaced by a choice for so many rows, inputs and outputs."""
        for name, value in (("n_rows", n_rows), ("n_inputs", n_inputs), ("n_outputs", n_outputs)):
            count(name, value)

        def first(value: int | None, default: int) -> int:
            return default if value is None else int(value)

        K = first(self.n_features, min(128, max(8, n_rows // 20)))
        least = first(self.min_iterations, 20 if self.max_iterations is None else min(20, self.max_iterations))
        ridge = 2e-3 if self.ridge is None else float(self.ridge)
        all_or_given = first(self.search_rows, n_rows)
        form = self.normal_equations or cheaper_form(min(all_or_given, n_rows), K, n_inputs, n_outputs, ridge)
        if form == "gridded" and n_inputs > MOST_INPUTS:
            raise InputError(
                f"normal_equations='gridded' serves up to {MOST_INPUTS} inputs, the data have {n_inputs}; "
                "use 'direct' or None"
            )
        if form == "gridded" and ridge < LEAST_RIDGE:
            raise InputError(
                f"normal_equations='gridded' needs a ridge of at least {LEAST_RIDGE:g}, got {ridge:g}: below, "
                "amplitudes depend on digits that it does not have; use 'direct' or None"
            )
        return Settings(
            n_features=K,
            ridge=ridge,
            delta=0.3 if self.delta is None else float(self.delta),
            gamma=1.0 if self.gamma is None else float(self.gamma),
            resample=self.resample,
            pairing="printed" if self.pairing is None else self.pairing,
            min_iterations=least,
            max_iterations=first(self.max_iterations, max(300, 2 * least)),
            validation_fraction=float(self.validation_fraction),
            search_rows=first(self.search_rows, _rows_to_search(form, n_rows, n_inputs, K)),
            normal_equations=form,
        )


def _rows_to_search(form: Form, n_rows: int, n_inputs: int, K: int) -> int:
    if form == "direct":
        return max(SEARCH_ROWS_LEAST, SEARCH_ROWS_PER_FEATURE * K)
    return n_rows if n_inputs < MOST_INPUTS else SEARCH_ROWS_THREE_INPUTS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of one training, every one chosen; the fields are those of `ARFF`."""

    n_features: int
    ridge: float
    delta: float
    gamma: float
    resample: bool
    pairing: Pairing
    min_iterations: int
    max_iterations: int
    validation_fraction: float
    search_rows: int
    normal_equations: Form

    def as_arff(self) -> ARFF:
        """The same as parameters, every one set."""
        return ARFF(**asdict(self))
