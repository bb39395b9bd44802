"""The benchmark beside other packages: its data follow its equations, its runs are kept apart, its table is fair."""

import sys
from pathlib import Path

import numpy as np
import pytest

import itofit

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import peer_environments
import peer_problems
import peers
import tables

pytest.importorskip("jax")


@pytest.mark.parametrize("name", [name for name, problem in peer_problems.PROBLEMS.items() if not problem.error])
def test_tracks_follow_their_equation(name):
    """Increments in units of the true noise are standard normal, if steps are short.

    With 20,000 of them, means scatter by 0.007 and variances by 0.01; five of that are allowed, and 0.005 for the
    length of steps. False alarms: less than one in 10⁵.
    """
    problem = peer_problems.PROBLEMS[name]
    problem = problem._replace(h=problem.h / 20)
    x, _ = problem.observed(20_001, 3)
    f, sigma = problem.truth(x[:-1])
    residual = np.diff(x, axis=0) - problem.h * f
    standard = np.linalg.solve(np.linalg.cholesky(problem.h * sigma), residual[:, :, None])[:, :, 0]
    assert np.abs(standard.mean(axis=0)).max() < 0.04
    assert np.abs(np.cov(standard.T) - np.eye(problem.d)).max() < 0.055


def test_a_run_in_a_process_of_its_own_is_the_fit():
    x, places = peer_problems.PROBLEMS["few"].observed(1000, 0)
    found = peer_environments.run("itofit", [x], 0.05, places[:5], seed=4)
    sde = itofit.fit(itofit.Transitions.from_trajectories([x], dt=0.05), rng=4)
    f, std = sde.drift(places[:5], return_std=True)
    np.testing.assert_allclose(found["drift"], f, rtol=1e-6)
    np.testing.assert_allclose(found["drift_std"], std, rtol=1e-6)
    assert found["seconds"] > 0
    assert found["megabytes"] > found["megabytes_before"]


def test_runs_that_fail_say_so_and_those_that_take_too_long_are_stopped():
    x, places = peer_problems.PROBLEMS["few"].observed(1000, 0)
    with pytest.raises(peer_environments.WorkerError, match=r"itofit ended with 1 and said: .*InputError"):
        peer_environments.run("itofit", [x], -1.0, places)
    with pytest.raises(peer_environments.StoppedError, match="stopped after 1 s"):
        peer_environments.run("adam", [np.tile(x, (5, 1))], 0.05, places, limit=1)


def kept(**drift):
    """Runs on "crooked": errors of the drift of each tool, one for each seed."""
    return {
        (peers.case_of("crooked", 10**4, tool), seed): {"seed": seed, "drift": value, "stopped": 0.0, "seconds": 61.0}
        for tool, values in drift.items()
        for seed, value in enumerate(values)
    }


def test_the_ratio_is_that_on_the_same_data():
    rows = peers.all_rows(kept(itofit=[0.1, 0.2, 0.9], formula=[0.08, 0.04], sfi=[0.1, 0.1], pysindy=[0.4]), limit=300)
    table = list(tables.peers("drift")(rows))
    row = dict(zip(table[0], table[1], strict=True))
    assert row["itofit / best other"] == "1.5"  # of the two seeds that SFI has
    assert row["formula / best other"] == "0.6"
    assert (row["StochasticForceInference"], row["itofit, formula"]) == ("0.1", "**0.06**")
    assert row["seeds"] == "3 (itofit, formula 2, StochasticForceInference 2, pysindy 1)"


def test_what_took_a_fifth_of_the_limit_is_not_tried_on_more_and_the_table_says_so():
    runs = kept(itofit=[0.1], sfi=[0.2])
    assert peers.too_slow(runs, "crooked", 10**5, "sfi", 300)
    assert not peers.too_slow(runs, "crooked", 10**4, "sfi", 300)
    assert not peers.too_slow(runs, "crooked", 10**5, "sfi", 600)
    rows = peers.all_rows(runs | {("crooked 100000 itofit", 0): {"seed": 0, "drift": 0.05, "seconds": 9.0}}, limit=300)
    table = list(tables.peers("drift")(rows))
    assert table[2][table[0].index("StochasticForceInference")] == "too slow"
    assert table[2][table[0].index("itofit / best other")] == "–"
