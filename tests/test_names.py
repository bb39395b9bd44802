import dataclasses
import json
import pickle
from contextlib import nullcontext
from functools import cache

import numpy as np
import pandas as pd
import pytest

from itofit import ARFF, InputError, LearnedSDE, ModelFileError, Transitions, fit, load
from itofit.data.names import check_variables, did_you_mean

RNG = np.random.default_rng(0)
X0 = RNG.normal(size=(60, 2))
X1 = X0 - 0.1 * X0 + 0.1 * RNG.normal(size=(60, 2))
NAMED = Transitions.from_pairs(X0, X1, 0.1, np.arange(60) // 10, names=["height", "width"])
BOTH = (("height", "width"), ("height", "width"))


def names(data):
    return data.input_names, data.output_names


@cache
def learn(data=NAMED, refine=True):
    arff = ARFF(n_features=4, ridge=1e-3, max_iterations=2, min_iterations=1)
    with pytest.warns(UserWarning, match=".") if not refine else nullcontext():
        return fit(data, refine=refine, rng=0, **({} if refine else {"drift": arff, "covariance": arff}))


# Defaults


@pytest.mark.parametrize(
    ("m", "d", "kind", "expected"),
    [
        (1, 1, None, (("x",), ("x",))),
        (3, 3, None, (("x1", "x2", "x3"), ("x1", "x2", "x3"))),
        (2, 1, "underdamped", (("x", "v"), ("v",))),
        (4, 2, "underdamped", (("x1", "x2", "v1", "v2"), ("v1", "v2"))),
        (3, 1, "general", (("x1", "x2", "x3"), ("x",))),
    ],
)
def test_names_that_nobody_gave(m, d, kind, expected):
    assert names(Transitions(np.ones((5, m)), np.ones((5, d)), 0.1, kind=kind)) == expected


def test_constructors_have_default_names():
    assert names(Transitions.from_pairs(X0, X1, 0.1)) == (("x1", "x2"), ("x1", "x2"))
    assert names(Transitions.from_trajectories(X0[:, 0], dt=0.1)) == (("x",), ("x",))
    assert names(Transitions.from_underdamped(X0, X0, X1, X1, 0.1)) == (("x1", "x2", "v1", "v2"), ("v1", "v2"))
    assert names(Transitions.from_blocks(X0, "trajectory", h=0.1)) == (("x1", "x2"), ("x1", "x2"))


# Names that were given


def test_names_of_the_state():
    assert names(NAMED) == BOTH
    assert names(Transitions.from_trajectories(X0, dt=0.1, names=("height", "width"))) == BOTH
    assert names(Transitions.from_trajectories(X0[:, 0], dt=0.1, names="a")) == (("a",), ("a",))


def test_names_of_positions_and_velocities():
    make = Transitions.from_underdamped
    assert names(make(X0, X0, X1, X1, 0.1, names=["a", "b"])) == (("a", "b", "v_a", "v_b"), ("v_a", "v_b"))
    both = make(X0, X0, X1, X1, 0.1, names=["a", "b"], velocity_names=["p", "q"])
    assert names(both) == (("a", "b", "p", "q"), ("p", "q"))
    assert names(make(X0, X0, X1, X1, 0.1, velocity_names=["p", "q"])) == (("x1", "x2", "p", "q"), ("p", "q"))


def test_inputs_and_outputs_of_the_general_form():
    make = Transitions
    assert names(make(X0, X0, 0.1, input_names=["a", "b"])) == (("a", "b"), ("a", "b"))
    assert names(make(X0, X0, 0.1, output_names=["a", "b"])) == (("a", "b"), ("a", "b"))
    assert names(make(X0, X0[:, 0], 0.1, input_names=["a", "b"])) == (("a", "b"), ("x",))
    assert names(make(X0, X0[:, 0], 0.1, output_names="u")) == (("x1", "x2"), ("u",))
    assert names(make(X0, X0[:, 0], 0.1, kind="underdamped", input_names=["a", "b"])) == (("a", "b"), ("b",))


@pytest.mark.parametrize("wrong", [["a"], ["a", "b", "c"], ["a", "a"], ["a", 1], ["a", " "], "ab", [], 5])
def test_names_that_do_not_fit(wrong):
    with pytest.raises(InputError, match="names must"):
        Transitions.from_pairs(X0, X1, 0.1, names=wrong)
    with pytest.raises(InputError, match="names must"):
        Transitions.from_underdamped(X0, X0, X1, X1, 0.1, names=wrong)
    with pytest.raises(InputError, match="names must"):
        Transitions.from_blocks((X0, X1), h=0.1, names=wrong)


# What becomes of them


@pytest.mark.parametrize(
    "part",
    [
        lambda data: data[3:7],
        lambda data: data[np.arange(60) % 2 == 0],
        lambda data: data.copy(),
        lambda data: next(data.blocks()),
        lambda data: data.split(0.2, rng=0)[1],
        lambda data: data.split(0.2, by="groups", rng=0)[0],
        lambda data: Transitions.concatenate([data, data[:5]]),
        lambda data: pickle.loads(pickle.dumps(data)),
        lambda data: Transitions.from_blocks([data[:20], data[20:]]),
        lambda data: pickle.loads(pickle.dumps(Transitions.from_blocks([data[:20], data[20:]]))),
        lambda data: next(Transitions.from_blocks([data[:20], data[20:]]).blocks()),
        lambda data: Transitions.from_blocks([data[:20], data[20:]]).split(0.1, rng=0)[1],
    ],
)
def test_parts_keep_the_names(part):
    assert names(part(NAMED)) == BOTH


@pytest.mark.parametrize("form", ["pairs", "increments", "trajectory", "trajectories"])
def test_names_of_blocks(form):
    source = [X0[:30], X0[30:]] if form.startswith("trajector") else [(X0[:30], X1[:30]), (X0[30:], X1[30:])]
    data = Transitions.from_blocks(source, form, h=0.1, names=["height", "width"])
    assert names(data) == BOTH
    assert {names(block) for block in data.blocks()} == {BOTH}


def test_names_of_underdamped_blocks():
    data = Transitions.from_blocks([(X0, X0, X1, X1)], "underdamped", h=0.1, names=["a", "b"])
    assert names(data) == (("a", "b", "v_a", "v_b"), ("v_a", "v_b"))


def test_blocks_with_names_keep_them():
    plain = Transitions.from_pairs(X0, X1, 0.1)
    data = Transitions.from_blocks([plain, NAMED], names=["height", "width"])
    assert len(data) == 120
    assert names(data) == BOTH


def test_different_names_do_not_go_together():
    other = Transitions.from_pairs(X0, X1, 0.1, names=["width", "height"])
    with pytest.raises(InputError, match="inputs are called width, height, those before height, width"):
        Transitions.concatenate([NAMED, other])
    data = Transitions.from_blocks([NAMED, other])
    with pytest.raises(InputError, match="block 1 of the source: the inputs are called width, height"):
        len(data)


# Models


@pytest.mark.parametrize("refine", [True, False])
def test_a_model_knows_the_names_of_its_data(tmp_path, refine):
    sde = learn(refine=refine)
    assert names(sde) == BOTH
    sde.save(tmp_path / "sde.npz")
    back = load(tmp_path / "sde.npz")
    assert names(back) == BOTH
    assert back.summary() == sde.summary()
    assert names(dataclasses.replace(sde, floored_share=0.5)) == BOTH
    assert names(learn(Transitions.from_blocks([NAMED]), refine=refine)) == BOTH


def rewritten(path, change):
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays["metadata"]))
    change(metadata)
    np.savez(path, **(arrays | {"metadata": np.array(json.dumps(metadata))}))
    return path


