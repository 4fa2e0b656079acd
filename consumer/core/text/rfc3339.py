"""Write and read times as RFC 3339 text in UTC, the form of a webhook's ``timestamp``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

MAX_MS = 253_402_300_799_999  #: the last millisecond of the year 9999, where RFC 3339 ends

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)(\.\d{1,30})?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def from_ms(unix_ms: int) -> str:
    """Return the text for 0 to :data:`MAX_MS` milliseconds; whole seconds carry no fraction."""
    seconds, ms = divmod(unix_ms, 1000)
    text = _to_the_second(seconds)
    return f"{text}.{ms:03d}Z" if ms else text + "Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    """Write whole Unix seconds. The result is cached because hundreds of events share one second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def from_datetime(value: datetime) -> str | None:
    """Return the text for *value*, or None if its UTC time is out of range. A naive time is taken as UTC."""
    try:
        utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
    return utc.isoformat()[:-6] + "Z"


def normalise(text: str) -> str | None:
    """Return an RFC 3339 *text* in UTC with ``Z``, or None if *text* has another form.

    Text that ends in ``Z`` stays as it is, but for a ``t``, ``z`` or space that becomes the
    capital letter. Another offset is converted. Digits below the second are never changed.

    Source: RFC 3339, section 5.6; section 5.7 for the leap second ``23:59:60``.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    date, minute, second, fraction, sign, hours, minutes = match.groups()
    utc = _utc(f"{date}T{minute}:{'59' if second == '60' else second}", sign, hours, minutes)
    if utc is None:
        return None
    if second == "60":
        if not utc.endswith("23:59:59"):
            return None
        utc = utc[:-2] + "60"
    return f"{utc}{fraction or ''}Z"


def _utc(local: str, sign: str | None, hours: str | None, minutes: str | None) -> str | None:
    """Return ``YYYY-MM-DDTHH:MM:SS`` in UTC, or None if that time does not exist."""
    try:
        moment = datetime.fromisoformat(local)
        if hours is None or minutes is None:
            return moment.isoformat()
        if int(hours) > 23 or int(minutes) > 59:
            return None
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return (moment + offset if sign == "-" else moment - offset).isoformat()
    except (OverflowError, ValueError):
        return None


def parse_ms(text: str) -> int | None:
    """Return the Unix milliseconds of an RFC 3339 *text*, or None if it has another form or is before 1970.

    Digits below the millisecond are cut; a leap second counts as the second before it.
    """
    utc = normalise(text)
    if utc is None or utc < "1970":
        return None
    whole, fraction = utc[:19], utc[19:-1]
    if whole.endswith("60"):
        whole = whole[:-2] + "59"
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
    return seconds * 1000 + int((fraction[1:] + "000")[:3])
