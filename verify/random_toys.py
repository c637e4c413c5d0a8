"""Random toy pairs, reproducible from a seed, of the kinds that break samplers."""

from __future__ import annotations

import random
from itertools import product

from verify.toys import Table, Toy, Weights

KINDS = ("any", "ties", "zeros", "one-hot", "disjoint", "equal", "peaked", "mixed")


def random_toy(seed: int, vocab: int, depth: int, kind: str) -> Toy:
    """A toy that lists every prefix of up to `depth` tokens.

    kind: ties (few distinct weights), zeros, one-hot, disjoint (p and q never positive together), equal (p = q),
    peaked (one token far above the rest), any, or mixed (another kind at every prefix). KeyError for another kind.
    """
    rng = random.Random(f"{seed}/{vocab}/{depth}/{kind}")
    rows = {}
    for length in range(depth + 1):
        for prefix in product(range(vocab), repeat=length):
            chosen = rng.choice(KINDS[:-1]) if kind == "mixed" else kind
            rows[prefix] = _pair(rng, vocab, chosen)
    default = (1,) * vocab
    target = Table(default, {prefix: p for prefix, (p, _) in rows.items()})
    return Toy(vocab, target, Table(default, {prefix: q for prefix, (_, q) in rows.items()}))


def _pair(rng: random.Random, vocab: int, kind: str) -> tuple[Weights, Weights]:
    if kind == "equal":
        row = _row(rng, vocab, "any")
        return row, row
    if kind == "disjoint" and vocab > 1:
        own = rng.sample(range(vocab), rng.randint(1, vocab - 1))
        p = tuple(rng.randint(1, 9) if i in own else 0 for i in range(vocab))
        return p, tuple(0 if i in own else rng.randint(1, 9) for i in range(vocab))
    return _row(rng, vocab, kind), _row(rng, vocab, kind)


def _row(rng: random.Random, vocab: int, kind: str) -> Weights:
    lucky = rng.randrange(vocab)
    if kind == "ties":
        return tuple(rng.choice((1, 1, 2)) for _ in range(vocab))
    if kind == "zeros":
        return tuple(1 if i == lucky else rng.choice((0, 0, 1, 2, 3)) for i in range(vocab))
    if kind == "one-hot":
        return tuple(int(i == lucky) for i in range(vocab))
    if kind == "peaked":
        return tuple(40 if i == lucky else rng.randint(1, 3) for i in range(vocab))
    return tuple(rng.randint(1, 12) for _ in range(vocab))
