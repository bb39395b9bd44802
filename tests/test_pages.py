"""Pages opened in a browser: no errors, no requests, every picture visible, nothing wider than the window."""

import pytest
from browser import chromium, problems, requests

from itofit.experiments.reproduce import write_report
from itofit.experiments.results import Results
from itofit.experiments.runner import missing, run_all


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    results = Results.open(tmp_path_factory.mktemp("page") / "results", quick=True, seed=0)
    assert all(
        not done.error for done in run_all(results, missing(results, ["1"], ["algorithm-2", "default"], 2, 0), 1, print)
    )
    return write_report(results, 1, lambda done, of: None)


@pytest.mark.parametrize("width", [500, 1400])
def test_reproduction_opens_in_a_browser(reproduction, tmp_path, width):
    with chromium(width, tmp_path) as browser:
        browser.get(reproduction.as_uri())
        assert "reproduced" in browser.title
        assert problems(browser) == []
        assert [url for url in requests(browser) if not url.startswith(("file:", "data:"))] == []
        images = browser.find_elements("tag name", "img")
        assert len(images) == 3
        for image in images:
            assert image.is_displayed()
            assert int(image.get_property("naturalWidth")) > 100
            assert image.size["width"] <= width
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_a_request_would_be_noticed(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<img src="http://127.0.0.1:9/none.png">')
    with chromium(800, tmp_path / "profile") as browser:
        browser.get(page.as_uri())
        assert any(url.startswith("http:") for url in requests(browser))
        assert problems(browser)
