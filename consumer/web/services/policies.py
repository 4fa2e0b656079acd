"""Show the retry policies that subscriptions may name, and the sender's numbers in the form of S0-6.

Data flow: settings -> policies -> JSON values.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from consumer.core.retry.policy_text import sender_stats
from consumer.core.retry.timeline import policy_as_dict
from consumer.web.context import WebContext
from consumer.web.shared.problems import Problem


def listed(context: WebContext) -> Sequence[Mapping[str, object]]:
    """Return every policy by name, with its waits and its summary."""
    return [one(context, name) for name in sorted(context.rules.policies)]


def one(context: WebContext, name: str) -> Mapping[str, object]:
    """Return one policy, as `leveret policy show --json` prints it.

    Raises:
        Problem: 404: there is none; the remedy suggests a similar name.
    """
    policy = context.rules.policies.get(name)
    if policy is None:
        near = difflib.get_close_matches(name, context.rules.policies, n=1)
        remedy = f"did you mean {near[0]}?" if near else "list them"
        raise Problem(404, "there is no such policy", field="policy", remedy=remedy)
    return {**policy_as_dict(policy), "name": name, "is_default": policy == context.rules.retry}


def stats(context: WebContext) -> Mapping[str, object]:
    """Return the effective defaults of the sender. Source: S0-6."""
    return sender_stats(context.rules.retry, context.rules.timeout_s)
