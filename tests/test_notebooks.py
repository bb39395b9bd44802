"""What notebooks show of data, models, checks, formulas and comparisons; names that tab completion offers."""

from html.parser import HTMLParser

import numpy as np
import pytest

import itofit
from itofit import Transitions


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1))
    data = Transitions.from_pairs(x, 0.9 * x + 0.2 * rng.normal(size=x.shape), 0.1, names=["a<b"])
    return data, itofit.fit(data, rng=0)


class Balanced(HTMLParser):
    """Fails unless every element that was opened is closed."""

    def __init__(self):
        super().__init__()
        self.opened, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        if tag != "img":
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(thing):
    page = Balanced()
    page.feed(thing._repr_html_())
    page.close()
    assert not page.opened
    return page.text


def test_data_are_shown_with_their_first_rows(learned):
    data, _ = learned
    text = shown(data)
    assert "300 transitions" in text
    assert f"{data.inputs[0, 0]:.5g}" in text
    assert "a<b" in text  # as text, not as an element


def test_models_checks_and_comparisons_are_shown(learned):
    data, sde = learned
    assert sde.summary().splitlines()[0] in shown(sde)
    diagnosis = itofit.check(sde, data)
    text = shown(diagnosis)
    assert diagnosis.headline in text
    assert all(finding.title in text for finding in diagnosis)
    assert "b compared with a" in shown(itofit.compare(sde, sde))


def test_a_formula_is_shown_as_text_and_as_an_equation(learned):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2000, 1))
    data = Transitions.from_pairs(x, 0.9 * x + 0.2 * rng.normal(size=x.shape), 0.1)
    formula = itofit.fit(data, rng=0).formula(data)
    assert str(formula).splitlines()[0] in shown(formula)
    assert formula._repr_latex_().startswith("$$\\begin{aligned}")


@pytest.mark.parametrize("module", [itofit, itofit.plot, itofit.dynamics])
def test_completion_offers_public_names_alone(module):
    assert sorted(dir(module)) == sorted(module.__all__)
