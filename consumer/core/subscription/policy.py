"""The ``retry`` and ``breaker`` tables of settings and subscriptions: fields, checks, and resulting policies.

Data flow: YAML, TOML or JSON values -> RetryChoice, BreakerFields (checked) -> RetryPolicy, BreakerPolicy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.errors import ConfigError
from consumer.core.retry.outcomes import parse_statuses
from consumer.core.retry.policy import POLICIES, Growth, Jitter, RetryPolicy
from consumer.core.schema import Section, as_value_error

DAY_S: Final = 86_400.0


def text_keys(value: object) -> object:
    """Turn ``404: park`` into ``"404": park``, because YAML reads the bare key as a number."""
    if isinstance(value, Mapping):
        return {str(key) if type(key) is int else key: rule for key, rule in value.items()}
    return value


class WaitFields(Section):
    """Fields that set how long to wait; an absent field keeps the value of the base policy."""

    base_s: Annotated[float | None, Field(ge=0, le=7 * DAY_S)] = None
    """Wait after the first failed attempt."""
    multiplier: Annotated[float | None, Field(ge=1, le=1_000)] = None
    """Growth of the wait from attempt to attempt."""
    max_s: Annotated[float | None, Field(ge=0, le=7 * DAY_S)] = None
    """Cap of one wait."""
    jitter: Annotated[float | None, Field(ge=0, le=1)] = None
    """Spread of a wait as a ratio: 0.1 is plus or minus 10 %."""
    schedule_s: Annotated[
        tuple[Annotated[float, Field(ge=0, le=7 * DAY_S)], ...] | None, Field(min_length=1, max_length=999)
    ] = None
    """The single waits in seconds, instead of base, multiplier and cap; the last one repeats."""
    growth: Growth | None = None
    """exponential multiplies from attempt to attempt; linear adds base_s each time."""
    jitter_kind: Jitter | None = None
    """spread: plus or minus jitter; full: 0 to the wait; decorrelated: base_s to 3 x the last wait."""
    adaptive: bool | None = None
    """Multiply by 1.5 while over 80 % of the endpoint's recent attempts succeed, else by 2.5."""

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        ineffective = self.formula_fields()
        if self.schedule_s is None or not ineffective:
            return self
        if FORMULA & set(ineffective):
            raise ValueError(
                "schedule_s replaces base_s, multiplier and max_s; give either the schedule or the formula"
            )
        raise ValueError(f"{ineffective[0]} has no effect beside schedule_s; remove one of them")

    def given(self) -> dict[str, object]:
        """Return the fields of a policy that are set here, by name."""
        values = {name: getattr(self, name) for name in WaitFields.model_fields}
        return {name: value for name, value in values.items() if value is not None}

    def formula_fields(self) -> Sequence[str]:
        """Return the names of the fields set here that have no effect on a fixed schedule."""
        given = self.given()
        return [name for name in (*FORMULA_ORDER, *INEFFECTIVE) if given.get(name, False) is not False]

    def change(self, base: RetryPolicy, **more: object) -> RetryPolicy:
        """Return *base* with the fields that are set here, and *more*.

        Raises:
            ConfigError: a field has no effect on that policy.
        """
        changes = self.given() | more
        ineffective = self.formula_fields()
        if ineffective and base.schedule_s is not None:
            if FORMULA & set(ineffective):
                raise ConfigError(
                    f"retry: base_s, multiplier and max_s have no effect on {base.name!r}, a fixed schedule; "
                    "name another policy or give schedule_s"
                )
            raise ConfigError(
                f"retry.{ineffective[0]}: has no effect on {base.name!r}, a fixed schedule; "
                "remove it, or name a policy without a schedule"
            )
        if self.schedule_s is not None:
            changes.setdefault("max_attempts", len(self.schedule_s) + 1)
        if "jitter" in changes:
            changes["jitter_ratio"] = changes.pop("jitter")
        return replace(base, **changes)  # type: ignore[arg-type]  # checked by the model


INEFFECTIVE: Final = ("growth", "adaptive")
"""Fields that earlier versions accepted beside a fixed schedule, where they have no effect."""
FORMULA_ORDER: Final = ("base_s", "multiplier", "max_s")
FORMULA: Final = frozenset(FORMULA_ORDER)
"""Fields that compute the waits by a formula. A fixed schedule ignores them, `growth` and `adaptive`. Its
jitter can be set in either case."""


