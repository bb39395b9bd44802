"""The name under which users know `itofit.looking.plot`."""

import sys
from typing import TYPE_CHECKING

from itofit.looking import plot

if TYPE_CHECKING:
    from itofit.looking.plot import *

sys.modules[__name__] = plot
