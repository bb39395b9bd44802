"""Names that users of other packages look for in an equation, and what to call instead."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

INSTEAD = {
    "predict": "drift(x) and covariance(x) are the learned functions, simulate(x0, dt, n_steps) makes paths",
    "fit": "a learned equation is not learned again: itofit.fit(data) learns another one",
    "f": "the drift is drift(x)",
    "mu": "the drift is drift(x)",
    "a": "the drift is drift(x)",
    "b": "the noise is diffusion(x), its covariance covariance(x)",
    "g": "the noise is diffusion(x), its covariance covariance(x)",
    "sigma": "the noise is diffusion(x), its covariance covariance(x)",
    "Sigma": "the covariance of the noise is covariance(x)",
    "D": "the covariance of the noise is covariance(x), which is 2 D in physics",
    "score": "nll(data) is the loss, smaller is better; itofit.check(sde, data) examines it",
    "loglik": "nll(data) is the negative log-likelihood for each transition",
    "log_likelihood": "nll(data) is the negative log-likelihood for each transition",
    "loss": "nll(data) is the loss",
    "plot": "itofit.plot draws equations: itofit.plot.drift(sde, data), for example",
    "report": "itofit.report(sde, data, 'report.html') writes a page",
    "check": "itofit.check(sde, data) examines it",
    "load": "itofit.load(path) reads a model",
    "coef_": "summary() says what was learned, drift_function.series holds frequencies and amplitudes",
}
"""What to use instead of names that an equation does not have."""

SIMULATE = {
    "T": "n_steps=round(T / dt)",
    "t_end": "n_steps=round(t_end / dt)",
    "n": "n_steps",
    "steps": "n_steps",
    "seed": "rng",
    "random_state": "rng",
    "n_paths": "x0 with one row for each path",
    "paths": "x0 with one row for each path",
    "h": "dt",
}
"""What `simulate` calls things that users of other packages give."""


class Hints:
    """Says, where an attribute is missing, which one to use."""

    if not TYPE_CHECKING:  # or checkers of types would believe that all attributes exist

        def __getattr__(self, name: str) -> NoReturn:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            near = () if name.startswith("_") else get_close_matches(name, dir(type(self)), n=1, cutoff=0.75)
            if name in INSTEAD:
                text += f": {INSTEAD[name]}"
            elif near:
                text += f": is it {near[0]} that you mean?"
            raise AttributeError(text, name=name, obj=self)
