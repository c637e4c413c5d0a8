"""Shapes of trees that are settled before anything is drawn: what was measured of them, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rheo.acceptance import Acceptance
from rheo.config import Config

MEASURED = ("specinfer", "spectr")  # by their expected tokens for each K


@dataclass(frozen=True)
class Shapes:
    """What is good for one pair at one temperature.

    slots: method, then budget, to the number K of children that yields most. acceptance: for a tree without repeated
    tokens, None where it was not measured.
    """

    slots: Mapping[str, Mapping[int, int]]
    acceptance: Acceptance | None

    def applied(self, method: str, config: Config) -> Config:
        """The configuration with what this says of the method and its budget."""
        if method == "sequoia" and self.acceptance is not None:
            return replace(config, acceptance=self.acceptance)
        slots = self.slots.get(method, {}).get(config.budget)
        return config if slots is None else replace(config, slots=slots, anchors=min(config.anchors, slots - 1))


def of_record(record: Mapping[str, Any]) -> Shapes:
    """What follows from a record of `shaping.measure`: of each budget the K with most tokens, the least of equals."""
    slots = {
        name: {int(budget): int(max(taus, key=lambda k: (taus[k], -int(k)))) for budget, taus in by_budget.items()}
        for name, by_budget in record["tau"].items()
    }
    rates = record["acceptance"]
    return Shapes(slots, Acceptance(tuple(rates)) if rates else None)
