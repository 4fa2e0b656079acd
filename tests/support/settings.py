"""The errors of settings that are not valid."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from consumer.core.errors import ConfigError
from consumer.settings import load_settings


def faults(environ: Mapping[str, str]) -> list[str]:
    """Return the lines of the error that *environ* causes."""
    with pytest.raises(ConfigError) as raised:
        load_settings(environ)
    return str(raised.value).splitlines()
