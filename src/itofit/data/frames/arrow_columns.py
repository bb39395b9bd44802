"""Columns of Arrow tables as arrays of NumPy: values, and labels as numbers with what they stand for.

Arrow's own arrays are copied where they have to be: missing numbers become NaN, chunks are joined.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from itofit._checks import Int

Arrow = Any
"""A ChunkedArray of pyarrow, whose types are not known where it is not installed."""


def is_arrow(value: object) -> bool:
    """Whether a value is a table or a column of pyarrow."""
    return type(value).__module__.partition(".")[0] == "pyarrow"


def plain_column(column: Arrow) -> Arrow:
    """A column without dictionaries, extension types, decimals and views: of the types that these stand for."""
    pyarrow = import_module("pyarrow")
    kind = column.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], type=kind.storage_type)
        return plain_column(column)
    if pyarrow.types.is_dictionary(kind):
        plain = _without_views(column)
        decoded = [chunk.dictionary_decode() for chunk in plain.chunks]
        return plain_column(pyarrow.chunked_array(decoded, type=plain.type.value_type))
    if pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        return column.cast(pyarrow.float64())
    return column.cast(pyarrow.large_string()) if kind == pyarrow.string_view() else column


def _without_views(column: Arrow) -> Arrow:
    """A column of labels by numbers whose texts are no views, for which pyarrow lacks functions."""
    pyarrow = import_module("pyarrow")
    if column.type.value_type != pyarrow.string_view():
        return column
    text = pyarrow.large_string()
    chunks = [pyarrow.DictionaryArray.from_arrays(own.indices, own.dictionary.cast(text)) for own in column.chunks]
    return pyarrow.chunked_array(chunks, type=pyarrow.dictionary(column.type.index_type, text))


def holds_several(column: Arrow) -> bool:
    """Whether a row of a column holds no single value but a list, a struct, a map or bytes."""
    pyarrow = import_module("pyarrow")
    types, kind = pyarrow.types, column.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        kind = kind.storage_type
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_nested(kind)
        or any(is_kind(kind) for is_kind in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary))
    )


def values_of(column: Arrow) -> npt.NDArray[Any]:
    """Values of shape (n,): numbers, dates, or objects; missing numbers are NaN, other missing values NaT or None."""
    plain = plain_column(column)
    return np.asarray(plain.chunk(0).to_numpy(zero_copy_only=False) if plain.num_chunks == 1 else plain.to_numpy())


def codes_of(column: Arrow) -> tuple[Int, npt.NDArray[Any]]:
    """For each row the number of its label, (n,), −1 where it is missing, and the labels in order of appearance."""
    pyarrow = import_module("pyarrow")
    kind = column.type
    if pyarrow.types.is_integer(kind) and not column.null_count:
        return codes_in_runs(values_of(column))
    coded = _without_views(column) if pyarrow.types.is_dictionary(kind) else plain_column(column).dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):  # none or several chunks, by the version of pyarrow
        if not whole.num_chunks:
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=str)
        whole = whole.chunk(0)
    code = whole.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    places, used = codes_in_runs(code)
    labels = values_of(pyarrow.chunked_array([whole.dictionary]))
    known = used >= 0
    number = np.where(known, np.cumsum(known) - 1, -1)
    return number[places], labels[used[known]]


def codes_in_runs(values: npt.NDArray[np.integer[Any]]) -> tuple[Int, npt.NDArray[Any]]:
    """For each of some whole numbers, (n,), the number of its value, and the values in order of appearance.

    Equal numbers mostly follow each other where they tell tracks apart, and then each run of them is looked at once.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit.data.frames.arrow_columns import codes_in_runs
    >>> codes_in_runs(np.array([7, 7, 3, 3, 3, 7]))
    (array([0, 0, 1, 1, 1, 0]), array([7, 3]))
    """
    if not len(values):
        return np.zeros(0, dtype=np.intp), values
    heads = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
    unique, first, inverse = np.unique(values[heads], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return np.repeat(rank[inverse], np.diff(heads, append=len(values))), unique[order]
