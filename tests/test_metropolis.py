"""Algorithm 1's iteration with any proposal, against loops."""

import numpy as np
import pytest

from itofit.learning.metropolis import Kernel, metropolis_step

GROUPS = {"one group": None, "three groups": [np.arange(5), np.arange(5, 7), np.arange(7, 12)]}


def sizes_of(omega):
    """Some smooth positive function of each frequency that also depends on the others, as solved amplitudes do."""
    return np.exp(-((omega - 0.3) ** 2).sum(axis=1)) + 0.1 * np.cos(omega.sum()) ** 2


def walk(rng, omega):
    return omega + 0.4 * rng.standard_normal(omega.shape)


def loop(rng, omega, size, kernel, groups):
    """The iteration as loops, with random numbers in the order that the module promises."""
    omega, size, K = omega.copy(), size.copy(), len(omega)
    if kernel.resample:
        j = []
        for places in groups or [range(K)]:
            for uniform in rng.random(len(places)):
                target, running = uniform * sum(size[k] for k in places), 0.0
                for k in places:
                    running += size[k]
                    if running > target:
                        break
                j.append(k)
        omega = np.array([omega[k] for k in j])
        if kernel.pairing == "reindex":
            size = np.array([size[k] for k in j])
        elif kernel.pairing == "solve":
            size = kernel.sizes(omega)
    proposal = kernel.propose(rng, omega)
    proposed, uniforms, accepted = kernel.sizes(proposal), rng.random(K), []
    for k in range(K):
        accepted.append(proposed[k] / size[k] ** kernel.gamma > uniforms[k])
        if accepted[k]:
            omega[k] = proposal[k]
    return omega, accepted


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("resample", [True, False])
@pytest.mark.parametrize("pairing", ["printed", "reindex", "solve"])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 3.0])
def test_an_iteration_equals_the_loops_with_the_same_random_numbers(groups, resample, pairing, gamma):
    kernel = Kernel(sizes_of, walk, resample, pairing, gamma)
    omega = np.random.default_rng(0).normal(size=(12, 2))
    some_accepted, some_refused = False, False
    for seed in range(6):
        size = sizes_of(omega)
        expected, accepted = loop(np.random.default_rng(seed), omega, size, kernel, groups)
        before = omega.copy(), size.copy()
        moved = metropolis_step(np.random.default_rng(seed), omega, size, kernel, groups)
        np.testing.assert_array_equal(omega, before[0])  # what was given is left as it was
        np.testing.assert_array_equal(size, before[1])
        np.testing.assert_array_equal(moved.omega, expected)
        np.testing.assert_array_equal(moved.accepted, accepted)
        omega = moved.omega
        some_accepted, some_refused = some_accepted or any(accepted), some_refused or not all(accepted)
    assert some_accepted
    assert some_refused


def stay(rng, omega):
    return omega


def kernel_of(size_of_all, propose=stay, **changes):
    """Every frequency has the same amplitude."""
    parts = {"resample": False, "pairing": "printed", "gamma": 1.0, **changes}
    return Kernel(lambda omega: np.full(len(omega), size_of_all), propose, **parts)


def test_frequencies_are_drawn_again_within_their_group_in_proportion_to_their_size():
    # of 30,000 draws in each group; six standard errors: one false alarm in 10^9 for each of the shares
    n, weights = 30_000, np.array([1.0, 2.0, 5.0])
    groups = [np.arange(n), np.arange(n, 2 * n)]
    omega = np.concatenate([np.arange(n) % 3, 10 + np.arange(n) % 3]).astype(float)[:, None]
    size = np.concatenate([weights[np.arange(n) % 3], 1e-6 * weights[::-1][np.arange(n) % 3]])
    moved = metropolis_step(np.random.default_rng(0), omega, size, kernel_of(1.0, resample=True), groups).omega[:, 0]
    assert set(moved[:n]) == {0.0, 1.0, 2.0}  # although the others are a million times smaller
    assert set(moved[n:]) == {10.0, 11.0, 12.0}
    for values, shares in ((moved[:n], weights / 8), (moved[n:] - 10, weights[::-1] / 8)):
        found = np.bincount(values.astype(int)) / n
        assert (np.abs(found - shares) < 6 * np.sqrt(shares * (1 - shares) / n)).all()


@pytest.mark.parametrize(("size", "proposed", "gamma"), [(2.0, 1.0, 1.0), (2.0, 1.0, 3.0), (0.5, 0.1, 1.0)])
def test_proposals_are_accepted_with_the_probability_of_the_test(size, proposed, gamma):
    # six standard errors of 40,000 decisions: one false alarm in 10^9
    n, probability = 40_000, proposed / size**gamma
    omega, kernel = np.zeros((n, 1)), kernel_of(proposed, propose=lambda rng, omega: omega + 1, gamma=gamma)
    moved = metropolis_step(np.random.default_rng(0), omega, np.full(n, size), kernel)
    np.testing.assert_array_equal(moved.omega[:, 0], moved.accepted)
    assert abs(moved.accepted.mean() - probability) < 6 * np.sqrt(probability * (1 - probability) / n)


def test_larger_amplitudes_are_always_accepted_and_zero_always_gives_way():
    omega, rng = np.zeros((1000, 1)), np.random.default_rng(0)
    assert metropolis_step(rng, omega, np.full(1000, 0.3), kernel_of(0.3)).accepted.all()
    assert metropolis_step(rng, omega, np.zeros(1000), kernel_of(1e-300)).accepted.all()
    assert not metropolis_step(rng, omega, np.ones(1000), kernel_of(0.0)).accepted.any()


def test_pairing_says_which_amplitude_a_proposal_is_compared_with():
    """Of two frequencies the first alone is drawn again, so every place holds it; what it must beat differs."""
    omega, size = np.array([[0.0], [1.0]]), np.array([1.0, 0.0])
    seen = []

    def sizes(at):
        seen.append(at.copy())
        return np.full(len(at), 1e-9)

    accepted = {}
    for pairing in ("printed", "reindex"):
        kernel = Kernel(lambda at: np.full(len(at), 1e-9), stay, True, pairing, 1.0)
        moved = metropolis_step(np.random.default_rng(0), omega, size, kernel)
        np.testing.assert_array_equal(moved.omega, [[0.0], [0.0]])
        accepted[pairing] = moved.accepted.tolist()
    assert accepted == {"printed": [False, True], "reindex": [False, False]}  # against 1 and 0, and against 1 and 1
    metropolis_step(np.random.default_rng(0), omega, size, Kernel(sizes, stay, True, "solve", 1.0))
    assert [at.tolist() for at in seen] == [[[0.0], [0.0]], [[0.0], [0.0]]]  # solved after drawing, and for proposals
