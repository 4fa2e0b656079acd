"""The Compose file and the Dockerfile of the repository."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.data import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def mounts(service: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield source, target and whether it is read-only of each volume."""
    for volume in service.get("volumes", ()):
        source, target, *mode = volume.split(":")
        yield source, target, mode == ["ro"]
