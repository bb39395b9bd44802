"""The command `itofit`, also `python -m itofit`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from itofit.cli import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit('the command line needs Typer and Rich: pip install "itofit[cli]"')
    app()


if __name__ == "__main__":
    main()
