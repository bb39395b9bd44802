"""Whether the wheel and the source distribution are complete: `make package` runs this where the wheel is installed.

    python -I tests/packaged.py DIST

It imports itofit, asks the command for its version, has it write tracks, learn from them and make a report, learns in
Python, and looks into both files for what users need.
"""

import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import itofit

SOURCES = Path(__file__).parents[1] / "src"


def command(*arguments: str, folder: Path) -> str:
    """What `itofit` prints."""
    program = Path(sysconfig.get_path("scripts")) / "itofit"
    return subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def check_files(dist: Path) -> None:
    """Both files hold every module of the sources, the mark of a typed package and the licence."""
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    modules = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py")} | {"itofit/py.typed"}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(source) as archive:
        in_source = {name.split("/", 1)[-1] for name in archive.getnames()}
    missing = (modules - in_wheel) | {name for name in modules if f"src/{name}" not in in_source}
    assert not missing, f"not packaged: {sorted(missing)}"
    assert any(name.endswith("licenses/LICENSE") for name in in_wheel), "the wheel has no licence"
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= in_source, (
        "the source distribution lacks pages"
    )
    top = {name.split("/")[0] for name in in_wheel}
    assert top == {"itofit", f"itofit-{itofit.__version__}.dist-info"}, f"the wheel holds {sorted(top)}"


def check_command(folder: Path) -> None:
    """From tracks to a report without Python."""
    assert itofit.__version__ in command("--version", folder=folder)
    command("demo", "-o", ".", folder=folder)
    columns = ("--time", "t", "--state", "x", "--track", "id")
    command("fit", "tracks.csv", *columns, "-o", "sde.npz", "--report", "report.html", folder=folder)
    assert itofit.load(folder / "sde.npz").drift(np.zeros((1, 1))).shape == (1, 1)
    assert "</html>" in (folder / "report.html").read_text()


def check_library() -> None:
    """An Ornstein-Uhlenbeck process, learned: its rate is 1 ± 0.1."""
    rng = np.random.default_rng(0)
    x = np.zeros((50, 401))
    for i in range(400):
        x[:, i + 1] = x[:, i] * np.exp(-0.1) + np.sqrt((1 - np.exp(-0.2)) / 2) * rng.standard_normal(50)
    sde = itofit.fit(itofit.Transitions.from_trajectories(list(x), dt=0.1), rng=0)
    slope = np.diff(sde.drift(np.array([[-1.0], [1.0]]))[:, 0]) / 2
    assert abs(slope + 1) < 0.2, f"the slope is {slope}"


def main() -> None:
    assert SOURCES not in Path(itofit.__file__).parents, "this is not the installed package"
    check_files(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        check_command(Path(folder))
    check_library()
    print(f"itofit {itofit.__version__} is packaged, and works where it is installed ({Path(itofit.__file__).parent})")


if __name__ == "__main__":
    main()
