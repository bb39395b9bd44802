"""The name under which users know `itofit.data.reading.files`."""

import sys
from typing import TYPE_CHECKING

from itofit.data.reading import files

if TYPE_CHECKING:
    from itofit.data.reading.files import *

sys.modules[__name__] = files
