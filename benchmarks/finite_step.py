"""What the correction for the length of steps does to the errors of drift and covariance, paired on the same data.

Parts, all of them or those that are named:

- `cases`: root mean square errors against the true functions, without and with the correction: the paper's experiments,
  3a and 3b with ten times the data, long and irregular steps, few data, and data that were made by single Euler steps
  of length h, so that the functions of one step are the truth;
- `linear`: the bias for an Ornstein-Uhlenbeck process of a million transitions, h θ = 0.01, 0.1, 0.3;
- `escape`: the mean time to leave a well of a double well that is seen at one and four tenths of its relaxation time;
- `gaps`: tracks of a limit cycle in which 3 % of the steps are ten to forty times as long as the others;
- `seconds`: of both fits;
- `figure`: docs/figures/finite-step.svg, the drift of 3a learned at four lengths of steps.

Results go to benchmarks/results/finite_step_*.json.

    python benchmarks/finite_step.py [cases linear escape gaps seconds figure] [--seeds 20] [--jobs 2]
"""

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.integrate
from common import write_results
from quality import errors, task
from threadpoolctl import threadpool_limits

import itofit
from itofit.experiments import EXPERIMENTS
from itofit.looking.plot.canvas import LEARNED, SECOND, style

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "finite-step.svg"
FIGURE_H, FIGURE_TRANSITIONS = [0.001, 0.01, 0.05, 0.1], 50_000
PAPER = ["1", "2", "3a", "3b", "4a", "4b", "5", "6-events", "6-lag"]
FINE_STEPS = 200
POINTS = 2000
LINEAR = [0.01, 0.1, 0.3]
WELL_H = [0.05, 0.2]
"""A tenth of the time in which a path relaxes in a well, 1 / |f'(±1)| = 0.5, and four tenths."""
WELL_SIGMA, WELL_TRANSITIONS = 0.5, 1_000_000
WELL_END = 0.5
"""Where a path from −1 has left the left well for good."""


