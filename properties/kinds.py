"""How often the strategies produce what breaks samplers. A kind that never comes up is never tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from properties.strategies import CALIBRATED, LARGE, Grown, pairs, trees
from verify.toys import Weights

Drawn = TypeVar("Drawn")
Pair = tuple[Weights, Weights]

PAIRS: dict[str, Callable[[Pair], bool]] = {
    "zeros": lambda pair: 0 in pair[1],
    "ties": lambda pair: len({w for w in pair[1] if w}) < sum(w > 0 for w in pair[1]),
    "one-hot": lambda pair: sum(w > 0 for w in pair[1]) == 1,
    "near-delta": lambda pair: max(pair[1]) == LARGE and sum(w > 0 for w in pair[1]) > 1,
    "p = q": lambda pair: pair[0] == pair[1],
    "disjoint": lambda pair: not any(a and b for a, b in zip(*pair, strict=True)),
}
TREES: dict[str, Callable[[Grown], bool]] = {
    "T = 0": lambda grown: grown.case.config.temperature == 0,
    "0 < T < 1": lambda grown: 0 < grown.case.config.temperature < 1,
    "no anchors": lambda grown: grown.case.config.anchors == 0,
    "calibrated": lambda grown: grown.case.config.calibration is not None and grown.method in CALIBRATED,
    "truncated support": lambda grown: (grown.case.config.support or grown.case.toy.vocab) < grown.case.toy.vocab,
    "a probe survives": lambda grown: any(node.kind == "probe" for node in grown.tree.nodes),
    "a filler survives": lambda grown: any(node.kind == "filler" for node in grown.tree.nodes),
    "scores tie": lambda grown: len({node.score for node in grown.tree.nodes}) < len(grown.tree.nodes),
    "budget used up": lambda grown: len(grown.tree.nodes) == grown.case.config.budget,
    "two levels": lambda grown: any(node.depth > 1 for node in grown.tree.nodes),
}


def frequencies(
    strategy: st.SearchStrategy[Drawn], kinds: Mapping[str, Callable[[Drawn], bool]], examples: int
) -> dict[str, float]:
    """The share of a strategy's examples that are of each kind; the same every time."""
    seen: Counter[str] = Counter()
    total = 0

    @given(strategy)
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def look(drawn: Drawn) -> None:
        nonlocal total
        total += 1
        seen.update(kind for kind, holds in kinds.items() if holds(drawn))

    look()
    return {kind: seen[kind] / total for kind in kinds}


def measured_kinds(examples: int = 500) -> dict[str, float]:
    """Print and return how often each kind of pair (over four tokens) and of tree comes up."""
    found = frequencies(pairs(4), PAIRS, examples) | frequencies(trees(), TREES, examples)
    for kind, share in found.items():
        print(f"{kind:20}{share:6.1%}")
    return found
