"""The command `itofit`, also `python -m itofit`."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells."""


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from itofit.cli import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit('the command line needs Typer and Rich: pip install "itofit[cli]"')
    except KeyboardInterrupt:  # imports take longest of what a short command does
        sys.stderr.write("itofit: interrupted\n")
        sys.exit(INTERRUPTED)
    except MemoryError:
        sys.exit("itofit: there is not enough memory to start")
    app()


if __name__ == "__main__":
    main()