@pytest.mark.parametrize("field", ["input_names", "output_names"])
def test_a_file_without_names_is_refused(tmp_path, field):
    path = tmp_path / "sde.npz"
    learn().save(path)
    rewritten(path, lambda metadata: metadata["model"].pop(field))
    with pytest.raises(ModelFileError, match=f"{field} of a LearnedSDE is missing"):
        load(path)


@pytest.mark.parametrize("value", [[], ["a"], ["a", "a"], ["a", 1], "ab", None, 5, {"a": 1, "b": 2}])
@pytest.mark.parametrize("field", ["input_names", "output_names"])
def test_damaged_names_are_refused(tmp_path, field, value):
    path = tmp_path / "sde.npz"
    learn().save(path)
    rewritten(path, lambda metadata: metadata["model"].update({field: value}))
    with pytest.raises(ModelFileError, match="not a complete itofit model"):
        load(path)


def test_the_fields_of_a_model_have_defaults():
    fields = {field.name: field for field in dataclasses.fields(LearnedSDE)}
    assert fields["input_names"].default == fields["output_names"].default == ()


# Words


def test_the_summary_speaks_of_variables_by_their_names():
    text = learn().summary()
    assert "variables   height, width" in text
    assert "f of height" in text
    assert "Σ of height" in text
    for default in ("x1", "x2", "f0", "input 0"):
        assert default not in text
    plain = learn(Transitions.from_pairs(X0, X1, 0.1)).summary()
    assert "variables   x1, x2" in plain
    assert "f of x1" in plain
    assert "Σ of x1" in plain
    assert "_" not in plain
    assert text.replace("height", "x1").replace("width", "x2").splitlines()[1] == plain.splitlines()[1]


