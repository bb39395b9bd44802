"""Random equations, learned by default: one part of `campaign.py`.

Equations are those of `random_equations.py` with one to five variables, and are seen in more ways: pairs, one track,
many, tracks with gaps, through errors of measurement, driven by covariates, with an angle, with inertia, or by
positions alone; 30 to 100,000 transitions, at even or uneven steps, in any units. The result of `fit` is saved,
loaded, checked and simulated. Faults are exceptions, numbers that are not finite, covariances that are not positive
definite, a model that is another after loading, and a loss with fresh noise at the places where the training
transitions start that is more than 0.02 per variable above that of the best constant drift and covariance of the same
data.
"""

import time
import warnings

import fuzz_rules
import numpy as np
import random_equations
from fuzz_material import folder
from random_equations import ALLOWED, Equation

import itofit
from itofit import Transitions
from itofit.model.likelihood import gaussian_nll

FORMS = {"pairs": 0.2, "track": 0.14, "tracks": 0.15, "gaps": 0.12, "noise": 0.12, "driven": 0.1, "angle": 0.08,
         "inertia": 0.06, "positions": 0.03}  # fmt: skip
SUBSTEPS = 10
FRESH = 4_000
LONGEST_TRACK = 2_000
"""Steps that are made one after the other."""
SECONDS = 900
MOST_POSITIONS = 5_000


def size(seed):
    """How many transitions a trial asks for."""
    return int(np.exp(np.random.default_rng([seed, 23]).uniform(np.log(30), np.log(100_000))))


