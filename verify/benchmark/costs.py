"""What forwards cost by how much goes through them, on the machine at hand.

Everything is timed once a pass, one after the other, so that a drift of the machine meets all of it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from rheo.decoding import Pair, Sampler
from rheo.tree import Frontier, Tree
from rheo.uniforms import Uniforms
from verify.benchmark.autoregressive import play_token
from verify.benchmark.clock import Mark, between

TARGET, LEVEL, ROOT, TOKEN = "target", "level", "root", "token"
Timed = tuple[str, int]  # what it is, and how many: nodes, a level's width
Seconds = Mapping[Timed, float]


@dataclass(frozen=True)
class Cost:
    """Seconds at some counts, rising ones; they never fall, and are straight in between."""

    counts: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, count: int) -> float:
        """Seconds at a count; outside of what was measured, those of the nearest."""
        return float(np.interp(count, self.counts, self.seconds))


@dataclass(frozen=True)
class Stopwatch:
    """Begin and end of whatever was timed, as marks: nothing waits for the device on their account."""

    mark: Callable[[], Mark]
    calls: dict[Timed, tuple[Mark, Mark]]

    @contextmanager
    def time(self, what: str, count: int) -> Iterator[None]:
        """Note the time of what happens inside."""
        begin = self.mark()
        yield
        self.calls[what, count] = (begin, self.mark())

    @property
    def seconds(self) -> dict[Timed, float]:
        """How long each took."""
        return {key: between(*call) for key, call in self.calls.items()}


def settled(passes: Sequence[Seconds]) -> dict[Timed, float]:
    """The time of each: the median of its share of a pass, times the median pass. A slow pass changes no share.

    All passes must have timed the same.
    """
    keys = list(passes[0])
    table = np.array([[each[key] for key in keys] for each in passes])
    whole = table.sum(1)
    shares = np.median(table / whole[:, None], 0) * np.median(whole)
    return dict(zip(keys, shares.tolist(), strict=True))


def token(seconds: Seconds) -> float:
    """Seconds of a token of autoregressive decoding: its target's as the curve has them, and its drawing."""
    return cost(seconds, TARGET).at(0) + max(seconds[TOKEN, 1] - seconds[TARGET, 0], 0.0)


def cost(seconds: Seconds, what: str) -> Cost:
    """The curve of one thing: the closest to what was measured that never falls."""
    found = sorted((count, value) for (name, count), value in seconds.items() if name == what)
    counts, values = zip(*found, strict=True)
    return Cost(counts, tuple(isotonic_regression(np.array(values)).x.tolist()))


@torch.inference_mode()
def time_forwards(
    watch: Stopwatch, pair: Pair, uniforms: Uniforms, sampler: Sampler, nodes: Sequence[int], widths: Sequence[int]
) -> None:
    """Time the target over `nodes` drafted nodes, the drafter: the root, and a level of each width; and a token of
    autoregressive decoding, with its target over no nodes. At the pair's contexts, where a round is played afterwards.
    """
    root = torch.zeros(len(uniforms.draw), 1, dtype=torch.int64, device=uniforms.draw.device)
    for count in nodes:
        star = _star(root, count)
        with watch.time(TARGET, count):
            pair.target(star)
    with watch.time(TOKEN, 1):
        play_token(sampler, _Noted(pair, watch), uniforms)
    frontier = Frontier(0, root, root, root == 0, None)
    with watch.time(ROOT, 1):
        pair.draft(frontier)
    for width in widths:
        level = root.expand(-1, width)
        frontier = Frontier(frontier.depth + 1, level, level, level == 0, frontier)
        with watch.time(LEVEL, width):
            pair.draft(frontier)


@dataclass(frozen=True)
class _Noted:
    """A pair whose target is timed over no nodes."""

    pair: Pair
    watch: Stopwatch

    def draft(self, frontier: Frontier) -> Tensor:
        return self.pair.draft(frontier)

    def target(self, tree: Tree) -> Tensor:
        with self.watch.time(TARGET, 0):
            return self.pair.target(tree)


def _star(root: Tensor, nodes: int) -> Tree:
    """Nodes beside each other under the root: what is timed has to be a tree, no matter which."""
    row = root.expand(-1, nodes)
    empty = root.new_zeros(len(root), 1, 0)
    return Tree(
        tokens=row,
        depths=row + 1,
        slots=row,
        parents=row,
        occupied=row == 0,
        scores=row.double(),
        expansion=root.new_full((len(root), nodes + 1), -1),
        anchors=0,
        support=empty,
        tail_law=empty.double(),
        fault=root > 0,
    )
