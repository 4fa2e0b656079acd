"""Read the wait that an endpoint asks for.

Data flow: the header ``Retry-After`` as received -> seconds -> core.retry and the endpoint's clock.
"""

from __future__ import annotations

import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Final

#: The longest wait that an endpoint can impose. Source: fault 39.
RETRY_AFTER_MAX_S: Final = 86_400.0

#: Parts of the header beyond this number are ignored. A header block of 64 KiB could contain 32,000 parts,
#: and each takes 2 us to read.
_MAX_PARTS: Final = 32

#: Several Retry-After headers arrive joined by commas, and an HTTP date itself contains one comma.
_RETRY_AFTER_PART: Final = re.compile(r"\s*((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,[^,]*|[^,]+)")
_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return the wait that a ``Retry-After`` header asks for, or None if it asks for none.

    Args:
        value: The header as received, seconds or an HTTP date. Of several joined by commas, 32 at most, the
            longest wait counts, so that nothing is ever sent earlier than asked; garbage is ignored.
        now: Unix seconds.

    Returns:
        Whole seconds, rounded up, from 0 to :data:`RETRY_AFTER_MAX_S`.

    Source: RFC 9110 10.2.3; fault 39.
    """
    if not value:
        return None
    parts = islice(_RETRY_AFTER_PART.finditer(value), _MAX_PARTS)
    waits = (_one_retry_after(part[1].strip(), now) for part in parts)
    return max((wait for wait in waits if wait is not None), default=None)


def _one_retry_after(text: str, now: float) -> float | None:
    if _SECONDS.fullmatch(text):
        return float(math.ceil(min(float(text), RETRY_AFTER_MAX_S)))
    if not text[:1].isalpha():  # an HTTP date starts with the name of its day
        return None
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:  # the obsolete asctime form names no zone; all HTTP dates are GMT
            moment = moment.replace(tzinfo=UTC)
        wait_s = moment.timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return float(math.ceil(min(max(wait_s, 0.0), RETRY_AFTER_MAX_S)))
