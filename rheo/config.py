"""Settings of one sampler, shared by the reference and the torch implementation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

from rheo.acceptance import GEOMETRIC, Acceptance
from rheo.calibration import AnyCalibration, Calibration


class ConfigError(ValueError):
    """A setting outside its domain; `key` names it, `reason` says why."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


# The packed ranking key of a candidate (rheo/order.py) keeps this many bits for its position.
POSITION_BITS = 20

_LEAST = {"anchors": 0, "slots": 1, "beam": 1, "depth": 1, "budget": 1}


@dataclass(frozen=True)
class Config:
    """Shape of the draft tree and the temperature.

    anchors: m, deterministic children per parent, 0 <= anchors < slots.
    slots: K, children per parent.
    beam: B, nodes expanded per depth.
    depth: D, deepest drafted node.
    budget: R, drafted nodes kept after reranking (the root is not counted).
    support: S, draft tokens kept by truncation; None keeps the whole vocabulary.
    temperature: T, 0 or from 1e-30 to 1e30; 0 means argmax. A Fraction whose inverse is an integer keeps laws exact.
    calibration: what slots are worth, for growths that go by it; None: `Calibration()`, or what a drafter comes with.
    acceptance: how often each child of a node is accepted, for the tree that is made for it.

    Raises ConfigError naming the first setting outside its domain.
    """

    anchors: int = 1
    slots: int = 10
    beam: int = 10
    depth: int = 8
    budget: int = 59
    support: int | None = 128
    temperature: Fraction | float = Fraction(1)
    calibration: AnyCalibration | None = None
    acceptance: Acceptance = GEOMETRIC

    def __post_init__(self) -> None:
        for key, least in _LEAST.items():
            _require_integer(key, getattr(self, key), least)
        if self.support is not None:
            _require_integer("support", self.support, 1)
        if self.anchors >= self.slots:
            raise ConfigError("anchors", f"must be less than slots ({self.slots}), got {self.anchors}")
        if isinstance(self.temperature, bool) or not isinstance(self.temperature, int | float | Fraction):
            raise ConfigError("temperature", f"must be a number, got {self.temperature!r}")
        require_temperature(self.temperature)
        if self.slots + (self.depth - 1) * self.beam * self.slots >= 1 << POSITION_BITS:
            raise ConfigError("slots", f"slots x beam x depth must stay below {1 << POSITION_BITS}")

    @property
    def worth(self) -> Calibration:
        """What slots are worth at this temperature."""
        return (self.calibration or Calibration()).at(self.temperature)

    @property
    def least(self) -> Fraction:
        """What an adaptive anchor must be expected to be worth: about what a tree's last node is.

        A rough guess will do (docs/search.md); an odd number, so that few toys tie with it.
        """
        return Fraction(5, 11) / self.budget

    @property
    def expansions(self) -> int:
        """Probe decisions in one round: the root and `beam` nodes at each depth 1..depth-1."""
        return 1 + (self.depth - 1) * self.beam

    @property
    def decisions(self) -> int:
        """Uniforms of one round: for growth, a coin a depth, and a draw a depth and at the end."""
        return self.draws + 2 * self.depth + 1

    @property
    def draws(self) -> int:
        """Uniforms that growth may read: one an expansion, or, in a tree of fixed shape, one a drafted node."""
        return max(self.expansions, self.budget)

    def column(self, draw: int) -> int:
        """Where growth's uniform `draw` stands among a round's numbers: from `expansions` on, behind all others."""
        return draw if draw < self.expansions else draw + 2 * self.depth + 1

    def expansion(self, depth: int, rank: int) -> int:
        """Position among the expansions of the rank-th best node expanded at a depth (root: 0, 0)."""
        return 0 if depth == 0 else 1 + (depth - 1) * self.beam + rank


# Below this, and above its inverse, logits divided by T leave the range of float32.
LEAST_TEMPERATURE = 1e-30


def require_temperature(value: Fraction | float) -> None:
    """ConfigError unless the temperature is 0, or between LEAST_TEMPERATURE and its inverse."""
    if value != 0 and not LEAST_TEMPERATURE <= value <= 1 / LEAST_TEMPERATURE:
        bounds = f"{LEAST_TEMPERATURE} and {1 / LEAST_TEMPERATURE:.0e}"
        raise ConfigError("temperature", f"must be 0, or between {bounds}, got {str(value)[:40]}")


def _require_integer(key: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(key, f"must be an integer, got {value!r}")
    if value < least:
        raise ConfigError(key, f"must be at least {least}, got {value}")


_MEASURED = ("calibration", "acceptance")
CONFIG_KEYS = tuple(each.name for each in fields(Config) if each.name not in _MEASURED)  # single numbers
TREE_KEYS = tuple(key for key in CONFIG_KEYS if key != "temperature")
