"""Kills in the middle of writing: one part of `campaign.py`.

A process of its own writes a model, a formula, a page or tables to the same file again and again, or learns and
writes by the command `itofit fit -o`, and is killed (SIGKILL): half of the time when its temporary file is seen
beside the target and a random moment has passed, otherwise at a random time. Then the target must be whole: as it was
before or as it will be, or not there if there was none. The next writer must succeed, and remove what the killed one
has left, once that is old.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import fuzz_rules
import numpy as np
from fuzz_material import data, folder, formula, models, paths

import itofit

LONGEST_WAIT = 60.0
"""Seconds until a writer must have begun."""
OLD = 3600.0
"""Seconds by which what is left is made to look older."""


def trial(seed):
    """One writer, killed."""
    rng = np.random.default_rng([seed, 19])
    kind = str(rng.choice(list(WRITERS), p=[each[2] for each in WRITERS.values()]))
    suffix, write, _ = WRITERS[kind]
    place = folder() / f"kill-{seed}"
    place.mkdir()
    target = place / f"target{suffix}"
    existed = bool(rng.random() < 0.5)
    paths(), formula()
    if existed:
        write(target)
    began = time.perf_counter()
    seen = _kill(rng, kind, write, target)
    left = [entry for entry in place.iterdir() if entry.name.endswith(".partial")]
    faults = [f"left {entry.name}" for entry in place.iterdir() if entry != target and entry not in left]
    if existed and not target.exists():
        faults.append("the file that was there is gone")
    if target.exists():
        faults += _not_whole(kind, target)
    for entry in left:
        os.utime(entry, (time.time() - OLD, time.time() - OLD))
    judged = fuzz_rules.judged(lambda: write(target), lambda _: _not_whole(kind, target))
    if judged.outcome != "answer":
        faults.append(f"the next writer: {judged.text}")
    if any(entry.exists() for entry in left):
        faults.append("what was left stays")
    return {
        "kind": kind,
        "outcome": "fault" if faults else "answer",
        "text": "; ".join(faults)[:400],
        "while_writing": bool(left),
        "seen": seen,
        "seconds": round(time.perf_counter() - began, 3),
    }


def _kill(rng, kind, write, target):
    """Start a writer and kill it; whether its temporary file was seen."""
    if kind == "itofit fit -o":
        process = subprocess.Popen(
            [sys.executable, "-m", "itofit", *_fit_words(target)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ,
        )  # fmt: skip
        number, wait = process.pid, rng.uniform(0, 4.0)
    else:
        number, wait = _forked(write, target), rng.uniform(0, 0.5)
        process = None
    seen = False
    if rng.random() < 0.7:
        seen = _wait_for_partial(target, number)
        time.sleep(rng.exponential(2e-4) if seen else 0.0)
    else:
        time.sleep(wait)
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)
    process.wait() if process is not None else os.waitpid(number, 0)
    return seen


def _forked(write, target):
    """The number of a process that writes again and again."""
    number = os.fork()
    if number:
        return number
    try:
        warnings.simplefilter("ignore")
        until = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < until:
            write(target)
    finally:
        os._exit(0)


def _wait_for_partial(target, number):
    """Wait until a temporary file is beside the target; False if the writer has ended, or does not begin."""
    until = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < until:
        if any(entry.name.endswith(".partial") for entry in os.scandir(target.parent)):
            return True
        if number and _has_ended(number):
            return False
    return False


def _has_ended(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _fit_words(target):
    table = str(paths()["csv"])
    return ["fit", table, "--time", "t", "--state", "x,y", "--track", "id", "-o", str(target), "--force"]


def _command(target):
    from typer.testing import CliRunner  # noqa: PLC0415  (only this writer needs it)

    from itofit.cli import app  # noqa: PLC0415

    result = CliRunner().invoke(app, _fit_words(target))
    if result.exit_code != 0:
        raise RuntimeError(result.output)


def _large_model(target):
    models()["ensemble"].save(target)


def _formula(target):
    formula().save(target)


def _page(target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        itofit.report(models()["one"], data()["one"], target)


def _table(target):
    models()["pairs"].to_table(60, target)


WRITERS = {
    "save": (".npz", _large_model, 0.3),
    "Formula.save": (".npz", _formula, 0.2),
    "report": (".html", _page, 0.15),
    "to_table": (".csv", _table, 0.2),
    "itofit fit -o": (".npz", _command, 0.15),
}
"""Suffix, what writes the file, and how often it is tried."""


def _not_whole(kind, target):
    """Texts of what is wrong with a file."""
    try:
        if kind == "Formula.save":
            itofit.load_formula(target)
        elif target.suffix == ".npz":
            itofit.load(target)
        elif target.suffix == ".html":
            if not target.read_text().rstrip().endswith("</html>"):
                return ["half a page"]
        elif len(target.read_text().splitlines()) != 60 * 60 + 1:
            return ["half a table"]
    except Exception as error:
        return [f"not whole: {type(error).__name__}: {error}"]
    return []
