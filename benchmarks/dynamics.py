"""Answers of itofit.dynamics: against closed forms at the true functions, and how often intervals cover the truth.

Exact: the error of each answer for an equation whose functions are given, with the default grid, and its seconds.
Learned: data sets are simulated in ten substeps of each observed step, an equation is learned from each, and the true
answer is or is not within the 95 % interval. Seconds: CPU time of every answer, with 50 samples.

    python benchmarks/dynamics.py exact [--results]
    python benchmarks/dynamics.py seconds [--results]
    python benchmarks/dynamics.py learned [--seeds 60] [--first 0] [--jobs 2] [--output runs.jsonl] [--results]
"""

import argparse
import json
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from common import mean_and_error, write_results
from scipy.linalg import solve_continuous_lyapunov
from threadpoolctl import threadpool_limits

import itofit
from itofit import dynamics
from itofit.model.known import KnownSDE

SUBSTEPS, SAMPLES = 10, 50
S = 0.7
"""Noise of the double well: its barrier is one Σ/2."""


def constant(root):
    return lambda x: np.broadcast_to(root, (len(x), *np.shape(root)))


def double_well(s=S):
    return KnownSDE(f=lambda x: x - x**3, sigma=constant(np.array([[s]])))


def linear(A, Sigma):
    d = len(A)
    sde = KnownSDE(f=lambda x: x @ A.T, sigma=constant(np.linalg.cholesky(Sigma)), n_inputs=d, n_outputs=d)
    C = solve_continuous_lyapunov(A, -Sigma)
    return sde, C, np.stack([-4.5 * np.sqrt(np.diagonal(C)), 4.5 * np.sqrt(np.diagonal(C))])


def van_der_pol(s=0.4):
    return KnownSDE(f=lambda x: (1 - x[:, :1] ** 2) * x[:, 1:] - x[:, :1], sigma=constant(np.array([[s]])), n_inputs=2)


def integral(x, y):
    return np.concatenate([[0], np.cumsum(0.5 * (y[1:] + y[:-1]) * np.diff(x))])


def passage_by_quadrature(start, target, low, s=S):
    """Of the double well to the right."""
    x = np.linspace(low, target, 400_001)
    D, U = s**2 / 2, x**4 / 4 - x**2 / 2
    times = integral(x, np.exp(U / D) / D * integral(x, np.exp(-U / D)))
    return times[-1] - np.interp(start, x, times)


def total_variation(density, exact):
    return 0.5 * np.abs(density.value / density.value.sum() - exact / exact.sum()).sum()


LINEAR = {
    1: (np.array([[-2.0]]), np.array([[0.6]])),
    2: (np.array([[-1.0, 1.5], [-1.0, -2.0]]), np.array([[0.9, -0.3], [-0.3, 0.6]])),
    3: (
        np.array([[-1.0, 1.5, 0.5], [-1.0, -2.0, 0.0], [0.0, 0.7, -3.0]]),
        np.array([[0.9, -0.3, -0.2], [-0.3, 0.6, 0.2], [-0.2, 0.2, 0.7]]),
    ),
}


def densities():
    sde = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.sqrt(0.4 + 0.2 * np.sin(2 * x))[:, :, None])
    density = dynamics.stationary_density(sde, box=(-2.5, 2.5))
    x = np.linspace(-2.5, 2.5, 200_001)
    Sigma = 0.4 + 0.2 * np.sin(2 * x)
    exact = np.exp(integral(x, 2 * (x - x**3) / Sigma)) / Sigma
    exact = np.interp(density.axes[0], x, exact)
    yield "density, double well with multiplicative noise", total_variation(density, exact), 0.005
    D = np.array([[0.3, 0.12], [0.12, 0.2]])

    def f(x):
        gradient = np.stack([4 * x[:, 0] ** 3 - 4 * x[:, 0] + x[:, 1], 4 * x[:, 1] + x[:, 0]], axis=1)
        return -gradient @ D

    sde = KnownSDE(f=f, sigma=constant(np.linalg.cholesky(2 * D)), n_inputs=2, n_outputs=2)
    density = dynamics.stationary_density(sde, box=[[-2.1, -2.3], [2.1, 2.3]])
    x, y = np.meshgrid(*density.axes, indexing="ij")
    exact = np.exp(-(x**4 - 2 * x**2 + x * y + 2 * y**2))
    yield "density, gradient in the plane, correlated noise", total_variation(density, exact), 0.005
    for d, system in LINEAR.items():
        sde, C, box = linear(*system)
        density = dynamics.stationary_density(sde, box=box)
        at = density.mesh.centres
        exact = np.exp(-0.5 * np.einsum("ni,ij,nj->n", at, np.linalg.inv(C), at)).reshape(density.mesh.shape)
        yield f"density, linear, {d}-D", total_variation(density, exact), 0.005
    g, T = 0.8, 0.5
    sde = KnownSDE(f=lambda x: -x[:, :1] - g * x[:, 1:], sigma=constant(np.array([[np.sqrt(2 * g * T)]])), n_inputs=2)
    density = dynamics.stationary_density(sde, box=[[-3.2, -3.2], [3.2, 3.2]])
    exact = np.exp(-(density.mesh.centres**2).sum(axis=1) / (2 * T)).reshape(density.mesh.shape)
    yield "density, harmonic oscillator of second order", total_variation(density, exact), 0.005


