"""Rows of Python's own values, as JSON and Excel files hold them, as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from itofit.data.frames.layout import optional


def frame_of(names: Sequence[str], rows: Iterable[Sequence[Any]], purpose: str) -> Any:  # noqa: ANN401
    """A pandas DataFrame of rows that have a value, or None, for each name."""
    pandas = optional("pandas", purpose)
    columns = list(zip(*rows, strict=True)) or [()] * len(names)

    def series(values: Sequence[Any]) -> Any:  # noqa: ANN401
        column = column_of(values)
        try:
            return pandas.Series(column)
        except OverflowError:  # pandas 2, of whole numbers of many digits
            return pandas.Series(column, dtype=object)

    return pandas.DataFrame({name: series(values) for name, values in zip(names, columns, strict=True)})


def column_of(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Values as an array: of numbers if all are numbers or None, else of objects as they are.

    Examples
    --------
    >>> from itofit.data.reading.python_values import column_of
    >>> column_of([1, 2]), column_of([1, None, 2.5]), column_of(["07", None])
    (array([1, 2]), array([1. , nan, 2.5]), array(['07', None], dtype=object))
    """
    kinds = {type(value) for value in values}
    try:
        if kinds == {int}:
            return np.array(values, dtype=np.int64)
        if kinds and kinds <= {int, float, NoneType} and kinds != {NoneType}:
            return np.array(values, dtype=np.float64)
    except OverflowError:  # whole numbers of many digits stay what they are
        pass
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
