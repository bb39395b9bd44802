"""The name under which users know `itofit.looking.check`."""

import sys
from typing import TYPE_CHECKING

from itofit.looking import check as room

if TYPE_CHECKING:
    from itofit.looking.check import *

sys.modules[__name__] = room
