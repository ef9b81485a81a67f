"""Intervals of Oracle's two types and their canonical text, which is PostgreSQL's: `3 years -2 mons`,
`-1 days -02:03:04.5`, `00:00:00`."""

import re

MONTHS = "INTERVAL YEAR"
"""Begins the name of the type of years and months; the other one has days and seconds."""
_UNIT = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_TIME = re.compile(r"([+-]?)(\d+):(\d+):(\d+(?:\.\d+)?)$")


def literal(text: str, *, months: bool) -> str:
    """The argument of TO_YMINTERVAL or TO_DSINTERVAL for a canonical text. Raises `ValueError`."""
    units = {unit: int(number) for number, unit in _UNIT.findall(text)}
    time = _TIME.search(text)
    if not units and time is None:
        raise ValueError(f"{text!r} is no interval")
    if months:
        count = 12 * units.get("year", 0) + units.get("mon", 0)
        return f"{'-' if count < 0 else '+'}{abs(count) // 12}-{abs(count) % 12}"
    days = units.get("day", 0)
    sign, clock = (time[1], time[0].lstrip("+-")) if time else ("", "00:00:00")
    return f"{'-' if days < 0 or sign == '-' else '+'}{abs(days)} {clock}"


def text(own: str, *, months: bool) -> str:
    """The expression of the canonical text of the column `own`."""
    if months:
        none = f"EXTRACT(YEAR FROM {own}) = 0 AND EXTRACT(MONTH FROM {own}) = 0"
        units = f"TRIM({_units(own, 'YEAR', 'year')} || ' ' || {_units(own, 'MONTH', 'mon')})"
        return f"CASE WHEN {own} IS NULL THEN NULL WHEN {none} THEN '00:00:00' ELSE {units} END"
    hour, minute, second = (f"EXTRACT({part} FROM {own})" for part in ("HOUR", "MINUTE", "SECOND"))
    day, days = f"EXTRACT(DAY FROM {own})", _units(own, "DAY", "day")
    clock = (
        f"CASE WHEN LEAST({hour}, {minute}, {second}) < 0 THEN '-' END || TO_CHAR(ABS({hour}), 'FM00') || ':' "
        f"|| TO_CHAR(ABS({minute}), 'FM00') || ':' || RTRIM(TO_CHAR(ABS({second}), 'FM00.999999999'), '.')"
    )
    alone = f"{day} <> 0 AND {hour} = 0 AND {minute} = 0 AND {second} = 0"
    return f"CASE WHEN {own} IS NULL THEN NULL WHEN {alone} THEN {days} ELSE LTRIM({days} || ' ') || {clock} END"


def _units(own: str, part: str, unit: str) -> str:
    """`1 day`, `2 days`; NULL for none."""
    number = f"EXTRACT({part} FROM {own})"
    return f"CASE WHEN {number} <> 0 THEN TO_CHAR({number}) || ' {unit}' || CASE WHEN {number} <> 1 THEN 's' END END"
