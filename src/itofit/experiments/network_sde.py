"""NetworkSDE: an equation whose drift and diffusion are networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from itofit._blocks import BLOCK_ROWS, map_chunks
from itofit._checks import Float, InputError, float_array, one_of
from itofit.data.names import Kind
from itofit.experiments.network_units import NetworkUnits
from itofit.experiments.networks import Network, outputs, triangular
from itofit.matrices.symmetric import Factor, Structure
from itofit.model.unnamed import UnnamedSDE

_UNITS = ("box", "mean", "unit", "h")
_NETWORKS = ("drift", "diffusion")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkSDE(UnnamedSDE):
    """dx = f(x) dt + σ(x) dW with two networks for f and σ. Arrays are NumPy's in float64; JAX is not needed.

    Parameters
    ----------
    drift_network, diffusion_network : dict of arrays
        See `itofit.experiments.networks.Network`.
    scales : NetworkUnits
        The units in which the networks were trained.
    structure : {"diagonal", "full"}
        Whether σ is diagonal or lower triangular.
    kind : {"diffusion", "underdamped", "general"}
        How the inputs follow from the state that moves.
    """

    drift_network: Network
    diffusion_network: Network
    scales: NetworkUnits
    structure: Structure
    kind: Kind

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and diffusion depend on."""
        return self.scales.box.shape[1]

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return len(self.scales.mean)

    @property
    def n_parameters(self) -> int:
        """The number of trained parameters."""
        return sum(array.size for network in (self.drift_network, self.diffusion_network) for array in network.values())

    @property
    def box(self) -> Float:
        """Smallest and largest value of each input in the training data: shape (2, m)."""
        return self.scales.box

    # The functions

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drift f at the points x of shape (n, m): an array of shape (n, d)."""
        g = self._outputs(self.drift_network, self._points(x))
        return np.asarray(self.scales.mean + g @ self.scales.drift_unit.T)

    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariance Σ = σσᵀ at the points x of shape (n, m): shape (n, d, d)."""
        sigma = self._root(self._points(x))
        return np.asarray(sigma @ sigma.swapaxes(1, 2))

    def diffusion(self, x: npt.ArrayLike, factor: Factor = "cholesky") -> Float:
        """Diffusion σ at the points x of shape (n, m): matrices of shape (n, d, d).

        Parameters
        ----------
        x : array of shape (n, m)
        factor : {"cholesky", "symmetric"}
            The lower triangular σ, which the network computes, or the symmetric one with the same Σ.
        """
        return self._root(self._points(x)) if factor == "cholesky" else super().diffusion(x, factor)

    def _root(self, x: Float) -> Float:
        T = triangular(self._outputs(self.diffusion_network, x), self.structure, self.n_outputs)
        return np.asarray(self.scales.unit @ T)

    def _outputs(self, network: Network, x: Float) -> Float:
        """The outputs of a network at x, on all cores and in blocks whose features stay in the cache."""
        u = self.scales.points(x)
        values = np.empty((len(u), len(network["bias"])))

        def fill(chunk: slice) -> None:
            for start in range(chunk.start, chunk.stop, BLOCK_ROWS):
                block = slice(start, min(start + BLOCK_ROWS, chunk.stop))
                values[block] = outputs(network, u[block])

        map_chunks(fill, len(u))
        return values

    # Files

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The equation as plain arrays by name, which `numpy.savez` can write and `from_arrays` reads."""
        named = {
            "structure": np.array(self.structure),
            "kind": np.array(self.kind),
            **{f"units.{name}": np.asarray(getattr(self.scales, name)) for name in _UNITS},
        }
        for part in _NETWORKS:
            named |= {f"{part}.{name}": array for name, array in getattr(self, f"{part}_network").items()}
        return named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> NetworkSDE:
        """The equation whose `arrays` these are; other names in the mapping are ignored."""
        missing = {"structure", "kind", *(f"units.{name}" for name in _UNITS)} - set(arrays)
        missing |= {f"{part}.bias" for part in _NETWORKS} - set(arrays)
        if missing:
            raise InputError(f"arrays lacks {', '.join(sorted(missing))}; pass what NetworkSDE.arrays returned")
        structure, kind = str(arrays["structure"]), str(arrays["kind"])
        one_of("structure", structure, get_args(Structure))
        one_of("kind", kind, get_args(Kind))
        box, mean, unit, h = (float_array(name, arrays[f"units.{name}"]) for name in _UNITS)
        networks = {
            f"{part}_network": {
                key.removeprefix(f"{part}."): float_array(key, arrays[key])
                for key in arrays
                if key.startswith(f"{part}.")
            }
            for part in _NETWORKS
        }
        units = NetworkUnits(box=box, mean=mean, unit=unit, h=float(h))
        return cls(**networks, scales=units, structure=structure, kind=kind)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"NetworkSDE({self.n_inputs} inputs, {self.n_outputs} outputs, {self.n_parameters} parameters)"
