"""Days and microseconds since 1970 as calendar fields and as text, for every year that Spark has; pure.

Python's own dates end with the year 9999; Spark's dates reach beyond the year five million.
"""

from __future__ import annotations

from collections.abc import Callable

_DAYS_TO_1970 = 719_468  # from 0000-03-01
_ERA = 146_097  # days in 400 years
MICROS_A_DAY = 86_400_000_000


def year_month_day(days: int) -> tuple[int, int, int]:
    """The proleptic Gregorian date of ``days`` since 1970-01-01."""
    era, day_of_era = divmod(days + _DAYS_TO_1970, _ERA)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)  # from March
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 of a date; None if there is no such day."""
    march_year = year - (month <= 2)
    era, year_of_era = divmod(march_year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * _ERA + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _DAYS_TO_1970
    return days if 1 <= month <= 12 and year_month_day(days) == (year, month, day) else None


def _iso_day_of_week(days: int) -> int:
    """Monday is 1, Sunday is 7."""
    return (days + 3) % 7 + 1


def _day_of_year(days: int) -> int:
    first = days_of(year_month_day(days)[0], 1, 1)
    assert first is not None
    return days - first + 1


def _iso_week(days: int) -> tuple[int, int]:
    """The ISO year and week: those of the week's Thursday."""
    thursday = days - _iso_day_of_week(days) + 4
    return year_month_day(thursday)[0], (_day_of_year(thursday) - 1) // 7 + 1


DATE_FIELDS: dict[str, Callable[[int], int]] = {
    "YEAR": lambda days: year_month_day(days)[0],
    "MONTH": lambda days: year_month_day(days)[1],
    "DAY": lambda days: year_month_day(days)[2],
    "QUARTER": lambda days: (year_month_day(days)[1] + 2) // 3,
    "DAY_OF_WEEK": _iso_day_of_week,
    "DAY_OF_YEAR": _day_of_year,
    "WEEK": lambda days: _iso_week(days)[1],
    "YEAR_OF_WEEK": lambda days: _iso_week(days)[0],
}
"""What Spark's Extract calls a field of a date, as a function of its days since 1970."""

TIME_FIELDS: dict[str, Callable[[int], int]] = {
    "HOUR": lambda micros: micros // 3_600_000_000 % 24,
    "MINUTE": lambda micros: micros // 60_000_000 % 60,
    "SECOND": lambda micros: micros // 1_000_000 % 60,
}
"""The same for the time of day, as a function of local microseconds since 1970."""


def date_text(days: int) -> str:
    year, month, day = year_month_day(days)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def timestamp_text(micros: int) -> str:
    days, rest = divmod(micros, MICROS_A_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    decimals = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{date_text(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{decimals}"
