"""One line of progress on the terminal for work that takes longer than two seconds."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType

from itofit._checks import flag

PATIENCE = 2.0  # seconds before the line appears, unless it was asked for
PAUSE = 0.1  # seconds between two updates
BAR = 20  # characters


class Progress:
    """A line that is rewritten in place and removed at the end.

    Parameters
    ----------
    enabled : bool, optional
        True: always, from the start. False: never. None: on a terminal or in a notebook, after two seconds.
    """

    def __init__(self, enabled: bool | None) -> None:
        if enabled is None:
            self.enabled, self.delay = _someone_watches(), PATIENCE
        else:
            self.enabled, self.delay = flag("progress", enabled), 0.0
        self.began = time.monotonic()
        self.shown_at = -1.0
        self.label = ""
        self.width = 0

    def show(self, label: str, detail: str, share: float | None = None) -> None:
        """Say how far the work called `label` is; with a bar if it is known which share of it is done."""
        now = time.monotonic()
        if not self.enabled or now - self.began < self.delay:
            return
        if label == self.label and now - self.shown_at < PAUSE:
            return
        self.label, self.shown_at = label, now
        done = "" if share is None else f" [{'#' * round(BAR * share):-<{BAR}}]"
        self._write(f"{label}:{done} {detail}, {now - self.began:.0f} s")

    def _write(self, line: str) -> None:
        line = line[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be rewritten
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()


def _someone_watches() -> bool:
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