def passages():
    for s in (1.0, S, 0.5, 0.35):
        exact = passage_by_quadrature(-1, 1, -2.5, s)
        found = dynamics.first_passage_time(double_well(s), -1, 1, box=(-2.5, 2.5)).value
        yield f"passage of a double well, barrier {0.5 / s**2:.1f} D", found / exact - 1, 0.01
    walk = KnownSDE(f=lambda x: 0 * x, sigma=constant(np.eye(2)), n_inputs=2, n_outputs=2)
    found = dynamics.first_passage_time(
        walk, [0.3, 0.2], lambda x: np.linalg.norm(x, axis=1) > 1, box=[[-1.3, -1.3], [1.3, 1.3]]
    )
    yield "exit of Brownian motion from a circle", found.value / ((1 - 0.13) / 2) - 1, 0.01
    ball = dynamics.first_passage_time(
        KnownSDE(f=lambda x: 0 * x, sigma=constant(np.eye(3)), n_inputs=3, n_outputs=3),
        [0.3, 0.2, 0.0],
        lambda x: np.linalg.norm(x, axis=1) > 1,
        box=np.array([[-1.3] * 3, [1.3] * 3]),
    )
    yield "exit of Brownian motion from a ball", ball.value / ((1 - 0.13) / 3) - 1, 0.01
    odds = dynamics.exit_probabilities(double_well(), 0.1, (-1, 1), box=(-2.5, 2.5)).value[1]
    x = np.linspace(-1, 1, 400_001)
    weight = integral(x, np.exp((x**4 / 4 - x**2 / 2) / (S**2 / 2)))
    yield "committor of a double well", odds / (np.interp(0.1, x, weight) / weight[-1]) - 1, 0.01
    s = 0.3
    kramers = np.sqrt(2) / (2 * np.pi) * np.exp(-0.25 / (s**2 / 2))
    rate = dynamics.escape_rate(double_well(s), -1, 1, box=(-1.8, 1.8)).value
    yield f"rate of Kramers, barrier {0.5 / s**2:.1f} D (an approximation itself)", rate / kramers - 1, 0.2


def forgetting():
    for d, system in LINEAR.items():
        sde, _, box = linear(*system)
        slow = max(np.linalg.eigvals(system[0]), key=lambda value: value.real)
        found = dynamics.relaxation_times(sde, 1, box=box)
        yield f"slowest relaxation time, linear, {d}-D", found.value[0] * -slow.real - 1, 0.005
    g = 0.8
    sde = KnownSDE(f=lambda x: -x[:, :1] - g * x[:, 1:], sigma=constant(np.array([[np.sqrt(g)]])), n_inputs=2)
    found = dynamics.relaxation_times(sde, 1, box=[[-3.2, -3.2], [3.2, 3.2]])
    yield "slowest relaxation time, oscillator of second order", found.value[0] * g / 2 - 1, 0.005


def entropies():
    for d in (2, 3):
        A, Sigma = LINEAR[d]
        sde, C, box = linear(A, Sigma)
        velocity = A + 0.5 * Sigma @ np.linalg.inv(C)
        exact = np.trace(velocity.T @ np.linalg.solve(0.5 * Sigma, velocity) @ C)
        found = dynamics.entropy_production(sde, box=box).value
        yield f"entropy production, driven linear, {d}-D", found / exact - 1, 0.02


def cycles():
    found = dynamics.period(van_der_pol(), box=[[-3, -4], [3, 4]]).value
    yield "period of van der Pol's oscillator", found / 6.66328686 - 1, 0.005


