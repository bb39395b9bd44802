import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from itofit import ARFF, ARFFRegressor, ConvergenceWarning, InputError

pytestmark = pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")

QUICK = {"n_features": 16, "delta": 0.5, "min_iterations": 2, "max_iterations": 15, "random_state": 0}


@parametrize_with_checks([ARFFRegressor(), ARFFRegressor(**QUICK)])
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)


def wave(n=400, m=2, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, m))
    clean = np.sin(4 * x[:, 0]) * np.cos(2 * x[:, -1])
    return x, clean + noise * rng.normal(size=n), clean


# Quality


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("m", [1, 2, 3])
def test_a_smooth_function_is_learned_up_to_its_noise(m, seed):
    x, y, _ = wave(2000, m, noise=0.2, seed=seed)
    x_new, y_new, clean_new = wave(2000, m, noise=0.2, seed=seed + 100)
    model = ARFFRegressor(n_features=64, random_state=seed).fit(x, y)
    ceiling = r2_score(y_new, clean_new)
    assert 0.75 < ceiling < 0.95
    assert model.score(x_new, y_new) > ceiling - 0.04  # the worst of sixteen seeds loses 0.03


def test_noise_alone_is_not_learned():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2000, 2)), rng.normal(size=2000)
    model = ARFFRegressor(n_features=32, random_state=0).fit(x, y)
    # the mean alone scores about 0; 32 complex features fit at most 64 of 2000 degrees of freedom
    assert -0.1 < model.score(rng.uniform(size=(2000, 2)), rng.normal(size=2000)) < 0.05


def test_without_noise_a_weak_ridge_is_nearly_exact():
    x, y, _ = wave(1000, 1, noise=0.0)
    model = ARFFRegressor(n_features=64, delta=1.0, ridge=1e-10, random_state=0).fit(x, y)
    assert model.score(x, y) > 1 - 1e-6


def test_an_infinite_ridge_leaves_the_mean():
    x, y, _ = wave()
    model = ARFFRegressor(**QUICK, ridge=1e9).fit(x, y)
    np.testing.assert_allclose(model.predict(x), y.mean(), atol=1e-6)


def test_units_of_inputs_and_targets_do_not_matter():
    x, y, _ = wave()
    plain = ARFFRegressor(**QUICK).fit(x, y).predict(x)
    unit = np.array([1e12, 1e-12])
    other = ARFFRegressor(**QUICK).fit(x * unit, 1e9 * y + 1e9).predict(x * unit)
    np.testing.assert_allclose((other - 1e9) / 1e9, plain, atol=1e-6)


# Shapes


def test_the_shape_of_the_targets_is_the_shape_of_the_predictions():
    x, y, _ = wave(100)
    several = np.stack([y, y**2, -y], axis=1)
    for targets in (y, y[:, None], several):
        model = ARFFRegressor(**QUICK).fit(x, targets)
        assert model.predict(x[:7]).shape == (7, *targets.shape[1:])


def test_several_outputs_share_frequencies_and_are_all_learned():
    x, y, clean = wave(1000)
    targets = np.stack([y, 100 * np.cos(3 * x[:, 0]), x[:, 1] - 50], axis=1)
    model = ARFFRegressor(n_features=64, delta=0.5, random_state=0).fit(x, targets)
    scores = r2_score(
        np.stack([clean, targets[:, 1], targets[:, 2]], axis=1), model.predict(x), multioutput="raw_values"
    )
    assert (scores > 0.95).all()
    assert model.score(x, targets) == pytest.approx(r2_score(targets, model.predict(x)))
    assert model.series_.omega.shape == (64, 2)
    assert model.series_.beta.shape == (64, 3)


def test_repeated_targets_give_repeated_predictions():
    x, y, _ = wave(100)
    predictions = ARFFRegressor(**QUICK).fit(x, np.stack([y, y, 3 * y], axis=1)).predict(x)
    np.testing.assert_allclose(predictions[:, 1], predictions[:, 0], rtol=1e-9)
    np.testing.assert_allclose(predictions[:, 2], 3 * predictions[:, 0], rtol=1e-9)


def test_constant_columns_and_targets_are_harmless():
    x, y, _ = wave(100)
    x[:, 1] = 5.0
    model = ARFFRegressor(**QUICK).fit(x, np.stack([y, np.full(100, 0.1)], axis=1))
    np.testing.assert_allclose(model.predict(x)[:, 1], 0.1, rtol=1e-9)
    assert np.isfinite(model.predict(x)).all()


def test_score_is_the_coefficient_of_determination():
    x, y, _ = wave()
    model = ARFFRegressor(**QUICK).fit(x, y)
    residual, total = ((y - model.predict(x)) ** 2).sum(), ((y - y.mean()) ** 2).sum()
    assert model.score(x, y) == pytest.approx(1 - residual / total)


def test_the_learned_function_and_its_training_are_kept():
    x, y, _ = wave()
    model = ARFFRegressor(**QUICK).fit(x, y)
    np.testing.assert_array_equal(model.series_(x)[:, 0], model.predict(x))
    assert model.n_iter_ == model.training_.n_iterations == len(model.training_.seconds)
    assert model.n_features_in_ == 2


