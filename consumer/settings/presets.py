"""Profiles (S2-2) and presets (S3-6): named groups of settings below the file and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from consumer.core.endpoint.breaker import BREAKERS

Layer = Mapping[str, object]


def _breaker(name: str) -> Layer:
    policy = BREAKERS[name]
    return {"failures": policy.failures, "cooldown_s": policy.cooldown_s}


PROFILES: Mapping[str, Layer] = MappingProxyType(
    {
        "development": {"retry": {"policy": "development"}},
        "production": {"retry": {"policy": "production"}},
    }
)
"""Source: S2-2."""

PRESETS: Mapping[str, Layer] = MappingProxyType(
    {
        "high-traffic": {
            "breaker": _breaker("high-traffic"),
            "retry": {"policy": "high-traffic"},
            "sending": {"timeout_s": 3.0},
        },
        "low-traffic": {
            "breaker": _breaker("low-traffic"),
            "retry": {"policy": "low-traffic"},
            "sending": {"timeout_s": 10.0},
        },
        "critical": {
            "breaker": _breaker("critical"),
            "retry": {"policy": "critical"},
        },
    }
)
"""Source: S3-6, which has no time-out for ``critical``."""
