"""Which rows of a table came from which file, where a table holds those of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import InputError, Int, Message, Option

FILE_NAME = "__filename"
"""A column that every file of several has: its path."""
OTHER_LABELS = (
    "write the rows of a track in the order of their times, or give tracks that are not the same other labels"
)
"""What to do if rows of a track overlap in time."""


def if_several_tracks(files: bool) -> Message:
    """What to do if rows that no column of tracks tells apart overlap in time; `files`: in several of these."""
    text = "if there are several tracks, give {track}"
    if files:
        text += ", the column that tells them from each other, or {own} if every file is a track"
    return Message(text, track=Option("track", keyword=True), own=Option("track", FILE_NAME))


class FileRows(NamedTuple):
    """The files of a table: the position of the first row of each, in order, their names, and what they call a row."""

    starts: Int  # (n_files,)
    names: tuple[str, ...]
    places: tuple[Callable[[int], str], ...]  # given a position among the rows of the file

    def place(self, position: int) -> str:
        """What to call a row of the table."""
        number = self.number(position)
        own = self.places[number](position - int(self.starts[number]))
        return own if len(self.names) == 1 else f"{own} of {self.names[number]}"

    def number(self, position: int) -> int:
        """The number of the file that a row came from."""
        return int(np.searchsorted(self.starts, position, side="right")) - 1

    def of_one(self, row: Int) -> npt.NDArray[np.bool_]:
        """Whether each of some rows, given by positions (n,), and the next one came from one file, (n − 1,)."""
        return np.diff(np.searchsorted(self.starts, row, side="right")) == 0

    def check_apart(
        self, row: Int, track: Int, track_name: Callable[[int], str], time: Callable[[int], str], labelled: bool
    ) -> None:
        """Raise if rows of a track overlap in time in two files.

        Parameters
        ----------
        row, track : arrays of shape (n,)
            Positions in the table and numbers of tracks, of rows in order.
        track_name, time : callable
            What to call the track of a row, and the time of the row at a position in the table.
        labelled : bool
            Whether a column tells tracks from each other.
        """
        if len(self.names) == 1:
            return
        file = np.searchsorted(self.starts, row, side="right")
        same = track[1:] == track[:-1]
        if not (same & (np.diff(file) < 0)).any():
            return
        heads = np.concatenate([[0], np.flatnonzero(~same | (np.diff(file) != 0)) + 1])
        runs = np.stack([track[heads], file[heads]], axis=1)
        _, first, inverse = np.unique(runs, axis=0, return_index=True, return_inverse=True)
        again = np.flatnonzero(first[inverse.ravel()] != np.arange(len(runs)))
        if len(again):
            back, between = int(heads[again[0]]), int(heads[again[0] - 1])
            raise InputError(
                "the rows of {track} overlap in time: {one} has some before and after the time {time} of one in "
                "{other}; {advice}",
                track=track_name(back),
                one=self.names[self.number(int(row[back]))],
                time=time(int(row[between])),
                other=self.names[self.number(int(row[between]))],
                advice=OTHER_LABELS if labelled else if_several_tracks(files=True),
            )
