"""Learns from tracks in a file by one package, in the environment that has it; `peer_environments.run` calls it.

    ENVIRONMENT/bin/python benchmarks/peer_worker.py METHOD GIVEN.npz RESULT.npz

Given are rows of all tracks (n, d), where tracks end, the step h, places (n, m) to evaluate at, and what the package is
told: the degrees of polynomials for f and Σ, the spread of frequencies that networks start with, whether there are
errors of measurement, a seed, and the most CPU seconds.
The result has the drift (n, d) and the covariance (n, d, d) at the places, standard deviations of both if the
package has any, the drift before terms were dropped if it is SFI's for noisy data, coefficients of polynomials as lines
[line, powers, coefficient] where that is what is learned ("f0", "f1", ... for the drift, "s00", "s10", ... for Σ), CPU
seconds without imports, and the peak of memory.
"""

import contextlib
import importlib
import json
import resource
import sys
import time
import warnings

import numpy as np

MODULES = {
    "itofit": ["itofit.learning.fit", "itofit.learning.second_order.from_positions"],
    "formula": ["itofit.learning.fit", "itofit.model.formula.finding"],
    "adam": ["itofit.experiments.adam", "jax", "optax"],
    "sfi": ["SFI", "SFI.bases"],
    "kramersmoyal": ["kramersmoyal", "scipy.interpolate"],
}
"""What is imported before the clock starts, if it is not the module of the method's name alone."""


def by_itofit(tracks, places, given, *, formula=False):
    """The default fit."""
    import itofit  # noqa: PLC0415

    second_order = places.shape[1] > tracks[0].shape[1]
    make = itofit.Transitions.from_positions if second_order else itofit.Transitions.from_trajectories
    data = make(tracks, dt=given["h"])
    sde = itofit.fit(data, rng=given["seed"])
    if formula:
        short = sde.formula(data)
        sde = short if short.is_short else sde
    f, f_std = sde.drift(places, return_std=True)
    sigma, sigma_std = sde.covariance(places, return_std=True)
    return {"drift": f, "covariance": sigma, "drift_std": f_std, "covariance_std": sigma_std}


def by_formula(tracks, places, given):
    """The formula of the default fit if it says that there is one, and the learned functions otherwise."""
    return by_itofit(tracks, places, given, formula=True)


def by_adam(tracks, places, given):
    """The paper's baseline: two Fourier networks of 128 features, trained together on the likelihood by Adam."""
    import itofit  # noqa: PLC0415
    from itofit.experiments.adam import Adam, train_adam  # noqa: PLC0415

    data = itofit.Transitions.from_trajectories(tracks, dt=given["h"])
    train, validation = data.split(0.1, rng=given["seed"])
    size, epochs = 32 if len(data) <= 10**4 else 512, 200 if len(data) <= 10**5 else 40
    settings = Adam(batch_size=size, epochs=epochs, spread=given["spread"])
    structure = "full" if data.n_outputs > 1 else "diagonal"
    network = train_adam(train, validation, settings, structure=structure, rng=given["seed"]).network
    return {"drift": network.drift(places), "covariance": network.covariance(places)}


def by_sfi(tracks, places, given):
    """Linear estimators, or the parametric ones for noisy data if it is told of errors; terms are chosen by PASTIS."""
    from SFI import OverdampedLangevinInference, TrajectoryCollection, UnderdampedLangevinInference  # noqa: PLC0415
    from SFI.bases import monomials_up_to  # noqa: PLC0415

    d = tracks[0].shape[1]
    second_order = places.shape[1] > d
    data = TrajectoryCollection.from_arrays(X=np.stack(tracks, axis=1), dt=given["h"])
    force = monomials_up_to(order=given["degree"], dim=d, include_v=second_order, rank="vector")
    noise = monomials_up_to(order=given["noise_degree"], dim=d, include_v=second_order, rank="symmetric_matrix")
    learned = (UnderdampedLangevinInference if second_order else OverdampedLangevinInference)(data)
    at = {"x": places[:, :d]} | ({"v": places[:, d:]} if second_order else {})
    all_terms = {}
    if given["errors"]:
        learned.infer_force(force)
        all_terms["drift_all_terms"] = np.asarray(learned.force_inferred(**at), dtype=float).reshape(len(places), d)
        learned.sparsify_force()
        learned.infer_diffusion(noise)
    else:
        learned.compute_diffusion_constant()
        learned.infer_force_linear(force)
        learned.sparsify_force()
        learned.compute_force_error()
        learned.infer_diffusion_linear(noise)
    with contextlib.suppress(RuntimeError):  # "too few samples for this basis": all terms are kept then
        learned.sparsify_diffusion()
    learned.compute_diffusion_error()
    n = len(places)
    f, D = (
        {name: np.broadcast_to(values, (n, *size)) for name, values in _interval(learned_one, at).items()}
        for learned_one, size in ((learned.force_inferred, (d,)), (learned.diffusion_inferred, (d, d)))
    )
    return {
        "drift": f["mean"],
        "covariance": 2 * D["mean"],
        "drift_std": f["std"],
        "covariance_std": 2 * D["std"],
    } | all_terms


