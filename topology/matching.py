"""Arguments of the bindings by which the route exchange selects the events of one tenant.

Data flow: header, tenant -> one set of arguments for each form of the name -> plan (dedicated lanes), routes
(spill queues).
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")  #: an integer as a publisher writes it; fits into 64 bits


def tenant_arguments(header: str, tenant: str) -> tuple[dict[str, str | int], ...]:
    """Return the arguments of every binding that one tenant needs: two if its name is a number.

    A headers exchange distinguishes a number from a text: 42 differs from "42", and publishers send both.
    Each message has only one of the two, so no second copy arises. A byte array equals the text of the same
    bytes. With ``all``, RabbitMQ ignores headers that begin with ``x-``; such a binding would match every
    event.

    Args:
        header: The header that names the tenant.
        tenant: The tenant id.

    Source: RabbitMQ "Exchanges", headers exchange (``all-with-x``, from 3.10 on).
    """
    kind = "all-with-x" if header.startswith("x-") else "all"
    forms: list[str | int] = [tenant]
    if _NUMBER.fullmatch(tenant):
        forms.append(int(tenant))
    return tuple({"x-match": kind, header: form} for form in forms)
