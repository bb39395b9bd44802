"""Pages that are run: their commands and code from top to bottom, their outputs compared with those on the page.

A page of Markdown is a list of fenced blocks. Those that are run, in one directory and one Python namespace:

- ``console``: lines that begin with ``$`` are commands for bash, what follows is what they print, errors included. A
  command that fails must be followed by ``$ echo $?``. Commands of itofit in which nothing is for the shell are run in
  this process, which has imported all they need; so are those with ``| head`` or ``> file`` after them.
- ``pycon``: as in a doctest.
- ``python``: code; if it prints, a block ``text`` follows with what it prints.

Texts must agree up to spaces, and ``...`` stands for anything. Numbers with decimals may differ by one in their last
digit, so that another processor or another BLAS changes nothing, and percentages by one; other whole numbers may not.

Where numbers rest on many decisions, ``<!-- tolerance: 0.1 -->`` before a block lets those in it differ by a tenth of
themselves.

``python tests/guides.py docs/tutorial.md`` writes what a page prints into the page, and its figures into docs/figures.
Look at the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from click.testing import Result

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOLERANCE = re.compile(r"<!-- tolerance: (\S+) -->\s*$")
NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:e[-+]?\d+)?%?(?![\w])")
VARYING = (
    (re.compile(r"itofit \d+\.\d+\.\d+[\w.+-]*"), "itofit VERSION"),
    (re.compile(r"\bin \d+\.\d+ s\b"), "in SECONDS s"),
)
"""What no two machines agree on, and what to compare in its place."""
FIGURE = re.compile(r"!\[[^\]]*\]\((?:\.\./)?figures/([^)]+)\)")
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
PLAIN = re.compile(r"itofit( [\w.,/=:-]+)+")
"""A command in which nothing is for the shell."""
SENT_ON = re.compile(rf"({PLAIN.pattern}) (?:> ([\w.-]+)|\| ([^|&;<>$`]+))")
"""Such a command with a file for what it prints, or another program."""
UNSET = ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "GITHUB_ACTIONS")
"""Variables that would colour what commands print."""


@dataclass
class Step:
    """Something to run, what the page says that it prints, and where in the page that stands."""

    kind: str
    source: str
    expected: str
    start: int
    end: int
    indent: str = ""
    tolerance: float = 1e-6
    section: str = ""


@dataclass
class Page:
    """A page that is run in a directory, without the commands in `skip`."""

    path: Path
    folder: Path
    skip: tuple[str, ...] = ()
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "__main__"})
    status: int = 0
    printed: str = ""
    failed: str = ""

    def differences(self, steps: list[Step]) -> list[str]:
        """All that steps print otherwise than the page says; a step that fails is the last that is run."""
        told = []
        for step in steps:
            if self.failed:
                told.append(f"{self.path.name}: not run, since this failed before:\n{self.failed}")
                break
            try:
                printed = self.run(step)
            except Exception:
                self.failed = step.source
                told.append(f"{self.path.name}: {step.source}\nfailed:\n{traceback.format_exc()}")
                break
            if printed is not None and (other := difference(step.expected, printed, step.tolerance)):
                told.append(f"{self.path.name}: {step.source}\n{other}")
        return told

    def run(self, step: Step) -> str | None:
        """What a step prints; None if it is not to be run."""
        if step.kind != "console":
            return in_python(step, self.names)
        if step.source in self.skip:
            return None
        if self.status and not step.source.startswith("echo $?"):
            before = f"the command before $ {step.source} failed with {self.status}"
            raise AssertionError(f"{self.path.name}: {before}:\n{self.printed}")
        if PLAIN.fullmatch(step.source):
            self.printed, self.status = in_this_process(step.source, self.folder)
        elif sent := SENT_ON.fullmatch(step.source):
            self.printed, self.status = sent_on(sent[1], sent[3], sent[4], self.folder)
        else:
            self.printed, self.status = in_shell(f"(exit {self.status}); {step.source}", self.folder)
        return self.printed


def steps_of(text: str) -> list[Step]:
    """What to run of a page."""
    steps, fences = [], list(FENCE.finditer(text))
    for place, fence in enumerate(fences):
        kind, body, start = fence[1], fence[2], fence.start(2)
        found = []
        if kind == "console":
            found = console_steps(body, start)
        elif kind == "pycon":
            found = pycon_steps(body, start)
        elif kind == "python":
            after = fences[place + 1] if place + 1 < len(fences) else None
            if after and after[1] == "text" and not text[fence.end() : after.start()].strip():
                found = [Step("python", body, after[2], after.start(2), after.end(2))]
            else:
                found = [Step("python", body, "", -1, -1)]
        tolerance = TOLERANCE.search(text[: fence.start()])
        headings = HEADING.findall(FENCE.sub("", text[: fence.start()]))
        for step in found:
            step.tolerance = float(tolerance[1]) if tolerance else step.tolerance
            step.section = headings[-1] if headings else ""
        steps += found
    return steps


def sections_of(text: str) -> dict[str, list[Step]]:
    """What to run of a page, by the headings of its sections."""
    sections: dict[str, list[Step]] = {}
    for step in steps_of(text):
        sections.setdefault(step.section, []).append(step)
    return sections


def console_steps(body: str, start: int) -> list[Step]:
    """Commands and what they print."""
    steps: list[Step] = []
    place = start
    for line in body.splitlines(keepends=True):
        place += len(line)
        if line.startswith("$ "):
            steps.append(Step("console", line[2:].rstrip("\n"), "", place, place))
        elif steps and not steps[-1].expected and line.startswith("> "):
            steps[-1].source += "\n" + line[2:].rstrip("\n")
            steps[-1].start = steps[-1].end = place
        else:
            assert steps, f"a console block must begin with a command, got {line!r}"
            steps[-1].expected += line
            steps[-1].end = place
    return steps


def pycon_steps(body: str, start: int) -> list[Step]:
    """Statements and what they print."""
    lines = body.splitlines(keepends=True)
    offsets = [start + sum(map(len, lines[:i])) for i in range(len(lines) + 1)]
    steps = []
    for example in doctest.DocTestParser().get_examples(body):
        first = example.lineno + example.source.count("\n")
        last = first
        while last < len(lines) and lines[last].strip() and not lines[last].startswith(">>> "):
            last += 1
        expected, indent = "".join(lines[first:last]), " " * example.indent
        steps.append(Step("pycon", example.source, expected, offsets[first], offsets[last], indent))
    return steps


def in_shell(command: str, folder: Path, given: str = "") -> tuple[str, int]:
    """What a command prints and its exit code, with the programs of this environment and no terminal."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "MPLBACKEND": "Agg", "PYTHONUTF8": "1"}
    for name in UNSET:
        environment.pop(name, None)
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return run.stdout, run.returncode