def exact(given):
    rows = []
    for part in (densities, passages, forgetting, entropies, cycles):
        answers = part()
        while True:
            began = time.process_time()
            found = next(answers, None)
            if found is None:
                break
            answer, error, allowed = found
            seconds = time.process_time() - began
            rows.append({"answer": answer, "error": float(error), "allowed": allowed, "seconds": seconds})
            print(f"{answer:<70} {error:+.5f} (allowed {allowed}) {seconds:.2f} s", flush=True)
    if given.results:
        write_results("dynamics_exact", rows)


# Learned


def observed(sde, starts, h, n_times, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sde.simulate(starts, h / SUBSTEPS, SUBSTEPS * (n_times - 1), rng=seed)[:, ::SUBSTEPS]


def well_data(seed):
    """20 tracks of 1000 transitions of h = 0.05 of the double well."""
    rng = np.random.default_rng([seed, 17])
    return itofit.Transitions.from_trajectories(
        observed(double_well(), rng.choice([-1.0, 1.0], 20), 0.05, 1001, rng), dt=0.05
    )


def cycle_data(seed):
    """Positions and velocities of 20 tracks of 500 transitions of h = 0.05 of van der Pol's oscillator."""
    rng = np.random.default_rng([seed, 18])
    x, v = np.moveaxis(observed(van_der_pol(), rng.normal(size=(20, 2)), 0.05, 501, rng), 2, 0)
    return itofit.Transitions.from_underdamped(
        x[:, :-1].ravel(), v[:, :-1].ravel(), x[:, 1:].ravel(), v[:, 1:].ravel(), 0.05, np.repeat(np.arange(20), 500)
    )


def turning_data(seed):
    """20 tracks of 500 transitions of h = 0.05 of a limit cycle of first order in two variables."""
    rng = np.random.default_rng([seed, 20])

    def f(x):
        return (1 - (x**2).sum(axis=1, keepdims=True)) * x + 2 * np.stack([-x[:, 1], x[:, 0]], axis=1)

    true = KnownSDE(f=f, sigma=constant(0.4 * np.eye(2)), n_inputs=2, n_outputs=2)
    return itofit.Transitions.from_trajectories(observed(true, rng.normal(size=(20, 2)), 0.05, 501, rng), dt=0.05)


def well_answers(seed):
    sde = fitted(well_data(seed), seed)
    potential = dynamics.potential(sde, samples=SAMPLES, rng=seed)
    points = dynamics.fixed_points(sde, samples=SAMPLES, rng=seed)
    exact_time = passage_by_quadrature(-1, 1, -2.5)
    yield "escape time", exact_time, dynamics.first_passage_time(sde, -1, 1, samples=SAMPLES, rng=seed), None
    if len(points) == 3:
        for i, name in enumerate(("left", "middle", "right")):
            yield f"{name} fixed point", float(i - 1), points, (i, 0)
    if len(potential.ways) == 2:
        yield "left barrier", 0.25, potential.barriers, 0
        yield "right barrier", 0.25, potential.barriers, 1
    exact_time = dynamics.relaxation_times(double_well(), 1, box=(-2.5, 2.5)).value[0]
    yield "slowest relaxation time", exact_time, dynamics.relaxation_times(sde, 1, samples=SAMPLES, rng=seed), 0


def cycle_answers(seed):
    sde = fitted(cycle_data(seed), seed)
    yield "period", 6.66328686, dynamics.period(sde, [2.0, 0.0], samples=SAMPLES, rng=seed), None


def plane_answers(seed):
    """20 tracks of 500 transitions of h = 0.05 of a driven linear system."""
    rng = np.random.default_rng([seed, 19])
    A, Sigma = LINEAR[2]
    true, C, _ = linear(A, Sigma)
    paths = observed(true, rng.multivariate_normal(np.zeros(2), C, 20), 0.05, 501, rng)
    sde = fitted(itofit.Transitions.from_trajectories(paths, dt=0.05), seed)
    velocity = A + 0.5 * Sigma @ np.linalg.inv(C)
    exact_rate = np.trace(velocity.T @ np.linalg.solve(0.5 * Sigma, velocity) @ C)
    slow = max(np.linalg.eigvals(A), key=lambda value: value.real)
    yield "entropy production", exact_rate, dynamics.entropy_production(sde, samples=SAMPLES, rng=seed), None
    yield "relaxation time", -1 / slow.real, dynamics.relaxation_times(sde, 1, samples=SAMPLES, rng=seed), 0


CASES = {"double well": well_answers, "limit cycle": cycle_answers, "driven plane": plane_answers}


def fitted(data, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return itofit.fit(data, rng=seed)


def measure(case, seed):
    rows, began = [], time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, truth, answer, place in CASES[case](seed):
            found = (answer.value, answer.std, *answer.interval())
            value, std, low, high = (np.asarray(a) if place is None else np.asarray(a)[place] for a in found)
            seconds, began = time.process_time() - began, time.process_time()
            rows.append({"case": case, "seed": seed, "answer": name, "truth": float(truth), "value": float(value),
                         "std": float(std), "low": float(low), "high": float(high), "seconds": seconds})  # fmt: skip
    return rows


def learned(given):
    path = given.output
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []
    done = {(row["case"], row["seed"]) for row in kept}
    seeds = range(given.first, given.first + given.seeds)
    todo = [(case, seed) for case in given.cases for seed in seeds if (case, seed) not in done]
    with ProcessPoolExecutor(given.jobs) as pool:
        for rows in pool.map(measure, *zip(*todo, strict=True)) if todo else []:
            kept += rows
            if path:
                with path.open("a") as file:
                    file.write("".join(json.dumps(row) + "\n" for row in rows))
    table = []
    for case, name in dict.fromkeys((row["case"], row["answer"]) for row in kept):
        own = [row for row in kept if (row["case"], row["answer"]) == (case, name)]
        within = [row["low"] < row["truth"] < row["high"] for row in own]
        share, error = mean_and_error(within)
        off = [(row["value"] - row["truth"]) for row in own]
        stated = np.sqrt(np.mean(np.square([row["std"] for row in own])))
        row = {"case": case, "answer": name, "truth": own[0]["truth"], "runs": len(own), "covered": share}
        row |= {"covered_se": error, "bias": float(np.mean(off)), "std": float(stated)}
        row["error"] = float(np.sqrt(np.mean(np.square(off))))
        table.append(row)
        print(f"{case}, {name}: covered {share:.1%} ± {error:.1%} of {len(own)}; truth {row['truth']:.4g}", end=", ")
        print(f"bias {row['bias']:+.3g}, root mean square error {row['error']:.3g}, stated {stated:.3g}", flush=True)
    if given.results:
        write_results("dynamics_coverage", table)


# Seconds


def timed_answers(sde):
    """Names of all answers, and functions that compute them for the model."""
    s, first = len(sde.state_names), sde.input_names[0]
    sets = ({first: (None, -0.8)}, {first: (0.8, None)})
    yield "fixed_points", dynamics.fixed_points
    yield "stationary_density", dynamics.stationary_density
    yield "quasi_potential", dynamics.quasi_potential
    yield "probability_current", dynamics.probability_current
    yield "entropy_production", dynamics.entropy_production
    yield "first_passage_time", lambda sde, **given: dynamics.first_passage_time(sde, *sets, **given)
    yield "escape_rate", lambda sde, **given: dynamics.escape_rate(sde, *sets, **given)
    middle = 0.0 if s == 1 else [0.0] * s
    yield "exit_probabilities", lambda sde, **given: dynamics.exit_probabilities(sde, middle, sets, **given)
    yield "relaxation_times", dynamics.relaxation_times
    yield "autocorrelation", dynamics.autocorrelation
    if s == 1:
        yield "potential", dynamics.potential
    else:
        yield "nullclines", dynamics.nullclines
        yield "period", lambda sde, **given: dynamics.period(sde, [1.5] + [0.0] * (s - 1), **given)
    yield "outlook", dynamics.outlook


def seconds(given):
    rows = {}
    systems = {"one variable": well_data, "two variables": turning_data, "position and velocity": cycle_data}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for system, data_of in systems.items():
            sde = itofit.fit(data_of(0), rng=0)
            for name, ask in timed_answers(sde):
                taken = []
                for seed in range(3):
                    began = time.process_time()
                    ask(sde, samples=SAMPLES, rng=seed)
                    taken.append(time.process_time() - began)
                rows.setdefault(name, {"answer": name})[system] = float(np.median(taken))
                print(f"{system:<24} {name:<22} {np.median(taken):.2f} s", flush=True)
    if given.results:
        write_results("dynamics_seconds", list(rows.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["exact", "learned", "seconds"])
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES), metavar="CASE")
    parser.add_argument("--output", type=Path, help="file of runs to append to")
    parser.add_argument("--results", action="store_true", help="write the table to benchmarks/results")
    arguments = parser.parse_args()
    sys.exit({"exact": exact, "learned": learned, "seconds": seconds}[arguments.part](arguments))
