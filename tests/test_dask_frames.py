"""Dask data frames: partitions are parts, and the result is that of all rows in one table."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import itofit
from itofit import DataWarning, InputError, Transitions
from itofit.data.passes import add_up

dd = pytest.importorskip("dask.dataframe")
equal = np.testing.assert_array_equal


def tracks(lengths=(30, 1, 40, 25), seed=0):
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    table = pd.DataFrame({"cell": np.repeat([f"c{i}" for i in range(len(lengths))], lengths)})
    table["t"] = np.concatenate([np.cumsum(rng.uniform(0.1, 0.3, k)) for k in lengths])
    table["x"] = np.where(rng.random(n) < 0.1, np.nan, np.arange(float(n)))
    table["u"] = rng.normal(size=n)
    table["other"] = 1
    return table


HOW = {"state": "x", "time": "t", "track": "cell", "covariates": "u"}


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return function(*arguments, **options)


def frame_of(pieces):
    """A Dask frame with these partitions."""
    return dd.from_map(same, pieces, meta=pieces[0].iloc[:0])


def same(piece):
    return piece


def gathered(data):
    whole = Transitions.concatenate(quietly(lambda: list(data.blocks())))
    assert len(data) == len(whole)
    return whole


def assert_same(found, expected):
    found, expected = (data[np.argsort(data.inputs[:, 0])] for data in (found, expected))
    for name in ("inputs", "increments", "h"):
        equal(getattr(found, name), getattr(expected, name))
    equal(found.groups.astype(str), expected.groups.astype(str))
    assert found._variables[:4] == expected._variables[:4]


@pytest.mark.parametrize(
    "order", ["as they are", "by time", "partitions shuffled", "rows shuffled", "categories", "all rows shuffled"]
)
@pytest.mark.parametrize("seed", range(3))
def test_partitions_are_one_table(order, seed):
    rng = np.random.default_rng(seed)
    table = tracks(seed=seed)
    if order == "by time":
        table = table.sort_values("t", kind="stable", ignore_index=True)
    if order == "categories":
        table["cell"] = table["cell"].astype("category")
    if order == "all rows shuffled":
        table = table.sample(frac=1, random_state=seed)
    cuts = np.sort(rng.integers(0, len(table), 6))
    edges = [0, *cuts, cuts[-1], len(table)]  # one is empty
    pieces = [table.iloc[a:b] for a, b in pairwise(edges)]
    if order == "partitions shuffled":
        rng.shuffle(pieces)
    if order == "rows shuffled":
        pieces = [piece.sample(frac=1, random_state=seed) for piece in pieces]
    data = Transitions.from_dask(frame_of(pieces), **HOW)
    assert_same(gathered(pickle.loads(pickle.dumps(data))), quietly(Transitions.from_dataframe, table, **HOW))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of dask.dataframe.read_parquet
def test_the_same_model(tmp_path):
    rng = np.random.default_rng(0)
    x = np.zeros((20, 50))
    for i in range(49):
        x[:, i + 1] = 0.9 * x[:, i] + 0.3 * rng.normal(size=20)
    table = pd.DataFrame({"cell": np.repeat(np.arange(20), 50), "t": np.tile(0.1 * np.arange(50), 20), "x": x.ravel()})
    how = {"state": "x", "time": "t", "track": "cell"}
    one = itofit.fit(Transitions.from_dataframe(table, **how), rng=0)
    other = itofit.fit(Transitions.from_dask(dd.from_pandas(table, npartitions=7, sort=False), **how), rng=0)
    grid = np.linspace(-1, 1, 20)
    np.testing.assert_allclose(other.drift(grid), one.drift(grid), rtol=1e-10)
    np.testing.assert_allclose(other.covariance(grid), one.covariance(grid), rtol=1e-10)
    table.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=100)
    data = Transitions.from_dask(dd.read_parquet(tmp_path), **how)
    equal(gathered(data).inputs, Transitions.from_dataframe(table, **how).inputs)


def test_a_frame_that_a_cluster_holds():
    distributed = pytest.importorskip("distributed")
    table = tracks()
    expected = quietly(Transitions.from_dataframe, table, **HOW)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        frame = dd.from_pandas(table, npartitions=5, sort=False)
        for own in (frame, frame.persist()):  # read by this process
            data = Transitions.from_dask(own, **HOW)
            assert_same(gathered(data), expected)
        assert_same(gathered(Transitions.from_dask(frame, **HOW).on(on(client))), expected)
        for own in (frame.persist(), frame.persist().map_partitions(pd.DataFrame.assign, other=2)):
            data = Transitions.from_dask(own, **HOW).on(on(client))
            assert_same(Transitions.concatenate(quietly(add_up, data, lambda block, number: [block])), expected)


def on(client):
    from itofit.data.large.cluster import Cluster

    return Cluster(client)


def test_a_frame_is_not_fitted_as_it_is():
    with pytest.raises(InputError, match=r"fit needs Transitions, got .*; see itofit.Transitions.from_dask$"):
        itofit.fit(frame_of([tracks()]))


def test_what_cannot_be_used():
    table = tracks()
    frame = dd.from_pandas(table, npartitions=3, sort=False)
    with pytest.raises(InputError, match=r"state: there is no column 'y'"):
        Transitions.from_dask(frame, state="y", time="t")
    with pytest.raises(
        InputError, match=r"frame must be a Dask data frame, got DataFrame; others go to .*from_dataframe"
    ):
        Transitions.from_dask(table, **HOW)
    with pytest.raises(InputError, match=r"frame must be a Dask data frame, got .*"):
        Transitions.from_dask(frame["x"], **HOW)
    indexed = dd.from_pandas(table.set_index("x"), npartitions=2, sort=False)
    with pytest.raises(InputError, match=r"no column 'x' \(it is the index: use frame\.reset_index\(\)\)"):
        Transitions.from_dask(indexed, **HOW)


def test_partitions_that_cannot_be_used():
    table = tracks((10, 10))
    other = frame_of([table, table.drop(columns="u")])
    with pytest.raises(InputError, match=r"partition 1 of 2"):
        len(Transitions.from_dask(other, **HOW))

    def broken(number):
        if number == 2:
            raise RuntimeError("the disk is gone")
        return table.assign(cell=f"c{number}")

    failing = dd.from_map(broken, range(3), meta=table.iloc[:0])
    with pytest.raises(InputError, match=r"partition 2 of 3 cannot be computed: RuntimeError: the disk is gone"):
        len(Transitions.from_dask(failing, **HOW))
    empty = frame_of([table.iloc[:0], table.iloc[:0]])
    with pytest.raises(InputError, match="no transition"):
        len(Transitions.from_dask(empty, **HOW))