class World:
    """An equation with what drives it, and how it is seen.

    States z (n, D) are in units of order one: what moves, and then covariates, which are held during a step. Of second
    order, the first half of what moves are positions.
    """

    def __init__(self, seed):
        rng = np.random.default_rng([seed, 29])
        self.n, self.form = size(seed), str(rng.choice(list(FORMS), p=list(FORMS.values())))
        if self.form == "positions":
            self.n = min(self.n, MOST_POSITIONS)
        self.second_order = self.form in ("inertia", "positions")
        d = int(rng.integers(1, 3)) if self.second_order else int(rng.integers(1, 6))
        self.k = int(rng.integers(1, 3)) if self.form == "driven" else 0
        self.moving = 2 * d if self.second_order else d
        self.d = d
        self.equation = Equation(rng, self.moving + self.k)
        self.steps_kind = str(rng.choice(["even", "mild", "wild"], p=[0.5, 0.3, 0.2]))
        self.h = 10 ** rng.uniform(-3, -0.3) if not self.second_order else 10 ** rng.uniform(-2.5, -1)
        self.length = 10 ** rng.uniform(-3, 3, self.moving + self.k)
        if self.second_order:
            self.length = np.concatenate([self.length[:d]] * 2)
        self.time = 10 ** rng.uniform(-2, 2) if not self.second_order else 1.0
        self.noise = 10 ** rng.uniform(-1.5, 0.3)  # in units of the root mean square of a step
        self.gaps = rng.uniform(0.02, 0.2)

    def steps(self, rng, n):
        """Lengths of n steps."""
        if self.steps_kind == "even":
            return np.full(n, self.h)
        return self.h * (rng.uniform(0.5, 1.5, n) if self.steps_kind == "mild" else np.exp(rng.standard_normal(n)))

    def advanced(self, rng, z, h):
        """What moves, after steps h (n,)."""
        k, moving = (h / SUBSTEPS)[:, None], self.moving
        for _ in range(SUBSTEPS):
            at = z.copy()
            if self.form == "angle":
                at[:, 0] = 1.5 * np.sin(z[:, 0])
            f = self.equation.drift(at)[:, :moving]
            kick = (self.equation.noise(at) @ rng.standard_normal((*z.shape, 1)))[:, :moving, 0]
            if self.second_order:
                x, v = z[:, : self.d], z[:, self.d : moving]
                f = np.concatenate([v, f[:, self.d :] - x], axis=1)
                kick = np.concatenate([np.zeros_like(x), kick[:, self.d :]], axis=1)
            z = z.copy()
            z[:, :moving] += k * f / (1 + k * np.abs(f)) + np.sqrt(k) * kick
        return z

    @property
    def periodic(self):
        """Which of the variables is an angle, in the user's units."""
        return {0: 2 * np.pi * float(self.length[0])} if self.form == "angle" else None

    def pairs(self, rng, z, h):
        """Transitions from states z (n, D), in the user's units."""
        after = self.advanced(rng, z, h)
        x0, x1 = z * self.length, after * self.length
        if self.second_order:
            parts = (x0[:, : self.d], x0[:, self.d :], x1[:, : self.d], x1[:, self.d :])
            return Transitions.from_underdamped(*parts, h * self.time)
        u = x0[:, self.moving :] if self.k else None
        moving = slice(0, self.moving)
        return Transitions.from_pairs(x0[:, moving], x1[:, moving], h * self.time, covariates=u, periodic=self.periodic)

    def seen(self, rng):
        """The data, and where each of their transitions started in truth: z (n, D) and h (n,)."""
        alone = self.form in ("pairs", "inertia") or (self.form in ("driven", "angle") and rng.random() < 0.5)
        if alone:
            z = rng.standard_normal((self.n, self.moving + self.k))
            h = self.steps(rng, self.n)
            return self.pairs(rng, z, h), z, h
        n_steps = self.n if self.form == "track" else int(rng.integers(5, 200))
        n_steps = max(2, min(n_steps, LONGEST_TRACK, self.n))
        z = rng.standard_normal((max(1, self.n // n_steps), self.moving + self.k))
        states, times = [z], [np.zeros(len(z))]
        for _ in range(n_steps):
            h = self.steps(rng, len(z))
            z = self.advanced(rng, z, h)
            z[:, self.moving :] = 0.95 * z[:, self.moving :] + 0.3 * rng.standard_normal((len(z), self.k))
            states.append(z)
            times.append(times[-1] + h)
        return self.tracks(rng, np.stack(states, axis=1), np.stack(times, axis=1))

    def tracks(self, rng, states, times):
        """The data of whole tracks of states (tracks, steps, D)."""
        shown = states * self.length
        seen = shown[:, :, : self.moving].copy()
        if self.form == "gaps":
            seen[rng.random(seen.shape[:2]) < self.gaps] = np.nan
        if self.form == "noise":
            unit = np.sqrt(np.mean(np.diff(seen, axis=1) ** 2, axis=(0, 1)))
            seen += self.noise * unit * rng.standard_normal(seen.shape)
        clocks, u = times * self.time, shown[:, :, self.moving :]
        if self.form == "positions":
            return Transitions.from_positions(list(seen[:, :, : self.d]), times=list(clocks)), None, None
        driven = {"covariates": list(u)} if self.k else {}
        data = Transitions.from_trajectories(list(seen), times=list(clocks), periodic=self.periodic, **driven)
        if self.form == "noise":  # none is left out: in the order of the tracks
            z = states[:, :-1].reshape(-1, states.shape[2])
            return data, z, np.diff(times, axis=1).reshape(-1)
        return data, data.inputs / self.length, data.h / self.time


def above_constants(world, sde, data, fresh):
    """Mean loss per variable above that of the best constants of the data, with fresh noise."""
    if sde.measurement_noise is None:
        return random_equations.above_constants(sde, data, fresh)[0]
    data, fresh = random_equations.without_long_steps(sde, data, fresh)
    drift, covariance = random_equations.constants(data)  # states are known, and no filter is needed
    mean, own = sde.step_moments(fresh.inputs, fresh.h)
    n = len(fresh)
    constant = gaussian_nll(fresh.increments, fresh.h, np.tile(drift, (n, 1)), np.tile(covariance, (n, 1, 1)))
    return float((gaussian_nll(fresh.increments, fresh.h, mean, own) - constant).mean() / world.d)


def trial(seed):
    """One equation."""
    world = World(seed)
    drawn, again = (np.random.default_rng([seed, 31, part]) for part in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, z, h = world.seen(drawn)
        fresh = None
        if z is not None:
            rows = np.resize(np.arange(len(z)), max(FRESH, len(z)))
            fresh = world.pairs(again, z[rows], h[rows])
    began, measured = time.perf_counter(), {}

    def learn():
        sde = itofit.fit(data, rng=seed)
        measured["seconds"] = round(time.perf_counter() - began, 2)
        return sde

    def wrong(sde):
        yield from used(sde, data, folder() / "equation.npz", seed)
        if fresh is not None:
            measured["above"] = above_constants(world, sde, data, fresh)
            if not measured["above"] <= ALLOWED:
                yield f"{measured['above']:.3f} per variable above constants"

    judged = fuzz_rules.judged(learn, wrong, seconds=SECONDS)
    return {
        "kind": world.form,
        "outcome": judged.outcome,
        "text": judged.text[:400],
        "d": world.d,
        "n": len(data),
        "h": world.h,
        "drift": world.equation.drift_kind,
        "noise": world.equation.noise_kind + (", full" if world.equation.full else ""),
        "steps": world.steps_kind,
        **measured,
    }


def used(sde, data, path, seed):
    """Texts of what goes wrong when a learned equation is saved, loaded, checked, evaluated and simulated."""
    try:
        sde.save(path)
        loaded = itofit.load(path)
    except itofit.ModelFileError as error:
        yield f"cannot be saved or loaded: {error}"
        return
    x = sde.box.mean(axis=0, keepdims=True)
    if not (np.array_equal(loaded.drift(x), sde.drift(x)) and np.array_equal(loaded.covariance(x), sde.covariance(x))):
        yield "another equation after loading"
    if not str(itofit.check(loaded, data, rng=0)) or not loaded.summary():
        yield "no text"
    if data.kind == "positions":
        yield from fuzz_rules.unfit_model(sde, np.stack([sde.box[0], x[0], sde.box[1]]))
        return
    faults, overflows = random_equations.faults(loaded, data, np.random.default_rng(seed))
    yield from faults
    if overflows:
        yield "intervals overflow"