def in_this_process(command: str, folder: Path) -> tuple[str, int]:
    """The same for a plain command of itofit; an error that the command does not explain is raised."""
    result = invoked(command, folder)
    return result.output, result.exit_code


def sent_on(command: str, file: str | None, program: str | None, folder: Path) -> tuple[str, int]:
    """The same with what the command prints in a file, or given to a program; errors are still seen."""
    result = invoked(command, folder)
    if file is not None:
        (folder / file).write_text(result.stdout, encoding="utf-8")
        return result.stderr, result.exit_code
    printed, status = in_shell(str(program), folder, result.stdout)
    return result.stderr + printed, status


def invoked(command: str, folder: Path) -> Result:
    """The result of a plain command of itofit."""
    from typer.testing import CliRunner

    from itofit.cli import app

    environment = {"COLUMNS": "100", "MPLBACKEND": "Agg", **dict.fromkeys(UNSET)}
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, shlex.split(command)[1:], env=environment, prog_name="itofit")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def in_python(step: Step, names: dict[str, object]) -> str:
    """What code prints, with warnings and, in a session, an error."""
    printed = io.StringIO()

    def show(message, category, filename, lineno, file=None, line=None):
        printed.write(f"<stdin>:1: {category.__name__}: {message}\n")

    mode = "single" if step.kind == "pycon" else "exec"
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)  # of one package about another: Python does not show them
        warnings.showwarning = show
        try:
            exec(compile(step.source, "<page>", mode, dont_inherit=True), names)
        except Exception as error:
            if step.kind != "pycon":
                raise
            told = "".join(traceback.format_exception_only(error))
            printed.write(f"Traceback (most recent call last):\n  ...\n{told}")
    return printed.getvalue()


