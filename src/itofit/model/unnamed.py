"""UnnamedSDE: an equation whose variables have default names."""

from __future__ import annotations

from itofit.data.names import default_names
from itofit.model.sde import SDE


class UnnamedSDE(SDE):
    """An equation whose variables have the default names: x, or x1, x2, ..."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the inputs are called."""
        return default_names(self.n_inputs, self.n_outputs, self.kind, self.n_covariates)[0]

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called."""
        return default_names(self.n_inputs, self.n_outputs, self.kind, self.n_covariates)[1]
