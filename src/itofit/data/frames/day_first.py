"""Dates as they are written in much of the world, 31.1.2024 or 31/01/2024, as those that sort by themselves."""

from __future__ import annotations

import re

DAY_FIRST = re.compile(
    r"\s*(?P<day>\d{1,2})(?P<mark>[./-])(?P<month>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})"
    r"(?:[T ,]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d+))?)?)?\s*"
)
LAST_OF_THIS_CENTURY = 68
"""Years of two digits up to this one are those of the third millennium, as in C, Python and pandas."""


def iso_date(value: object) -> object:
    """A date whose day comes first, as year, month, day and time; anything else as it is.

    Examples
    --------
    >>> from itofit.data.frames.day_first import iso_date
    >>> iso_date("31.1.2024 9:05"), iso_date("1/2/24"), iso_date("2024-01-31")
    ('2024-01-31 09:05:00', '2024-02-01', '2024-01-31')
    """
    found = DAY_FIRST.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 2000 if year <= LAST_OF_THIS_CENTURY else 1900
    date = f"{year:04}-{int(found['month']):02}-{int(found['day']):02}"
    if found["hour"] is None:
        return date
    part = "" if found["part"] is None else f".{found['part'][:9]}"
    return f"{date} {int(found['hour']):02}:{found['minute']}:{found['second'] or '00'}{part}"
