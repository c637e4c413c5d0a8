"""How often each child of a node is the one accepted: what Sequoia's tree is made for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Acceptance:
    """rates: how often the first, second, ... child of a node is the one accepted; further children are never drawn.

    They need not fall, and may be Fractions or floats. ValueError unless each is in [0, 1] and the first is positive.
    """

    rates: tuple[Fraction | float, ...]

    def __post_init__(self) -> None:
        if not self.rates or not self.rates[0] > 0 or not all(0 <= rate <= 1 for rate in self.rates):
            raise ValueError(f"acceptance rates must lie in 0..1, the first above 0, got {self.rates}")


# Of what its elder siblings left, each child takes three fifths.
GEOMETRIC = Acceptance(tuple(Fraction(3, 5) * Fraction(2, 5) ** k for k in range(64)))