def both(data, seed):
    """The model of one step and the corrected one, from one fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.DataWarning)
        sde = itofit.fit(data, measurement_noise=False, rng=seed)  # of what was simulated without errors
    return sde.one_step, sde


def from_experiment(name, n, seed, fine_steps=FINE_STEPS):
    """Data of an experiment, and points with the true functions."""
    data_seed, fit_seed, point_seed = np.random.SeedSequence(seed).generate_state(3)
    source = EXPERIMENTS[name]
    x = np.random.default_rng(point_seed).uniform(source.low, source.high, (POINTS, source.n_inputs))
    truth = source.drift(x), source.covariance(x)
    return source.sample(n, rng=data_seed, fine_steps=fine_steps), x, truth, int(fit_seed)


def from_paper(name, seed):
    given = task(name, seed)
    return given.train, given.held_out.inputs, (given.drift, given.covariance), given.seed


def long_steps(name, h, n, seed):
    """The same with steps of another length."""
    source = replace(EXPERIMENTS[name], h=h)
    data_seed, fit_seed, point_seed = np.random.SeedSequence(seed).generate_state(3)
    x = np.random.default_rng(point_seed).uniform(source.low, source.high, (POINTS, source.n_inputs))
    data = source.sample(n, rng=data_seed, fine_steps=int(FINE_STEPS * max(1, h / EXPERIMENTS[name].h)))
    return data, x, (source.drift(x), source.covariance(x)), int(fit_seed)


def irregular_steps(seed):
    """3a with steps of 0.002 to 0.02."""
    parts = [long_steps("3a", h, 2_500, 1000 * seed + i) for i, h in enumerate((0.002, 0.005, 0.01, 0.02))]
    data = itofit.Transitions.concatenate([part[0] for part in parts])
    return data, *parts[0][1:]


def few_linear(h, n, seed):
    """Of dx = −x dt + dW in its stationary state."""
    rng = np.random.default_rng([seed, 3])
    x0 = np.sqrt(0.5) * rng.normal(size=n)
    x1 = np.exp(-h) * x0 + np.sqrt((1 - np.exp(-2 * h)) / 2) * rng.normal(size=n)
    x = np.sqrt(0.5) * rng.normal(size=(POINTS, 1))
    return itofit.Transitions.from_pairs(x0, x1, h), x, (-x, np.ones((POINTS, 1, 1))), seed


def limit_cycle(h, seed, n_tracks=200, n_steps=15, sigma=0.1):
    """The oscillator of van der Pol with μ = 2 and noise in both variables, on its cycle."""

    def drift(z):
        return np.stack([z[:, 1], 2 * (1 - z[:, 0] ** 2) * z[:, 1] - z[:, 0]], axis=1)

    rng = np.random.default_rng([seed, 4])
    z, seen, fine = rng.uniform(-2, 2, (n_tracks, 2)), [], 100
    for _ in range(20 + n_steps + 1):
        seen.append(z)
        for _ in range(fine):
            z = z + h / fine * drift(z) + sigma * np.sqrt(h / fine) * rng.normal(size=z.shape)
    tracks = np.stack(seen[20:], axis=1)
    data = itofit.Transitions.from_trajectories(list(tracks), dt=h)
    x = data.inputs[:: max(1, len(data) // POINTS)]
    return data, x, (drift(x), np.broadcast_to(sigma**2 * np.eye(2), (len(x), 2, 2))), seed


CASES = {
    **{name: partial(from_paper, name) for name in PAPER},
    "3a, N = 100,000": partial(from_experiment, "3a", 100_000),
    "3b, N = 100,000": partial(from_experiment, "3b", 100_000),
    "3a, N = 1,000": partial(from_experiment, "3a", 1_000),
    "3a, N = 300": partial(from_experiment, "3a", 300),
    "3a, h = 0.05": partial(long_steps, "3a", 0.05, 10_000),
    "3a, h = 0.002 to 0.02": irregular_steps,
    "5, h = 0.05": partial(long_steps, "5", 0.05, 10_000),
    "linear, h = 0.3, N = 2,000": partial(few_linear, 0.3, 2_000),
    "van der Pol, h = 0.1, N = 3,000": partial(limit_cycle, 0.1),
    "van der Pol, h = 0.3, N = 3,000": partial(limit_cycle, 0.3),
    "3a, made by one Euler step": partial(from_experiment, "3a", 10_000, fine_steps=1),
}


def run_case(name, seed):
    with threadpool_limits(1):
        data, x, truth, fit_seed = CASES[name](seed)
        result = {"case": name, "seed": seed}
        for which, sde in zip(("one_step", "corrected"), both(data, fit_seed), strict=True):
            result[f"{which}_drift"], result[f"{which}_covariance"] = errors(sde, x, truth)
        record = sde.step_correction
        return result | {"trust": record.drift_trust, "rounds": record.rounds, "withheld": record.withheld}


def cases(arguments, pool):
    rows, everything = [], []
    for name in arguments.cases:
        runs = list(pool.map(partial(run_case, name), range(arguments.seeds)))
        everything += runs
        row = {"case": name, "seeds": len(runs), "withheld": sum(r["withheld"] for r in runs)}
        for what in ("drift", "covariance"):
            before, after = (np.array([r[f"{which}_{what}"] for r in runs]) for which in ("one_step", "corrected"))
            row |= {
                f"one_step_{what}": float(before.mean()),
                f"corrected_{what}": float(after.mean()),
                f"{what}_change_95": float(1.96 * (after - before).std(ddof=1) / np.sqrt(len(runs))),
                f"worst_one_step_{what}": float(before.max()),
                f"worst_corrected_{what}": float(after.max()),
                f"worst_ratio_{what}": float((after / before).max()),
            }
        rows.append(row)
        print(name, {key: round(value, 4) for key, value in row.items() if isinstance(value, float)}, flush=True)
    write_results("finite_step_cases", rows, runs=everything)


def run_linear(h, seed):
    """Errors of slope and noise of dx = −x dt + dW, in stationary data."""
    with threadpool_limits(1):
        rng = np.random.default_rng([seed, int(1000 * h)])
        x0 = np.sqrt(0.5) * rng.normal(size=1_000_000)
        x1 = np.exp(-h) * x0 + np.sqrt((1 - np.exp(-2 * h)) / 2) * rng.normal(size=len(x0))
        x = np.linspace(-1, 1, 101)
        found = {"h": h, "seed": seed}
        learned = both(itofit.Transitions.from_pairs(x0, x1, h), seed)
        for which, sde in zip(("one_step", "corrected"), learned, strict=True):
            found[f"{which}_slope"] = float(np.polyfit(x, sde.drift(x)[:, 0], 1)[0] + 1)
            found[f"{which}_noise"] = float(sde.covariance(x).mean() - 1)
        return found


def linear(arguments, pool):
    rows, everything = [], []
    for h in LINEAR:
        runs = list(pool.map(partial(run_linear, h), range(arguments.seeds)))
        everything += runs
        row = {"h": h, "seeds": len(runs)}
        for which in ("one_step", "corrected"):
            for what in ("slope", "noise"):
                values = np.array([r[f"{which}_{what}"] for r in runs])
                row[f"{which}_{what}"] = float(values.mean())
                row[f"{which}_{what}_error"] = float(values.std(ddof=1) / np.sqrt(len(runs)))
        rows.append(row)
        print({key: round(value, 5) for key, value in row.items()}, flush=True)
    write_results("finite_step_linear", rows, runs=everything)


def well_drift(x):
    return x - x**3


def escape_time(drift, variance):
    """Mean time from −1 to WELL_END, by the integral over the scale and speed of a process in one dimension."""
    x = np.linspace(-2.5, WELL_END, 6001)
    slope = 2 * drift(x) / variance(x)
    scale = np.concatenate([[0.0], scipy.integrate.cumulative_trapezoid(slope, x)])
    speed = np.concatenate([[0.0], scipy.integrate.cumulative_trapezoid(2 / variance(x) * np.exp(scale), x)])
    start = np.searchsorted(x, -1.0)
    return float(scipy.integrate.trapezoid((np.exp(-scale) * speed)[start:], x[start:]))


def simulated_escape_time(sde, dt, seed, n_paths=1000, most=1000.0):
    """The same from paths that are looked at after every step of the model's own scheme, cut at a time few reach."""
    steps, passed, x = int(most / dt), np.full(n_paths, most), np.full((n_paths, 1), -1.0)
    inside, at, rng = np.arange(n_paths), 0, np.random.default_rng(seed)
    while at < steps and len(inside):
        n = min(500, steps - at)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", itofit.ExtrapolationWarning)
            paths = sde.simulate(x, dt, n, rng=rng, progress=False)[:, 1:, 0]
        over = paths > WELL_END
        first = np.where(over.any(axis=1), over.argmax(axis=1), n)
        left = first < n
        passed[inside[left]] = (at + first[left] + 1) * dt
        inside, x, at = inside[~left], paths[~left, -1:], at + n
    return float(passed.mean())


