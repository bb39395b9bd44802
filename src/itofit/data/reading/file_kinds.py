"""Kinds of files with observations, by the ends of their names."""

from __future__ import annotations

PACKED = (".gz", ".bz2", ".xz")
"""Ends of the names of compressed texts."""


def _texts(*kinds: str) -> tuple[str, ...]:
    return tuple(kind + packed for kind in kinds for packed in ("", *PACKED))


PARQUET = (".parquet", ".pq")
CSV = _texts(".csv", ".tsv")
FREE_TEXT = _texts(".txt", ".dat")
JSON_LINES = _texts(".jsonl", ".ndjson")
ARROW = (".feather", ".arrow", ".ipc")
EXCEL = (".xlsx", ".xlsm")
NPY, NPZ = (".npy",), (".npz",)
KINDS = {
    "CSV": CSV,
    "Parquet": PARQUET,
    "text": FREE_TEXT,
    "JSON lines": JSON_LINES,
    "Arrow": ARROW,
    "Excel": EXCEL,
    "NumPy": NPY,
}
"""Files that may be one of several, which must then be of one kind."""
SUFFIXES = (*(end for ends in KINDS.values() for end in ends), *NPZ)
SHOWN = ".csv, .tsv, .txt, .parquet, .feather, .arrow, .jsonl, .xlsx, .npy, .npz"
"""Ends of names, the most usual of each kind, for messages."""
FIRST_IN_DIRECTORIES = (*PARQUET, *CSV)
THEN_IN_DIRECTORIES = (*JSON_LINES, *ARROW, *EXCEL, *NPY)
"""What is looked for in directories, and what if there is nothing of that; no plain texts, which may be notes."""


def kind_by_name(name: str) -> str | None:
    """The kind of a file that may be one of several; None for others."""
    return next((kind for kind, ends in KINDS.items() if name.lower().endswith(ends)), None)
