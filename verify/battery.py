"""The toys on which a sampler that is known by its protocol alone is judged.

Each has at most 64 cells of whole sequences, so that a deviation of half a percent shows within millions of samples,
and each is made for a kind of fault: what a wrong sampler does right here, it does wrong there.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    turned = {prefix: (sum(prefix) + len(prefix)) % vocab for prefix in _prefixes(vocab, depth)}
    return {x: (p[k:] + p[:k], q[vocab - k :] + q[: vocab - k]) for x, k in turned.items()}


def _by_last(
    vocab: int, depth: int, start: tuple[Weights, Weights], rows: Sequence[tuple[Weights, Weights]]
) -> dict[Tokens, tuple[Weights, Weights]]:
    """(p, q) that depend on the last token alone."""
    return {prefix: rows[prefix[-1]] if prefix else start for prefix in _prefixes(vocab, depth)}


def _prefixes(vocab: int, depth: int) -> list[Tokens]:
    return [prefix for n in range(depth) for prefix in product(range(vocab), repeat=n)]


BATTERY: tuple[Trial, ...] = (
    # The draft likes best what the target likes least, so that most probes are rejected.
    Trial("reversed", _toy(4, ((8, 4, 2, 1), (1, 2, 4, 8)), {}), 2),
    # No two contexts that follow each other have the same p.
    Trial("contexts", _toy(3, ((1, 1, 1), (1, 1, 1)), _turning(3, 5, (6, 3, 1), (5, 3, 2))), 3),
    # Equal scores at the edge of a small budget; which child scores high depends on what the probe is.
    Trial(
        "ties",
        _toy(
            3,
            ((1, 1, 1), (1, 1, 1)),
            _by_last(
                3, 4, ((4, 2, 3), (2, 2, 1)), [((6, 1, 6), (1, 1, 2)), ((3, 1, 1), (1, 2, 2)), ((1, 1, 6), (1, 0, 0))]
            ),
        ),
        2,
        {**_TREE, "beam": 3, "budget": 2},
    ),
    # Tokens that p rules out and q likes, and the other way round.
    Trial(
        "zeros",
        _toy(4, ((3, 0, 2, 1), (1, 2, 0, 3)), {(0,): ((0, 0, 1, 3), (5, 2, 1, 0)), (2,): ((1, 1, 0, 0), (0, 1, 1, 2))}),
        2,
    ),
    Trial("near-one-hot", _toy(3, ((30, 2, 1), (2, 30, 1)), {(0,): ((1, 30, 2), (30, 1, 2))}), 2),
    # At most two tokens a round: what is kept from round to round shows.
    Trial(
        "rounds",
        _toy(2, ((3, 1), (1, 2)), _turning(2, 6, (3, 1), (2, 1))),
        5,
        {"anchors": 0, "slots": 2, "beam": 1, "depth": 1, "budget": 2},
    ),
    # Logits that half precision rounds badly, at a temperature that makes much of it.
    Trial(
        "cold",
        _toy(4, ((32, 20, 33, 28), (30, 34, 31, 28)), {}),
        2,
        {**_TREE, "budget": 3, "temperature": "1/8"},
    ),
    # Two anchors, and tokens that the draft's truncated support lacks.
    Trial(
        "wide",
        _toy(6, ((9, 7, 6, 5, 4, 2), (2, 9, 3, 7, 4, 5)), {}),
        2,
        {**_TREE, "anchors": 2, "slots": 4, "support": 5},
    ),
    # What the root's probe is decides whether the anchor keeps a child, behind a branch of the probe's: a rule that
    # takes the nodes in another order than they were revealed in is off by a quarter.
    Trial(
        "branches",
        _toy(
            3,
            ((1, 1, 1), (1, 1, 1)),
            {
                (): ((1, 0, 1), (1, 1, 1)),
                (0,): ((0, 0, 1), (1, 2, 1)),
                (1,): ((1, 0, 0), (2, 1, 1)),
                (2,): ((2, 1, 0), (0, 0, 1)),
            },
        ),
        3,
        {**_TREE, "slots": 2, "budget": 4},
    ),
    # The root's probe competes with a child of the anchor for the last place: scores that know what it is decide.
    Trial(
        "late-probe",
        _toy(3, ((1, 1, 1), (1, 1, 1)), {(): ((1, 3, 1), (6, 2, 1))}),
        2,
        {**_TREE, "slots": 2, "budget": 2},
    ),
)
