"""Data frames of any library, as tables whose columns can be read.

pandas and Arrow tables are taken as they are. Others come over the Arrow interface (`__arrow_c_stream__`: Polars,
DuckDB, and more), or through narwhals if that knows them (Modin, cuDF, and more).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from itofit._checks import InputError, Option
from itofit.data.frames.arrow_columns import is_arrow


def readable(frame: Any) -> Any:  # noqa: ANN401
    """A mapping of arrays, a pandas DataFrame, a pyarrow Table, or anything else with `columns` and `to_numpy`."""
    if isinstance(frame, Mapping) or _library(frame) == "pandas":
        return frame
    _check_eager(frame)
    if is_arrow(frame) and hasattr(frame, "column_names"):
        return frame if hasattr(frame, "combine_chunks") else import_module("pyarrow").table(frame)  # or a record batch
    if hasattr(frame, "__arrow_c_stream__") and find_spec("pyarrow") is not None:
        return _from_arrow_stream(frame)
    if find_spec("narwhals") is not None:
        narwhals = import_module("narwhals")
        known = narwhals.from_native(frame, eager_only=True, pass_through=True)
        if isinstance(known, narwhals.DataFrame):
            return {name: known.get_column(name).to_numpy() for name in known.columns}
    if hasattr(frame, "columns") and hasattr(frame, "to_numpy"):
        return frame
    raise InputError(
        "{df} must be a table with named columns such as a pandas DataFrame, got {got}; arrays go to "
        "Transitions.from_trajectories",
        df=Option("df"),
        got=type(frame).__name__,
    )


def _library(frame: object) -> str:
    return next((kind.__module__.partition(".")[0] for kind in type(frame).__mro__ if kind.__name__ == "DataFrame"), "")


def _check_eager(frame: object) -> None:
    """Raise for data frames that hold a plan and no rows."""
    own = type(frame).__module__.partition(".")[0]
    if own in ("dask", "dask_expr"):
        text = "{df} is a Dask data frame: give it to Transitions.from_dask"
        raise InputError(text, df=Option("df"))
    if own == "pyarrow" and hasattr(frame, "to_table"):
        text = "{df} is a {got}, which holds no rows yet: give df.to_table(), or its files to read_transitions"
        raise InputError(text, df=Option("df"), got=type(frame).__name__)
    if "Lazy" in type(frame).__name__:
        text = "{df} is a {got}, which holds no rows yet: give df.collect()"
        raise InputError(text, df=Option("df"), got=type(frame).__name__)


def _from_arrow_stream(frame: Any) -> Any:  # noqa: ANN401
    pyarrow = import_module("pyarrow")
    try:
        return pyarrow.table(frame)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        text = "{df} of type {got} cannot be read as an Arrow table: {problem}"
        raise InputError(text, df=Option("df"), got=type(frame).__name__, problem=str(error).strip()) from error
