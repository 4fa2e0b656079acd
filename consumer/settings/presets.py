"""Profiles (S2-2) and presets (S3-6): named groups of settings below the file and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Layer = Mapping[str, object]

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
            "breaker": {"failures": 10, "cooldown_s": 60.0},
            "retry": {"policy": "high-traffic"},
            "sending": {"timeout_s": 3.0},
        },
        "low-traffic": {
            "breaker": {"failures": 3, "cooldown_s": 10.0},
            "retry": {"policy": "low-traffic"},
            "sending": {"timeout_s": 10.0},
        },
        "critical": {
            "breaker": {"failures": 20, "cooldown_s": 120.0},
            "retry": {"policy": "critical"},
        },
    }
)
"""Source: S3-6; it gives no time-out for ``critical``."""
