"""The page about a model: what it says, and that it opens in a browser of any width."""

import re
import sys

import numpy as np
import pytest
from browser import chromium, problems, requests

import itofit
from itofit import InputError
from itofit.looking.report import found_formula, report
from itofit.looking.report.contents import _formula
from itofit.looking.report.found_formula import formula_for
from itofit.looking.report.numbers import plus_minus
from itofit.looking.report.page import CLASSES, breakable, equation, printed, typeset
from itofit.model.formula.written import line_text


def tracks(rng, n=40, n_steps=60, h=0.05):
    x = rng.uniform(-1.5, 1.5, (n, 1))
    found = [x]
    for _ in range(n_steps):
        x = x + h * (x - x**3) + np.sqrt(h) * (0.6 + 0.2 * x) * rng.standard_normal(x.shape)
        found.append(x)
    return list(np.stack(found, axis=1))


pytestmark = pytest.mark.usefixtures("few_paths")


@pytest.fixture(scope="module")
def one():
    data = itofit.Transitions.from_trajectories(tracks(np.random.default_rng(0)), dt=0.05, names=["<height> & $"])
    return itofit.fit(data, rng=0), data


@pytest.fixture(scope="module")
def general():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (800, 3))
    dx = 0.1 * np.column_stack([np.sin(2 * x[:, 0]), x[:, 2]]) + 0.1 * rng.normal(size=(800, 2))
    data = itofit.Transitions(x, dx, 0.1, input_names=["a", "b", "c"], output_names=["p", "q"])
    return itofit.fit(data, rng=0), data


@pytest.fixture(scope="module")
def page(one, tmp_path_factory):
    return report(*one, tmp_path_factory.mktemp("report") / "one.html")


@pytest.fixture(scope="module")
def general_page(general, tmp_path_factory):
    return report(*general, tmp_path_factory.mktemp("general") / "general.html")


@pytest.fixture(scope="module")
def named_page(one, tmp_path_factory):
    """With a title and a file of the model."""
    folder = tmp_path_factory.mktemp("named")
    return report(*one, folder / "named.html", title="Cells & walls", saved_as=folder / "a b.npz", formula=False)


