"""A headless Chromium for tests of pages."""

import json
import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
]


@contextmanager
def chromium(width, folder):
    """A browser window of some width whose profile is kept in a folder; skips the test where there is none."""
    program = shutil.which("chromium")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip(
            "no Chromium here: install Debian's packages chromium and chromium-driver to test pages in a browser"
        )
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={width},1200"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = Chrome(options=options, service=Service(driver))
    try:
        browser.get("about:blank")
        browser.get_log("performance")  # what the browser's own first page asked for
        yield browser
    finally:
        browser.quit()


def requests(browser):
    """The addresses that the page asked for."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def problems(browser):
    """What the page's console says."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
