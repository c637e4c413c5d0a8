"""The toys on which a sampler that is known by its protocol alone is judged.

Each has at most 64 cells of whole sequences, so that a deviation of half a percent shows within millions of samples,
and each is made for a kind of fault: what a wrong sampler does right here, it does wrong there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

from verify.toys import Table, Tokens, Toy, Weights

_TREE: dict[str, Any] = {"anchors": 1, "slots": 3, "beam": 2, "depth": 2, "budget": 5}


@dataclass(frozen=True)
class Trial:
    """A toy, how long its sequences are, and the settings handed to the sampler's factory."""

    name: str
    toy: Toy
    length: int
    settings: dict[str, Any] = field(default_factory=lambda: dict(_TREE))

    @property
    def cells(self) -> int:
        return int(self.toy.vocab**self.length)


def _toy(vocab: int, default: tuple[Weights, Weights], listed: dict[Tokens, tuple[Weights, Weights]]) -> Toy:
    """A toy from (p, q) by prefix."""
    target = Table(default[0], {prefix: p for prefix, (p, _) in listed.items()})
    return Toy(vocab, target, Table(default[1], {prefix: q for prefix, (_, q) in listed.items()}))


def _turning(vocab: int, depth: int, p: Weights, q: Weights) -> dict[Tokens, tuple[Weights, Weights]]:
    """p and q turned by the sum of the prefix, q the other way: each context has a law of its own."""
    prefixes = [prefix for n in range(depth) for prefix in product(range(vocab), repeat=n)]
    turned = {prefix: (sum(prefix) + len(prefix)) % vocab for prefix in prefixes}
    return {x: (p[k:] + p[:k], q[vocab - k :] + q[: vocab - k]) for x, k in turned.items()}


BATTERY: tuple[Trial, ...] = (
    # The draft likes best what the target likes least.
    Trial("reversed", _toy(4, ((8, 4, 2, 1), (1, 2, 4, 8)), {}), 3),
    Trial("contexts", _toy(3, ((1, 1, 1), (1, 1, 1)), _turning(3, 5, (6, 3, 1), (5, 3, 2))), 3),
    Trial("ties", _toy(4, ((4, 3, 2, 1), (1, 1, 1, 1)), {(0,): ((1, 2, 1, 3), (2, 1, 1, 2))}), 3),
    Trial(
        "zeros",
        _toy(4, ((3, 0, 2, 1), (2, 3, 0, 1)), {(0,): ((0, 0, 1, 3), (5, 2, 1, 0)), (2,): ((1, 1, 0, 0), (0, 1, 1, 2))}),
        3,
    ),
    Trial("near-one-hot", _toy(3, ((30, 2, 1), (2, 30, 1)), {(0,): ((1, 30, 2), (30, 1, 2))}), 3),
    Trial(
        "rounds",
        _toy(2, ((3, 1), (1, 2)), _turning(2, 7, (3, 1), (2, 1))),
        6,
        {"anchors": 0, "slots": 2, "beam": 1, "depth": 1, "budget": 2},
    ),
    Trial(
        "cold",
        _toy(3, ((4, 3, 2), (2, 3, 3)), _turning(3, 4, (4, 3, 2), (1, 3, 2))),
        3,
        {**_TREE, "temperature": "1/2"},
    ),
    Trial("wide", _toy(8, ((9, 7, 6, 5, 4, 3, 2, 1), (2, 9, 1, 7, 3, 6, 4, 5)), {}), 2),
)