def test_data_whose_variables_are_in_another_order_are_refused(general, tmp_path):
    sde, data = general
    other = itofit.Transitions(data.inputs, data.increments, data.h, None, None, ["a", "b", "c"], ["q", "p"])
    with pytest.raises(InputError, match="the model has p, q, the data q, p"):
        report(sde, other, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def words(path):
    """The text of a page without its pictures."""
    return re.sub(r"data:image/png;base64,[^\"]*", "", path.read_text(encoding="utf-8"))


def marked(text):
    """Spaces at which no line ends, made visible: ~ and _ for a narrow one."""
    return text.replace("\N{NO-BREAK SPACE}", "~").replace("\N{NARROW NO-BREAK SPACE}", "_")


def test_the_page_says_what_was_learned_and_how_far_to_trust_it(one, page):
    sde, data = one
    text = words(page)
    assert "<title>Drift and noise of &lt;height&gt; &amp; $</title>" in text
    assert "<height>" not in text
    assert f"{len(data):,} transitions in 40 trajectories" in text
    diagnosis = itofit.check(sde, data, rng=0)
    assert f'Overall: <span class="verdict {CLASSES.get(diagnosis.worst, diagnosis.worst)}">' in text
    untold = [finding.title for finding in diagnosis if finding.verdict == "cannot tell"]
    assert not untold or f"Too few data to tell: {', '.join(untold)}." in text
    for finding in diagnosis.findings:
        assert finding.title in text
    assert "itofit.load(" in text
    assert f"{sde.link.capitalize()} link: " in text  # and what that means
    assert "seed 0" in text
    median = float(np.median(data.inputs))
    f, std = sde.drift([median], return_std=True)
    assert plus_minus(f[0, 0], std[0, 0]).replace(" ", "\N{NO-BREAK SPACE}") in text
    assert "mean first-passage time" in text
    pictures = 3 + 3 + 2 + 1 + 2 + 1  # of the formula, model, residuals, distributions, answers, training
    assert text.count("<img ") == text.count("<figcaption>") == pictures
    assert "<script" not in text
    assert "http" not in text


def test_values_have_the_decimals_of_their_errors():
    assert plus_minus(-0.05573, 0.12 / 1.96) == "−0.06 ± 0.12"
    assert plus_minus(1234.5, 30 / 1.96) == "1234 ± 30"
    assert plus_minus(2.0, 0.0) == "2 ± 0"


def test_long_names_stand_beside_the_equation():
    assert "d(x, y) = f(x, y) dt + σ(x, y) dW" in equation(["x", "y"], ["x", "y"])
    assert "dv = f(x, v) dt" in equation(["x", "v"], ["v"])
    name = "concentration of calcium"
    assert f"dx = f dt + σ dW, Σ = σσᵀ, x = ({name})" in equation([name], [name])
    assert f"f and σ depend on temperature, {name}<" in equation(["temperature", name], [name])


def test_the_page_is_repeatable_and_has_a_title_of_its_own(one, page, named_page, tmp_path):
    again = report(*one, tmp_path / "again.html", rng=0)
    assert again == tmp_path / "again.html"
    assert again.read_bytes() == page.read_bytes()
    assert list(tmp_path.iterdir()) == [again]
    assert "<h1>Cells &amp; walls</h1>" in words(named_page)
    assert "The formula" not in words(named_page)


def test_what_cannot_be_done_is_left_out_and_said(general_page):
    text = words(general_page)
    assert "kind &#x27;general&#x27;" in text
    assert text.count("<img ") == 2 + 3 + 2 + 2 + 4 + 1  # formula, its losses, slices, maps, residuals, training
    assert re.search(r"<span>a~=~−0\.\d+</span> <span>\(10_%\)</span></td>", marked(text))


def test_data_in_blocks_and_models_without_error_bars(tmp_path):
    data = itofit.Transitions.from_trajectories(tracks(np.random.default_rng(1), 20), dt=0.05)
    sde = itofit.fit(data, refine=False, rng=0)
    text = words(report(sde, itofit.Transitions.from_blocks([data]), tmp_path / "blocks.html", formula=False))
    assert "carries no error bars" in text
    assert "Drift settings" in text
    assert "return_std" not in text


def test_bad_input_leaves_no_file(one, tmp_path, monkeypatch):
    sde, data = one
    with pytest.raises(FileNotFoundError, match="no directory"):
        report(sde, data, tmp_path / "none" / "page.html")
    with pytest.raises(IsADirectoryError, match="path of a file"):
        report(sde, data, tmp_path)
    with pytest.raises(InputError, match=r"report writes a \.html or \.htm file, got page\.pdf: give a name that"):
        report(sde, data, tmp_path / "page.pdf")
    with pytest.raises(InputError, match="title"):
        report(sde, data, tmp_path / "page.html", title=3)
    with pytest.raises(InputError, match="LearnedSDE"):
        report(None, data, tmp_path / "page.html")
    with pytest.raises(InputError, match="at least 20"):
        report(sde, data[:5], tmp_path / "page.html")
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install"):
        report(sde, data, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def open_at(browser, width, path):
    """Open a page as on a screen of some width, also below the least of the browser's windows."""
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    assert browser.execute_script("return window.innerWidth") == width


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(1400, tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


@pytest.mark.parametrize("width", [400, 1400])
def test_pages_open_in_a_browser(page, general_page, browser, width):
    for path, n_pictures in ((page, 12), (general_page, 14)):
        open_at(browser, width, path)
        assert problems(browser) == []
        assert [url for url in requests(browser) if not url.startswith(("file:", "data:"))] == []
        images = browser.find_elements("tag name", "img")
        assert len(images) == n_pictures
        for image in images:
            assert image.is_displayed()
            assert int(image.get_property("naturalWidth")) > 100
            assert 200 < image.size["width"] <= width
        assert nothing_is_cut(browser)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert width < 718 or nothing_is_cut(browser)  # the width of a sheet without its margins
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def nothing_is_cut(browser):
    """Whether neither the page nor any part of it is wider than there is room for."""
    return browser.execute_script(
        "return [document.documentElement, ...document.querySelectorAll('pre, table, div, p')]"
        ".every(part => part.scrollWidth <= part.clientWidth && part.scrollWidth <= window.innerWidth)"
    )


def test_three_variables_with_long_names_fit_on_a_phone_and_on_paper(browser, tmp_path):
    rng = np.random.default_rng(0)
    x, mix = rng.normal(size=(400, 3)), np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    names = ["height_of_column", "pressure_at_surface", "z"]
    data = itofit.Transitions.from_pairs(
        x, 0.9 * x + (0.1 + 0.3 * x[:, :1] ** 2) * rng.normal(size=x.shape) @ mix.T, 0.1, names=names
    )
    path = report(itofit.fit(data, structure="full", link="log", rng=0), data, tmp_path / "three.html")
    text = words(path)
    assert text.count("<caption>") == 3 + 2  # outputs, and two pairs at a time
    assert "Noise covariance of height_of_column and pressure_at_surface along each input" in text
    assert path.stat().st_size < 3e6
    for width, media in ((400, ""), (1400, ""), (718, "print")):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        open_at(browser, width, path)
        assert nothing_is_cut(browser)


def test_signs_are_the_same_all_over_the_page():
    assert marked(typeset("+0.6 +- 0.1 of -31%, p = 1e-16")) == "+0.6~±~0.1 of −31_%, p~=~1e−16"
    assert marked(typeset("a-1, 2024-01-02 and <95 % of b>")) == "a-1, 2024-01-02 and &lt;95_% of b&gt;"
    assert breakable("Σ_xx, H_height_of_column") == "Σ_xx, H_height_<wbr>of_<wbr>column"


def test_the_code_names_the_file_of_the_model_if_it_is_known(one, page, named_page, tmp_path):
    assert "# sde.npz is an example of a name" in words(page)
    text = words(named_page)
    assert "example of a name" not in text
    assert "a b.npz&quot;)" in text
    with pytest.raises(InputError, match="saved_as must be the path"):
        report(*one, tmp_path / "page.html", saved_as=3)


def test_a_corrected_model_is_reported_as_one(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    data = itofit.Transitions.from_pairs(x, np.exp(-0.3) * x + 0.5 * rng.normal(size=1000), 0.3)
    sde = itofit.fit(data, correct_step=True, rng=0)
    for model, words in ((sde, "corrected for the length"), (sde.one_step, "of one observed step")):
        itofit.report(model, data, tmp_path / "report.html", formula=False)
        assert words in (tmp_path / "report.html").read_text(encoding="utf-8")


# The formula


def test_the_formula_stands_at_the_top(one, page):
    text, (sde, data) = words(page), one
    assert text.index("<h2>The formula</h2>") < text.index("<h2>What was learned</h2>")
    formula = sde.formula(data)
    assert printed("\n".join(f"{name} = {line_text(formula, line)}" for name, line in formula.lines.items())) in text


def test_what_is_no_short_formula_and_what_is_not_looked_for_is_said():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 20_000)
    data = itofit.Transitions.from_pairs(x, x + 0.1 * np.sin(4 * x) + 0.05 * rng.normal(size=x.shape), 0.1)
    sde = itofit.fit(data, rng=0)
    said = marked("".join(_formula(True, sde, data, data)))
    assert "No short formula was found. The nearest sum of 5 possible terms for each function predicts worse" in said
    assert "<img" not in said
    few = marked("".join(_formula(True, sde, data[:30], data)))
    assert "No formula was looked for. A formula of 5 possible terms needs at least 50 transitions" in few
    wide = rng.normal(size=(60, 7))
    wide = itofit.Transitions.from_pairs(wide, wide + 0.1 * rng.normal(size=wide.shape), 0.1)
    assert "With 7 inputs that takes long" in formula_for(itofit.fit(wide, rng=0), wide).why_not


def test_of_many_data_some_are_looked_at_and_count_as_seen(one, monkeypatch):
    sde, data = one
    monkeypatch.setattr(found_formula, "MOST_ROWS", 600)
    found = formula_for(sde, data)
    assert (found.formula.data.n_transitions, found.n_data) == (600, 2400)
    whole = found.formula.prediction.how
    assert "the learned functions have seen them" in whole
    assert "The formula comes from 600 of 2,400 transitions" in marked("".join(_formula(found, sde, data, data)))
    assert formula_for(sde, itofit.Transitions.from_blocks([data])).formula.prediction.how == whole
    assert "seen them" not in formula_for(sde, data[:2000]).formula.prediction.how
    assert "held-out" in formula_for(sde, data, data[:500]).formula.prediction.how
