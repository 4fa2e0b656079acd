"""How the route exchange tells the events of one tenant: the arguments of its bindings.

Data flow: header, tenant -> one set of arguments for each form of the name -> plan (dedicated lanes), routes
(spill queues).
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")  #: as a publisher's integer is written; fits into 64 bits


def tenant_arguments(header: str, tenant: str) -> tuple[dict[str, str | int], ...]:
    """Return the arguments of every binding that one tenant needs: two, where its name is a number.

    A headers exchange tells a number from a text: 42 is not "42", and publishers write both. A message has
    one of them, so there is no second copy. A byte array equals the text of the same bytes. With ``all``
    headers that begin with ``x-`` are not looked at: nothing would be left to compare, and every event would
    match.

    Args:
        header: The header that names the tenant.
        tenant: Its id.

    Source: RabbitMQ "Exchanges", headers exchange (``all-with-x``, from 3.10 on).
    """
    kind = "all-with-x" if header.startswith("x-") else "all"
    forms: list[str | int] = [tenant]
    if _NUMBER.fullmatch(tenant):
        forms.append(int(tenant))
    return tuple({"x-match": kind, header: form} for form in forms)
