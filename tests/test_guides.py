"""The tutorial and the how-to guides do what they say: every command and all code on them, with their outputs."""

import contextlib
import re
from pathlib import Path

import pytest
from guides import FENCE, Page, difference, figures_of, sections_of, steps_of

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
SKIPPED = (
    "python3 -m venv ~/itofit-venv",
    ". ~/itofit-venv/bin/activate",
    "pip install --quiet '.[cli,data,plot]'",
    "mkdir ~/wells && cd ~/wells",
)
"""The commands that install the package, which is installed where tests run, and go to a directory of one's own."""
SCREENSHOTS = {"tutorial-report.png"}
"""Pictures of pages in a browser, which no code on a page makes."""
RUNNABLE = {"console", "pycon", "python"}


def name_of(path):
    return str(path.relative_to(DOCS))


def stem_of(path):
    return path.stem if path.parent == DOCS else f"how-to-{path.stem}"


class Opened:
    """A page that is run section by section, each once, in the order of the page."""

    def __init__(self, path, folder):
        self.path, self.folder, self.text = path, folder, path.read_text(encoding="utf-8")
        self.page, self.sections = Page(path, folder, SKIPPED), sections_of(self.text)
        self.told = {}

    def differences(self, section):
        """Those of a section, after the sections before it; with the last one also what is missing at the end."""
        for name, steps in self.sections.items():
            if name not in self.told:
                self.told[name] = self.page.differences(steps)
                if name == list(self.sections)[-1]:
                    self.told[name] += self.missing()
            if name == section:
                break
        return self.told[section]

    def missing(self):
        told = [f"the last command failed with {self.page.status}"] if self.page.status else []
        for target, source in figures_of(self.text, stem_of(self.path)).items():
            if not (DOCS / "figures" / target).exists():
                told.append(f"there is no docs/figures/{target}")
            if target not in SCREENSHOTS and not (self.folder / source).exists():
                told.append(f"no code on the page makes {source}")
        return told


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A function that returns the run of a page and ends that of the page before."""
    mpl, plt = pytest.importorskip("matplotlib"), pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    current = {}

    def run_of(path):
        if path not in current:
            current.clear()
            surroundings.close()
            folder = tmp_path_factory.mktemp("page")
            surroundings.enter_context(mpl.rc_context())
            surroundings.enter_context(contextlib.chdir(folder))
            surroundings.callback(plt.close, "all")
            mpl.use("Agg")
            current[path] = Opened(path, folder)
        return current[path]

    with contextlib.ExitStack() as surroundings:
        yield run_of


SECTIONS = [(path, section) for path in PAGES for section in sections_of(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("path", "section"), SECTIONS, ids=[f"{name_of(path)}: {name}" for path, name in SECTIONS])
def test_the_page_does_what_it_says(opened, path, section):
    """Sections are tests of their own so that none is long; one that is run alone runs those before it."""
    told = opened(path).differences(section)
    assert not told, "\n\n".join(told)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_to_pages(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists() or Path(target).name == "finite-step.md", target


def test_the_index_lists_all_guides():
    (tree,) = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "how-to" / "index.md").read_text(), re.DOTALL)
    listed = {line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")}
    assert listed == {path.stem for path in PAGES if path.parent != DOCS} - {"index"}


def test_every_page_is_run():
    kinds = {path: {step.kind for step in steps_of(path.read_text(encoding="utf-8"))} for path in PAGES}
    assert {path.name for path, found in kinds.items() if not found & RUNNABLE} == {"index.md"}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_no_code_is_left_out(path):
    """Code in lists, or in a language that is not run, would be missed."""
    kinds = re.findall(r"^( *)```(\{?\w+\}?)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(not indent and kind in {*RUNNABLE, "text", "{toctree}"} for indent, kind in kinds)


# The comparison itself


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("loss -0.7655 of 9,401", "loss  -0.7654 of 9,401\n"),
        ("a\n...\nd 0.5", "a\nb 7\nc\nd 0.51"),
        ("variance off +27%", "variance off +28%"),
        ("1.5e-07", "1.4e-07"),
        ("itofit 0.1.0: in 0.00 s", "itofit 2.3.4: in 7.31 s"),
        ("[-1.02  0.98]", "[-1.01  0.98]"),
    ],
)
def test_what_agrees(said, printed):
    assert not difference(said, printed)


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("loss -0.7655", "loss -0.7657"),
        ("9401 transitions", "9402 transitions"),
        ("variance off +27%", "variance off +29%"),
        ("there is no column 'y'", "there is no column 'x'"),
        ("one line", "one line\nand another"),
        ("", "something"),
        ("something", ""),
        ("1.5e-07", "1.5e-06"),
        ("x1 good", "x2 good"),
        ("h = 0.5", "h = nan"),
    ],
)
def test_what_does_not_agree(said, printed):
    assert difference(said, printed)


def test_a_tolerance_holds_for_its_block():
    block = "```pycon\n>>> 1.23456\n1.23456\n```\n"
    steps = steps_of(f"<!-- tolerance: 0.1 -->\n{block}\n{block}")
    assert [bool(difference(step.expected, "1.3", step.tolerance)) for step in steps] == [False, True]


def test_a_failed_command_must_be_seen(tmp_path):
    text = "```console\n$ false\n$ echo again\nagain\n```\n"
    page = Page(tmp_path / "page.md", tmp_path)
    first, second = steps_of(text)
    page.run(first)
    with pytest.raises(AssertionError, match="failed with 1"):
        page.run(second)


# All that is wrong is told at once


WRONG = """
```console
$ echo 3 apples, 2 pears
4 apples, 1 pears
$ echo right
right
```

## Python

```pycon
>>> 1 + 1
3
```

```python
1 / 0
```

## The end

```pycon
>>> "never seen"
```
"""


def test_all_differences_of_a_page_are_told_up_to_what_fails(tmp_path):
    page = Page(tmp_path / "page.md", tmp_path)
    apples, sum_, error = page.differences(steps_of(WRONG))
    assert "the page says 4, 3 was printed" in apples
    assert "the page says 1, 2 was printed" in apples
    assert "the page says 3, 2 was printed" in sum_
    assert "ZeroDivisionError" in error


def test_sections_are_those_of_the_page_and_know_what_failed_before(tmp_path):
    page = Page(tmp_path / "page.md", tmp_path)
    told = {name: page.differences(steps) for name, steps in sections_of(WRONG).items()}
    assert {name: len(differences) for name, differences in told.items()} == {"": 1, "Python": 2, "The end": 1}
    assert "not run, since this failed before:\n1 / 0" in told["The end"][0]
