"""Tables of the functions of an equation: data frames, or CSV files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from itofit._checks import Either, Float, InputError, Option, columns, count, float_array
from itofit.data.frames.layout import optional
from itofit.data.names import did_you_mean, in_order
from itofit.data.periods import is_periodic
from itofit.data.units import with_unit
from itofit.data.with_units import WithUnits
from itofit.model.likelihood import BATCH_ROWS
from itofit.model.sde import SDE
from itofit.model.storage import checked_target, write_whole

MOST_ROWS = 10_000_000
"""Of a table that is made from numbers of points along each input."""
Grid = int | Mapping[str, Any] | npt.ArrayLike


class WithTables(WithUnits, SDE):
    """An SDE whose functions can be written as a table."""

    def to_table(self, grid: Grid = 50, path: str | os.PathLike[str] | None = None) -> Any:  # noqa: ANN401
        """Drift and noise at the points of a grid, as a data frame or as a CSV file.

        Parameters
        ----------
        grid : int, dict or array of shape (n, m)
            The number of points along each input, evenly over the range of the data; or for each input by name its
            values or their number, of which all combinations are taken (inputs that are left out are in the middle of
            their range); or the points themselves.
        path : path, optional
            Of a CSV file to write. Without it, a pandas DataFrame is returned.

        Returns
        -------
        DataFrame or None
            Columns: the inputs, f_x for each output x, Σ_x for its variance and Σ_x,y for covariances; with error
            bars, each followed by its standard deviation, as std f_x. With units, these follow: f_x [µm/s].

        Examples
        --------
        >>> import numpy as np, itofit
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, 2000)
        >>> data = itofit.Transitions.from_pairs(x, x - 0.1 * x + 0.1 * rng.normal(size=2000), h=0.1)
        >>> sde = itofit.fit(data, rng=0)
        >>> sde.to_table({"x": [0.0, 0.5]}).columns.tolist()
        ['x', 'f_x', 'std f_x', 'Σ_x', 'std Σ_x']
        """
        points = grid_points(self, grid)
        pandas = (
            optional("pandas", Either(python="to_table without path=", command="a table")) if path is None else None
        )
        if path is not None:
            checked_target(path)
        parts = [self._table(points[start : start + BATCH_ROWS]) for start in range(0, len(points), BATCH_ROWS)]
        table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if pandas is not None:
            return pandas.DataFrame(table)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
        assert path is not None
        write_whole(path, text.getvalue())
        return None

    def _table(self, points: Float) -> dict[str, Float]:
        """Columns of the table at some points (n, m)."""
        this: Any = self
        bars = getattr(self, "has_error_bars", False)
        f, f_std = this.drift(points, return_std=True) if bars else (this.drift(points), None)
        sigma, sigma_std = this.covariance(points, return_std=True) if bars else (this.covariance(points), None)
        units = self.units
        table = dict(zip(map(units.labelled, self.input_names), points.T, strict=True))
        for a, name in enumerate(self.output_names):
            table[with_unit(f"f_{name}", units.drift(name))] = f[:, a]
            if f_std is not None:
                table[with_unit(f"std f_{name}", units.drift(name))] = f_std[:, a]
        for a, name in enumerate(self.output_names):
            for b, other in enumerate(self.output_names[: a + 1]):
                if a != b and getattr(self, "structure", "full") == "diagonal":
                    continue
                entry = f"Σ_{name}" if a == b else f"Σ_{name},{other}"
                unit = units.covariance(name, other)
                table[with_unit(entry, unit)] = sigma[:, a, b]
                if sigma_std is not None:
                    table[with_unit(f"std {entry}", unit)] = sigma_std[:, a, b]
        return table


def grid_points(sde: SDE, grid: Grid) -> Float:
    """The points of a grid: shape (n, m)."""
    if isinstance(grid, Mapping):
        if other := [name for name in grid if name not in sde.input_names]:
            hint = did_you_mean(other[0], sde.input_names)
            listed = ", ".join(sde.input_names)
            text = "{grid}: there is no input {name!r}{hint}; there are {listed}"
            raise InputError(text, grid=Option("grid"), name=other[0], hint=hint, listed=listed)
        axes = [_axis(sde, i, grid.get(name, 1)) for i, name in enumerate(sde.input_names)]
    elif isinstance(grid, int | np.integer):
        axes = [_axis(sde, i, count("grid", grid, least=1)) for i in range(sde.n_inputs)]
    else:
        return columns("grid", in_order("grid", grid, sde.input_names), n_columns=sde.n_inputs)
    n = int(np.prod([len(axis) for axis in axes], dtype=float))
    if n > MOST_ROWS:
        text = "{grid} has {n:,} points: give fewer along each input, or values of some inputs by name"
        raise InputError(text, grid=Option("grid"), n=n)
    return np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)


def _axis(sde: SDE, place: int, given: Any) -> Float:  # noqa: ANN401
    """Values of one input: those given, or so many over the range of the data."""
    if not isinstance(given, int | np.integer):
        return np.atleast_1d(float_array("grid", given)).ravel()
    low, high = sde.box[:, place]
    if not np.isfinite([low, high]).all():
        raise InputError(
            "{grid}: {name} has no range in which this equation is known; give values by name",
            grid=Option("grid"), name=sde.input_names[place],
        )  # fmt: skip
    n = count("grid", given)
    if n == 1:
        return np.array([0.5 * (low + high)])
    return np.linspace(low, high, n, endpoint=not is_periodic(sde.periods)[place])