def _interval(learned, at):
    found = learned.predict_ci(**at)
    return {name: np.asarray(found[name], dtype=float) for name in ("mean", "std")}


def by_pysindy(tracks, places, given):
    """Sequentially thresholded least squares, with pysindy's own threshold, on forward differences; drift alone."""
    import pysindy  # noqa: PLC0415

    model = pysindy.SINDy(feature_library=pysindy.PolynomialLibrary(degree=given["degree"]))
    h = given["h"]
    model.fit([track[:-1] for track in tracks], t=h, x_dot=[np.diff(track, axis=0) / h for track in tracks])
    powers = np.asarray(model.feature_library.powers_).tolist()
    terms = [
        [f"f{a}", powers[k], float(c)] for a, row in enumerate(model.coefficients()) for k, c in enumerate(row) if c
    ]
    return {"drift": np.asarray(model.predict(places)), "terms": terms}


def by_pydaddy(tracks, places, given):
    """PyDaddy with thresholds that it tunes by cross-validation; tracks are parted by gaps."""
    import pydaddy  # noqa: PLC0415

    gap = np.full((1, tracks[0].shape[1]), np.nan)
    parts = [part for track in tracks for part in (gap, track)][1:]
    joined = np.concatenate(parts)
    found = pydaddy.Characterize(list(joined.T), t=given["h"], show_summary=False)
    d = joined.shape[1]
    names = {"F": "f0", "G": "s00"} if d == 1 else {"F1": "f0", "F2": "f1", "G11": "s00", "G22": "s11", "G21": "s10"}
    f, sigma, terms = np.empty((len(places), d)), np.empty((len(places), d, d)), []
    for name, line in names.items():
        degree = given["degree" if name[0] == "F" else "noise_degree"]
        fitted = found.fit(name, order=degree, tune=True)
        if d == 1:
            powers = [[n] for n in range(degree + 1)]
        else:
            powers = [[n, m] for m in range(degree + 1) for n in range(degree - m + 1)]
        terms += [[line, power, float(c)] for power, c in zip(powers, fitted.coeffs, strict=True) if c]
        values = fitted(*places.T)
        if name[0] == "F":
            f[:, int(line[1])] = values
        else:
            i, j = int(line[1]), int(line[2])
            sigma[:, i, j] = sigma[:, j, i] = values
    return {"drift": f, "covariance": sigma, "terms": terms}


def by_kramersmoyal(tracks, places, given):
    """Kernel estimates with its own bins, kernel and bandwidth, interpolated between the middles of bins."""
    from kramersmoyal import km  # noqa: PLC0415
    from scipy.interpolate import RegularGridInterpolator  # noqa: PLC0415

    (track,) = tracks
    d = track.shape[1]
    unit = np.eye(d, dtype=int)
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    powers = np.array([np.zeros(d, dtype=int), *unit, *(unit[i] + unit[j] for i, j in pairs)])
    moments, middles = km(track, powers=powers)
    inside = np.clip(places, [m[0] for m in middles], [m[-1] for m in middles])
    _, *values = (RegularGridInterpolator(middles, one)(inside) / given["h"] for one in moments)
    sigma = np.empty((len(places), d, d))
    for (i, j), one in zip(pairs, values[d:], strict=True):
        sigma[:, i, j] = sigma[:, j, i] = one * (2 if i == j else 1)  # it divides by the factorials of the powers
    return {"drift": np.stack(values[:d], axis=1), "covariance": sigma}


METHODS = {
    "itofit": by_itofit,
    "formula": by_formula,
    "adam": by_adam,
    "sfi": by_sfi,
    "pysindy": by_pysindy,
    "pydaddy": by_pydaddy,
    "kramersmoyal": by_kramersmoyal,
}


def megabytes():
    """Peak of resident memory. The kernel's other count, of `resource`, begins with that of the calling process."""
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main(method, given_file, result_file):
    """Read tracks, learn, and write what was learned with what it cost."""
    with np.load(given_file) as content:
        tracks, places = np.split(content["rows"], content["cuts"]), content["places"]
        given = json.loads(str(content["told"]))
    if given["limit"] is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (given["limit"], given["limit"] + 5))
    for name in MODULES.get(method, [method]):
        importlib.import_module(name)
    before, began = megabytes(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = METHODS[method](tracks, places, given)
    cost = {"seconds": time.process_time() - began, "megabytes": megabytes(), "megabytes_before": before}
    terms = json.dumps(found.pop("terms", None))
    np.savez(result_file, terms=terms, **cost, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