def test_velocities_move():
    data = Transitions.from_underdamped(X0[:, 0], X0[:, 1], X1[:, 0], X1[:, 1], 0.1, names="q", velocity_names="p")
    text = learn(data).summary()
    assert "variables   q, p; p moves" in text
    assert "Σ of p is constant" in text
    two = Transitions.from_underdamped(X0, X0[::-1], X1, X1[::-1], 0.1, names=["a", "b"])
    assert "variables   a, b, v_a, v_b; v_a, v_b move" in learn(two).summary()


# Of a model and of other data


def called(*names):
    return Transitions.from_pairs(X0, X1, 0.1, names=list(names) or None)


def test_names_in_another_order_are_an_error():
    message = "the model has height, width, the data width, height; make the data again"
    for other in (("width", "height"), ("width", "depth"), ("depth", "height")):
        with pytest.raises(InputError, match=message.replace("width, height;", ", ".join(other) + ";")):
            check_variables(NAMED, called(*other))


def test_other_names_and_none_are_no_error():
    for other in (called(), called("height", "width"), called("height", "depth"), called("a", "b")):
        check_variables(NAMED, other)
        check_variables(other, NAMED)


def test_outputs_in_another_order_are_an_error():
    x, dx = np.ones((5, 3)), np.ones((5, 2))
    pq, qp = (Transitions(x, dx, 0.1, input_names=["a", "b", "c"], output_names=list(names)) for names in ("pq", "qp"))
    with pytest.raises(InputError, match=r"the outputs of the data are not in the order.*p, q, the data q, p"):
        check_variables(pq, qp)


def test_a_similar_name_is_meant():
    assert did_you_mean("sped", ("angle", "Speed")) == " (is it 'Speed' that you mean?)"
    assert did_you_mean("colour", ("angle", "Speed")) == ""


def test_columns_of_a_data_frame_are_found_by_their_names():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"t": np.arange(300) * 0.1, "speed": rng.normal(size=300).cumsum(), "signal": rng.normal(size=300).cumsum()}
    )
    data = Transitions.from_dataframe(frame, time="t", state=["speed", "signal"])
    sde = fit(data, rng=0)
    expected = sde.drift(frame[["speed", "signal"]].to_numpy())
    for given in (frame, frame[["signal", "speed"]], frame[["speed", "signal"]]):
        np.testing.assert_array_equal(sde.drift(given), expected)
        np.testing.assert_array_equal(sde.covariance(given), sde.covariance(frame[["speed", "signal"]].to_numpy()))
    renamed = frame[["speed", "signal"]].rename(columns={"speed": "a", "signal": "b"})
    with pytest.raises(InputError, match="no column 'speed'"):
        sde.drift(renamed)
    swapped = Transitions.from_dataframe(frame, time="t", state=["signal", "speed"])
    with pytest.raises(InputError, match="not in the order of the model's"):
        sde.nll(swapped)


def test_one_number_is_one_point_of_one_variable():
    sde = fit(Transitions.from_trajectories(np.random.default_rng(0).normal(size=100).cumsum(), dt=1.0), rng=0)
    np.testing.assert_array_equal(sde.drift(0.5), sde.drift([0.5]))
    assert sde.covariance(0.5).shape == (1, 1, 1)
