import multiprocessing
import os
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from itofit._blocks import CHUNK_ROWS, map_chunks, n_threads, one_blas_thread
from itofit.waves.normal_equations import DirectNormalEquations
from itofit.waves.normal_equations.direct import solve_ridge


def problem(seed=0, n=60, m=2, p=2, K=7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(K, m)) * 3, rng.random((n, m)), rng.normal(size=(n, p))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(1, 50), m=st.integers(1, 4), p=st.integers(1, 3), K=st.integers(1, 6))
def test_gram_and_right_side_equal_the_loops(seed, n, m, p, K):
    omega, u, y = problem(seed, n, m, p, K)
    G, b = DirectNormalEquations(u, y).gram(omega)
    expected_G, expected_b = reference.gram(omega, u, y)
    np.testing.assert_allclose(G, expected_G, rtol=0, atol=1e-12 * n)
    np.testing.assert_allclose(b, expected_b, rtol=0, atol=1e-12 * n)


def test_many_blocks_equal_one_product():
    omega, u, y = problem(n=5000)
    S = np.exp(1j * (u @ omega.T))
    G, b = DirectNormalEquations(u, y).gram(omega)
    np.testing.assert_allclose(G, S.conj().T @ S, rtol=0, atol=1e-9)
    np.testing.assert_allclose(b, S.conj().T @ y, rtol=0, atol=1e-9)


def test_solution_and_error_equal_the_reference():
    omega, u, y = problem()
    equations = DirectNormalEquations(u, y)
    beta = equations.solve(omega, 1e-3)
    np.testing.assert_allclose(beta, reference.ridge(omega, u, y, 1e-3), rtol=1e-10)
    expected = reference.mean_squared_error(omega, beta, u, y)
    assert equations.mse(omega, beta) == pytest.approx(expected, rel=1e-12)


def test_no_ridge_is_least_squares_and_a_huge_ridge_is_zero():
    omega, u, y = problem()
    equations = DirectNormalEquations(u, y)
    S = np.exp(1j * (u @ omega.T))
    np.testing.assert_allclose(equations.solve(omega, 0.0), np.linalg.lstsq(S, y, rcond=None)[0], rtol=1e-8)
    assert np.abs(equations.solve(omega, 1e12)).max() < 1e-10


def test_coinciding_frequencies_without_ridge_share_the_least_amplitude():
    _, u, y = problem()
    omega = np.zeros((7, 2))
    beta = DirectNormalEquations(u, y).solve(omega, 0.0)
    np.testing.assert_allclose(beta, np.tile(y.mean(axis=0) / 7, (7, 1)), rtol=1e-10)


@pytest.mark.parametrize("shift", [0.0, 1e-17])
def test_fallback_is_the_limit_of_small_ridges(shift):
    rng = np.random.default_rng(5)
    V = np.linalg.qr(rng.normal(size=(6, 6)) + 1j * rng.normal(size=(6, 6)))[0]
    values = np.array([3.0, 2.0, 1.0, 0.5, 0.0, 0.0])
    gram = (V * values) @ V.conj().T
    right = gram @ rng.normal(size=(6, 2))
    np.testing.assert_allclose(
        solve_ridge(lambda: (gram.copy(), right), shift),
        np.linalg.pinv(gram, hermitian=True) @ right,
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("K", [30, 320])
def test_results_are_the_same_on_one_thread_as_on_all(K, all_threads):
    omega, u, y = problem(n=20_000, K=K)
    equations = DirectNormalEquations(u, y)
    on_all = equations.solve(omega, 1e-3)
    with threadpool_limits(1):
        np.testing.assert_array_equal(equations.solve(omega, 1e-3), on_all)


def test_the_users_threads_are_left_as_they_were():
    omega, u, y = problem(n=5000)
    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        DirectNormalEquations(u, y).solve(omega, 1e-3)
        assert [library["num_threads"] for library in threadpool_info()] == before


def test_memory_does_not_grow_with_the_rows(all_threads):
    def peak(n):
        omega, u, y = problem(n=n, K=64)
        equations = DirectNormalEquations(u, y)
        tracemalloc.start()
        equations.mse(omega, equations.solve(omega, 1e-3))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    small, large = peak(20_000), peak(200_000)
    assert large < 1.3 * small  # how far the threads overlap differs a little
    assert large < 256e6


def test_memory_stays_bounded_with_many_features(all_threads):
    omega, u, y = problem(n=9000, K=1024)
    equations = DirectNormalEquations(u, y)
    tracemalloc.start()
    equations.solve(omega, 1e-3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256e6


def test_several_threads_at_once_get_their_results_and_leave_the_limits_alone():
    omega, u, y = problem(n=5000)
    equations = DirectNormalEquations(u, y)
    alone = equations.solve(omega, 1e-3)
    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda _: equations.solve(omega, 1e-3), range(40)))
        assert [library["num_threads"] for library in threadpool_info()] == before
    for beta in together:
        np.testing.assert_array_equal(beta, alone)


def _solve_in_child(problem_and_ridge):
    (omega, u, y), ridge = problem_and_ridge
    return DirectNormalEquations(u, y).solve(omega, ridge)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, if a test before has imported it
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(all_threads):
    data = problem(n=5000)
    here = _solve_in_child((data, 1e-3))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        there = pool.apply_async(_solve_in_child, ((data, 1e-3),)).get(timeout=60)
    np.testing.assert_array_equal(there, here)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_chunks_run_on_several_threads(all_threads):
    meeting = threading.Barrier(2, timeout=60)

    def work(chunk):
        meeting.wait()
        return threading.current_thread().name

    assert len(set(map_chunks(work, 2 * CHUNK_ROWS))) == 2


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, if a test before has imported it
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_within_the_limit_is_free_of_it():
    with threadpool_limits(2), one_blas_thread:
        one_blas_thread.lock.acquire()
        try:
            with multiprocessing.get_context("fork").Pool(1) as pool:
                assert pool.apply_async(n_threads).get(timeout=60) == min(2, len(os.sched_getaffinity(0)))
        finally:
            one_blas_thread.lock.release()


def test_a_matrix_that_factors_by_luck_is_not_trusted():
    v = np.array([[1.0], [1.0 + 1e-9], [1.0 - 1e-9]])
    gram = (v @ v.T).astype(complex)
    gram[np.diag_indices(3)] += 3e-16  # rounding, as a sum over rows leaves it
    right = gram @ np.ones((3, 1))
    np.testing.assert_allclose(solve_ridge(lambda: (gram.copy(), right), 0.0), np.ones((3, 1)), rtol=1e-6)