def test_the_data_are_not_changed():
    x, y, _ = wave(50)
    kept = x.copy(), y.copy()
    ARFFRegressor(**QUICK).fit(x, y)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(y, kept[1])


# Randomness


def test_the_same_random_state_gives_the_same_result():
    x, y, _ = wave()
    a, b, c = (ARFFRegressor(**{**QUICK, "random_state": seed}).fit(x, y).predict(x) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_a_random_state_object_moves_on():
    x, y, _ = wave()
    model = ARFFRegressor(**{**QUICK, "random_state": np.random.RandomState(0)})
    first, second = model.fit(x, y).predict(x), model.fit(x, y).predict(x)
    again = ARFFRegressor(**{**QUICK, "random_state": np.random.RandomState(0)}).fit(x, y).predict(x)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, again)


# Among other estimators


def test_a_clone_has_the_parameters_and_not_the_result():
    x, y, _ = wave()
    model = ARFFRegressor(**QUICK, ridge=1e-4, resample=False).fit(x, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(x)
    np.testing.assert_array_equal(copy.fit(x, y).predict(x), model.predict(x))


def test_its_parameters_are_those_of_arff():
    parameters = ARFFRegressor().get_params()
    assert parameters.pop("random_state") is None
    assert ARFF(**parameters) == ARFF()


def test_a_scaler_before_it_changes_nothing():
    x, y, _ = wave()
    piped = make_pipeline(StandardScaler(), ARFFRegressor(**QUICK)).fit(x * [1e3, 1e-3], y)
    plain = ARFFRegressor(**QUICK).fit(x, y)
    np.testing.assert_allclose(piped.predict(x * [1e3, 1e-3]), plain.predict(x), atol=1e-8)
    assert piped.score(x * [1e3, 1e-3], y) == pytest.approx(plain.score(x, y))


def test_a_grid_search_finds_the_ridge():
    x, y, _ = wave(300)
    search = GridSearchCV(ARFFRegressor(**QUICK), {"ridge": [1e-4, 1e-2, 1e3]}, cv=3).fit(x, y)
    assert search.best_params_["ridge"] != 1e3
    assert search.best_score_ > 0.3
    scores = dict(zip([1e-4, 1e-2, 1e3], search.cv_results_["mean_test_score"], strict=True))
    assert scores[1e3] < 0.1
    assert search.predict(x).shape == (300,)


def test_a_grid_search_through_a_pipeline():
    x, y, _ = wave(200)
    pipeline = make_pipeline(StandardScaler(), ARFFRegressor(**QUICK))
    search = GridSearchCV(pipeline, {"arffregressor__n_features": [1, 16]}, cv=2).fit(x, y)
    assert search.best_params_ == {"arffregressor__n_features": 16}


def test_cross_validation_and_meta_estimators_accept_it():
    x, y, _ = wave(300)
    assert (
        cross_val_score(ARFFRegressor(**QUICK | {"max_iterations": 60, "min_iterations": 30}), x, y, cv=3).min() > 0.3
    )
    both = MultiOutputRegressor(ARFFRegressor(**QUICK)).fit(x, np.stack([y, 2 * y], axis=1))
    np.testing.assert_allclose(both.predict(x)[:, 1], 2 * both.predict(x)[:, 0], rtol=1e-9)


def test_tables_with_named_columns_are_accepted():
    pd = pytest.importorskip("pandas")
    x, y, _ = wave(100)
    table = pd.DataFrame(x, columns=["position", "speed"])
    model = ARFFRegressor(**QUICK).fit(table, pd.Series(y))
    assert list(model.feature_names_in_) == ["position", "speed"]
    np.testing.assert_array_equal(model.predict(table), ARFFRegressor(**QUICK).fit(x, y).predict(x))


# What goes wrong


def test_training_that_did_not_settle_is_a_warning():
    x, y, _ = wave(100)
    with pytest.warns(ConvergenceWarning, match="max_iterations = 3"):
        ARFFRegressor(n_features=8, max_iterations=3, random_state=0).fit(x, y)


@pytest.mark.parametrize(
    ("field", "value"), [("n_features", 0), ("ridge", -1.0), ("pairing", "none"), ("validation_fraction", 2.0)]
)
def test_parameters_out_of_range_are_named_when_fitting(field, value):
    x, y, _ = wave(50)
    model = ARFFRegressor(**{field: value})
    with pytest.raises(InputError, match=field):
        model.fit(x, y)
    assert not hasattr(model, "series_")


def test_columns_must_be_those_of_training():
    x, y, _ = wave(50)
    model = ARFFRegressor(**QUICK).fit(x, y)
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.predict(x[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((3, 2), np.nan))


def test_a_constant_column_has_no_say_elsewhere():
    x = np.random.default_rng(0).uniform(-1, 1, (400, 1))
    points = np.hstack([x, np.full_like(x, 7.0)])
    model = ARFFRegressor(n_features=16, random_state=0).fit(points, np.sin(3 * x[:, 0]))
    for elsewhere in (7.5, -100.0):
        np.testing.assert_array_equal(model.predict([[0.3, elsewhere]]), model.predict([[0.3, 7.0]]))
