"""The name under which users know `itofit.data.files`."""

import sys
from typing import TYPE_CHECKING

from itofit.data import files

if TYPE_CHECKING:
    from itofit.data.files import *

sys.modules[__name__] = files
