"""Print the oldest versions that pyproject.toml allows of what users need, as constraints for pip (`make oldest`)."""

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("plot", "cli", "data", "excel", "dask", "formula")
"""What works with old versions of others; JAX and the tools of tests and documentation are taken as they come."""

with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
    project = tomllib.load(file)["project"]
for requirement in [*project["dependencies"], *(r for name in EXTRAS for r in project["optional-dependencies"][name])]:
    if requirement.startswith("itofit["):  # another extra
        continue
    if match := re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)$", requirement):
        print("{}=={}".format(*match.groups()))
    else:
        sys.exit(f"{requirement!r} has no lower bound")