def well_tracks(rng, h, n_tracks=2000):
    """Tracks of the double well, started in its minima, by steps of 0.001."""
    n_times, fine = WELL_TRANSITIONS // n_tracks + 1, round(h / 0.001)
    x = rng.choice([-1.0, 1.0], n_tracks)
    tracks = np.empty((n_tracks, n_times, 1))
    for i in range(-20, n_times):
        if i >= 0:
            tracks[:, i, 0] = x
        for _ in range(fine):
            x = x + h / fine * well_drift(x) + WELL_SIGMA * np.sqrt(h / fine) * rng.normal(size=n_tracks)
    return tracks


def run_escape(h, seed):
    """Mean escape times of the learned equations: of their functions, and of simulated paths with dt = h / 5."""
    with threadpool_limits(1):
        data = itofit.Transitions.from_trajectories(well_tracks(np.random.default_rng([seed, 7]), h), dt=h)
        found = {"h": h, "seed": seed}
        for which, sde in zip(("one_step", "corrected"), both(data, seed), strict=True):

            def clipped(x, box=sde.box):
                return np.clip(x, *box[:, 0])

            found[which] = escape_time(
                lambda x, sde=sde, at=clipped: sde.drift(at(x))[:, 0],
                lambda x, sde=sde, at=clipped: sde.covariance(at(x))[:, 0, 0],
            )
            found[f"{which}_simulated"] = simulated_escape_time(sde, h / 5, seed)
        return found


def escape(arguments, pool):
    truth = escape_time(well_drift, lambda x: np.full(len(x), WELL_SIGMA**2))
    rows, everything = [], []
    for h in WELL_H:
        runs = list(pool.map(partial(run_escape, h), range(arguments.seeds)))
        everything += runs
        row = {"h": h, "truth": truth, "seeds": len(runs)}
        for which in ("one_step", "corrected", "one_step_simulated", "corrected_simulated"):
            ratio = np.array([r[which] for r in runs]) / truth
            row |= {which: float(ratio.mean()), f"{which}_spread": float(ratio.std(ddof=1))}
            row[f"{which}_worst"] = float(np.abs(ratio - 1).max())
        rows.append(row)
        print({key: round(value, 4) for key, value in row.items()}, flush=True)
    write_results("finite_step_escape", rows, runs=everything)


def cycle_drift(x):
    radius = (x**2).sum(axis=1, keepdims=True)
    return x * (1 - radius) + 1.5 * np.stack([-x[:, 1], x[:, 0]], axis=1)


