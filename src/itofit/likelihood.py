"""The name under which users know `itofit.model.likelihood`."""

import sys
from typing import TYPE_CHECKING

from itofit.model import likelihood

if TYPE_CHECKING:
    from itofit.model.likelihood import *

sys.modules[__name__] = likelihood
