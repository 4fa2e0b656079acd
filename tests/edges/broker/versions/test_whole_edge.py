"""Each version of the broker, played by a fake: the plan is declared, events flow, nothing is refused."""

from __future__ import annotations