class RetryFields(WaitFields):
    """Fields of a retry policy; an absent field keeps the value of the base policy."""

    max_attempts: Annotated[int | None, Field(ge=1, le=1_000)] = None
    """Attempts in total, including the first."""
    max_age_s: Annotated[float | None, Field(ge=1, le=366 * DAY_S)] = None
    """Age at which a delivery is parked expired; absent: the larger of 24 h and 1.2 x the schedule."""
    disable_after_s: Annotated[float | None, Field(ge=0, le=366 * DAY_S)] = None
    """Uninterrupted failures for so long, at least 12 h, disable the subscription; 0: never. Absent: 5 d."""
    by_status: Annotated[dict[str, WaitFields] | None, Field(max_length=64), BeforeValidator(text_keys)] = (
        None
    )
    """Other waits after a status or a class of statuses, such as `{"429": {base_s: 30}}`."""
    budget: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """Retries to one endpoint per budget_period_s, per worker; more are postponed. Absent: no limit."""
    budget_period_s: Annotated[float | None, Field(ge=0.1, le=DAY_S)] = None
    """Period of the budget."""

    @field_validator("by_status")
    @classmethod
    def _check_by_status(cls, value: dict[str, WaitFields] | None) -> dict[str, WaitFields] | None:
        if value is not None:
            as_value_error(parse_statuses, value)
        return value


class RetryChoice(RetryFields):
    """A named policy with the changes of the fields beside it."""

    policy: str | None = None
    """Name of the base policy; absent: the policy of the settings, or `default` if a formula meets a fixed
    schedule there."""

    def drop_ineffective(self, policies: Mapping[str, RetryPolicy], default: RetryPolicy) -> Self:
        """Return the choice without ineffective fields, which stores of earlier versions may contain."""
        base = default if self.policy is None else policies.get(self.policy, default)
        if base.schedule_s is None or FORMULA & self.given().keys() or not self.formula_fields():
            return self
        return self.model_copy(update=dict.fromkeys(INEFFECTIVE, None))

    def build(
        self, policies: Mapping[str, RetryPolicy], default: RetryPolicy, name: str | None = None
    ) -> RetryPolicy:
        """Return the resulting policy.

        Args:
            policies: The policies that *policy* may name.
            default: The base policy if *policy* is absent.
            name: Name of the result; None keeps the name of an unchanged policy, and else gives ``custom``.

        Raises:
            ConfigError: the name is unknown, or a field has no effect on that policy.
        """
        is_formula = bool(self.formula_fields())
        if self.policy is not None:
            base = policies.get(self.policy)
        else:  # a formula never starts from a fixed schedule, even if the settings change later
            base = POLICIES["default"] if is_formula and default.schedule_s is not None else default
        if base is None:
            raise ConfigError(f"retry.policy: {self.policy!r} is not one of {', '.join(sorted(policies))}")
        own = ("max_attempts", "max_age_s", "disable_after_s", "budget", "budget_period_s")
        more = {key: getattr(self, key) for key in own if getattr(self, key) is not None}
        if not self.given() and not more and self.by_status is None:
            return base if name is None else replace(base, name=name)
        changed = self.change(base, name=name or "custom", **more)
        if self.by_status is None:
            return changed
        formula = replace(changed, schedule_s=None)
        by_status = tuple(
            (key.lower(), waits.change(formula if waits.formula_fields() else changed, **more))
            for key, waits in self.by_status.items()
        )
        return replace(changed, by_status=by_status)


def drop_ineffective(retry: Mapping[str, object]) -> dict[str, object]:
    """Return a stored ``retry`` table without the fields that have no effect beside its ``schedule_s``."""
    kept = {key: value for key, value in retry.items() if key not in INEFFECTIVE or "schedule_s" not in retry}
    by_status = kept.get("by_status")
    if isinstance(by_status, Mapping):
        kept["by_status"] = {key: drop_ineffective(waits) for key, waits in by_status.items()}
    return kept


class BreakerFields(Section):
    """Fields of a breaker; an absent field keeps the value of the base breaker."""

    failures: Annotated[int | None, Field(ge=0, le=10_000)] = None
    """Consecutive failures that open the breaker; 0 switches it off."""
    failure_ratio: Annotated[float | None, Field(ge=0, le=1)] = None
    """Share of failures among the last answers that also opens the breaker; 0 disables this check."""
    window_s: Annotated[float | None, Field(ge=0.1, le=3_600)] = None
    """Period that *failure_ratio* covers: between half of this and all of it."""
    min_requests: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Answers in the window that *failure_ratio* needs to have an effect."""
    cooldown_s: Annotated[float | None, Field(ge=0.01, le=3_600)] = None
    """Time from opening to the first probe."""
    cooldown_max_s: Annotated[float | None, Field(ge=0.01, le=DAY_S)] = None
    """Cap of the cooldown, which grows while probes fail; never under cooldown_s."""
    probe_timeout_s: Annotated[float | None, Field(ge=0.1, le=600)] = None
    """Time after which an unanswered probe is lost and another sent; at least a request's time-out + 5 s."""

    def build(self, base: BreakerPolicy) -> BreakerPolicy:
        """Return *base* with the changes of the fields that are set."""
        changes = {name: value for name, value in self.model_dump().items() if value is not None}
        policy = replace(base, **changes)
        return replace(policy, cooldown_max_s=max(policy.cooldown_s, policy.cooldown_max_s))
