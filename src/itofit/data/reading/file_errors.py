"""Errors of reading a file that name it."""

from __future__ import annotations

import csv
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from itofit._checks import InputError, message_of
from itofit.data.frames.layout import MissingPackageError

DAMAGED = (
    ValueError, EOFError, OSError, csv.Error, lzma.LZMAError, zlib.error, struct.error, zipfile.BadZipFile,
    RuntimeError, OverflowError,
)  # fmt: skip
"""What packages raise that read damaged files; RuntimeError if an archive is encrypted, or packed in an unknown way."""


@contextmanager
def errors_naming(file: object) -> Iterator[None]:
    """Let errors name the file, and not what failed inside the packages that read it."""
    try:
        yield
    except MissingPackageError:
        raise
    except InputError as error:
        message = message_of(error)
        if message.startswith(f"{file}: "):
            raise InputError(message) from None
        raise InputError("{file}: {problem}", file=file, problem=message) from None
    except DAMAGED as error:
        if isinstance(error, OSError) and error.filename is not None:  # the operating system says what it is about
            raise
        text = "holds nothing" if type(error).__name__ == "EmptyDataError" else f"cannot be read: {str(error).strip()}"
        if isinstance(error, UnicodeDecodeError):
            text = f"cannot be read: it is not text in UTF-8 ({error.reason}); save it as UTF-8"
        raise InputError(f"{file}: {text}") from error