# Comparison


def difference(expected: str, got: str, tolerance: float = 1e-6) -> str:
    """Where what was printed differs from what the page says, in words; empty if it does not."""
    wanted, found = plain(expected), plain(got)
    pattern, numbers, place = "", [], 0
    for token in re.finditer(rf"\.\.\.|{NUMBER.pattern}", wanted):
        pattern += re.escape(wanted[place : token.start()])
        place = token.end()
        if token[0] == "...":
            pattern += ".*?"
        else:
            pattern += f"({NUMBER.pattern})"
            numbers.append(token[0])
    match = re.fullmatch(pattern + re.escape(wanted[place:]), found, re.DOTALL)
    if match is None:
        return f"the page says\n{wanted}\nbut this was printed:\n{found}"
    wrong = [
        f"the page says {said}, {printed} was printed"
        for said, printed in zip(numbers, match.groups(), strict=True)
        if not near(said, printed, tolerance)
    ]
    return "\n".join([*wrong, f"in\n{found}"]) if wrong else ""


def plain(text: str) -> str:
    """Text without what varies: versions, times, runs of spaces."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    lines = [re.sub(r"[ \t]+", " ", line).rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip("\n")


def near(said: str, printed: str, tolerance: float) -> bool:
    """Whether two numbers agree up to the last digit on the page, or up to a share of themselves."""
    if said == printed:
        return True
    a, b = (float(text.replace(",", "").replace("−", "-").rstrip("%")) for text in (said, printed))
    mantissa, _, exponent = said.rstrip("%").partition("e")
    decimals = len(mantissa.partition(".")[2])
    if "." not in mantissa and not exponent and not said.endswith("%"):
        return a == b and "." not in printed
    unit = 10.0 ** (int(exponent or 0) - decimals)
    return abs(a - b) <= 1.001 * max(unit, tolerance * abs(a))


# Pages written again


def rewritten(page: Page) -> str:
    """The page with what its commands print now; what still agrees stays as it is."""
    text = page.path.read_text(encoding="utf-8")
    pieces, place = [], 0
    for step in steps_of(text):
        got = page.run(step)
        if got is None or not difference(step.expected, got, step.tolerance):
            continue
        assert step.start >= 0, f"this prints, so a block ```text must follow it:\n{step.source}\n{got}"
        lines = [f"{step.indent}{line}".rstrip() + "\n" for line in got.splitlines()]
        pieces += [text[place : step.start], "".join(lines)]
        place = step.end
    return "".join(pieces) + text[place:]


def figures_of(text: str, stem: str) -> dict[str, str]:
    """Figures of a page: the name in docs/figures, and that of the file which the page's code writes."""
    return {name: name.removeprefix(f"{stem}-") for name in FIGURE.findall(text)}


def photograph(page: Path, target: Path) -> None:
    """The top of a page in a browser, in few colours."""
    from browser import chromium
    from PIL import Image

    with tempfile.TemporaryDirectory() as profile, chromium(1000, profile) as browser:
        browser.set_window_size(1000, 1240)
        browser.get(page.resolve().as_uri())
        picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    small = picture.resize((800, round(0.8 * picture.height)), Image.Resampling.LANCZOS)
    small.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)


def main() -> None:
    """Write pages again."""
    import matplotlib as mpl
    from test_guides import DOCS, SCREENSHOTS, SKIPPED, stem_of

    mpl.use("Agg")
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = rewritten(Page(path, Path(folder), SKIPPED))
            path.write_text(text, encoding="utf-8")
            for target, source in figures_of(text, stem_of(path)).items():
                if target in SCREENSHOTS:
                    photograph(Path(source).with_suffix(".html"), DOCS / "figures" / target)
                else:
                    shutil.copy(source, DOCS / "figures" / target)


if __name__ == "__main__":
    main()