def tracks_with_gaps(seed, n_tracks=40, n_steps=80, share=0.03, sigma=0.3, fine=0.002):
    """Tracks of a noisy limit cycle with steps of about 0.05, of which 3 % take 0.5 to 2, simulated by finer ones."""
    rng = np.random.default_rng([seed, 5])
    paths, times = [], []
    for _ in range(n_tracks):
        h = np.where(rng.random(n_steps) < share, rng.uniform(0.5, 2, n_steps), rng.uniform(0.03, 0.07, n_steps))
        x, seen = rng.normal(size=(1, 2)), []
        for step in h:
            seen.append(x[0])
            n = max(int(step / fine), 1)
            for noise in sigma * np.sqrt(step / n) * rng.normal(size=(n, 1, 2)):
                x = x + step / n * cycle_drift(x) + noise
        paths.append(np.array([*seen, x[0]]))
        times.append(np.concatenate([[0.0], np.cumsum(h)]))
    return itofit.Transitions.from_trajectories(paths, times=times)


def run_gaps(seed):
    """Errors at the steps of usual length of fits to all data and to these alone."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.DataWarning)
        data = tracks_with_gaps(seed)
        short = data[data.h < 0.3]
        truth = cycle_drift(short.inputs), np.broadcast_to(0.09 * np.eye(2), (len(short), 2, 2))
        fits = {
            "all steps, not corrected": (data, {"max_h": None, "correct_step": False}),
            "all steps, default": (data, {}),
            "without the long steps, default": (short, {}),
            "without the long steps, not corrected": (short, {"correct_step": False}),
        }
        found = {}
        for name, (given, options) in fits.items():
            found[name] = errors(itofit.fit(given, rng=seed, **options), short.inputs, truth)
        return found


def gaps(arguments, pool):
    runs = list(pool.map(run_gaps, range(arguments.seeds)))
    rows = []
    for name in runs[0]:
        drift, covariance = np.array([run[name] for run in runs]).T
        rows.append({"fit": name, "drift": float(drift.mean()), "covariance": float(covariance.mean())})
        rows[-1] |= {"worst_drift": float(drift.max()), "worst_covariance": float(covariance.max()), "seeds": len(runs)}
        print(rows[-1], flush=True)
    write_results("finite_step_gaps", rows, runs=runs)


def seconds(arguments, _):
    rows = []
    for name in PAPER:
        times = {False: [], True: []}
        for seed in range(5):
            given = task(name, seed)
            for correct_step, fastest in times.items():
                again = []
                for _ in range(3):
                    began = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", itofit.DataWarning)
                        itofit.fit(given.train, rng=given.seed, correct_step=correct_step)
                    again.append(time.perf_counter() - began)
                fastest.append(min(again))
        without, with_it = (float(np.mean(times[which])) for which in (False, True))
        rows.append({"experiment": name, "without": without, "with": with_it, "ratio": with_it / without})
        print({key: round(v, 3) if isinstance(v, float) else v for key, v in rows[-1].items()}, flush=True)
    write_results("finite_step_seconds", rows)


def figure(_, __):
    """True drift, drift of one step and corrected drift, and what is wrong with the last two."""
    with style():
        fig, axes = plt.subplots(2, len(FIGURE_H), figsize=(11, 5.2), sharex=True, sharey="row", layout="constrained")
        x = np.linspace(-2, 2, 201)
        truth = EXPERIMENTS["3a"].drift(x[:, None])[:, 0]
        for (above, below), h in zip(axes.T, FIGURE_H, strict=True):
            one_step, sde = both(long_steps("3a", h, FIGURE_TRANSITIONS, 0)[0], 0)
            above.plot(x, truth, "k--", linewidth=1.4, label="true drift", zorder=3)
            below.axhline(0, color="k", linestyle="--", linewidth=1.4)
            styles = (("drift of one step", one_step, SECOND, ":"), ("corrected", sde, LEARNED, "-"))
            for label, model, colour, line in styles:
                f, std = (values[:, 0] for values in model.drift(x, return_std=True))
                above.plot(x, f, line, color=colour, linewidth=2, label=label)
                below.plot(x, f - truth, line, color=colour, linewidth=2)
                below.fill_between(x, f - truth - 2 * std, f - truth + 2 * std, color=colour, alpha=0.2, linewidth=0)
            above.set_title(f"h = {h:g}")
            below.set_xlabel("x")
        axes[0, 0].set_ylabel("f(x)")
        axes[1, 0].set_ylabel("learned − true, ± 2 std")
        axes[1, 0].set_ylim(-2.2, 2.2)
        axes[0, -1].legend(fontsize="small", loc="upper right")
        fig.savefig(FIGURE, metadata={"Date": None})
    print(f"drawn: {FIGURE}")


PARTS = {"cases": cases, "linear": linear, "escape": escape, "gaps": gaps, "seconds": seconds, "figure": figure}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=[*PARTS, []])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    args = parser.parse_args()
    with ProcessPoolExecutor(args.jobs) as workers:
        for part in args.parts or PARTS:
            PARTS[part](args, workers)
