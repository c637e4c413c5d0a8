"""Where a round's time goes: the drafter's forwards, the target's, the sampler between them, and the loop around."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from rheo.decoding import Pair
from rheo.tree import Frontier, Tree

Mark = Any  # a time of the host's clock in seconds, or an event of the device


@dataclass(frozen=True)
class Seconds:
    """draft: the drafter's forwards. verify: the target's. sampling: growth and verification without them. rest: the
    loop around, caches and bookkeeping."""

    draft: float = 0.0
    verify: float = 0.0
    sampling: float = 0.0
    rest: float = 0.0

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Seconds)))

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.sampling + self.rest


@dataclass(frozen=True)
class Watched:
    """A pair that notes when its models began and ended, and what they last said.

    drafts, targets: (begin, end) of every call. root: the draft's logits [N, 1, V] at the root, and seen: the target's
    [N, R + 1, V], of the last round, one entry each.
    """

    pair: Pair
    mark: Callable[[], Mark]
    drafts: list[tuple[Mark, Mark]] = field(default_factory=list)
    targets: list[tuple[Mark, Mark]] = field(default_factory=list)
    root: list[Tensor] = field(default_factory=list)
    seen: list[Tensor] = field(default_factory=list)

    def draft(self, frontier: Frontier) -> Tensor:
        begin = self.mark()
        logits = self.pair.draft(frontier)
        self.drafts.append((begin, self.mark()))
        if frontier.previous is None:
            self.root[:] = [logits]
        return logits

    def target(self, tree: Tree) -> Tensor:
        begin = self.mark()
        logits = self.pair.target(tree)
        self.targets.append((begin, self.mark()))
        self.seen[:] = [logits]
        return logits


def marker(device: torch.device) -> Callable[[], Mark]:
    """What notes the time: on cuda an event in the stream, since waiting at every call would slow the round."""
    return _event if device.type == "cuda" else time.perf_counter


def between(begin: Mark, end: Mark) -> float:
    """Seconds between two marks; waits for the device if the second is still to come."""
    if isinstance(begin, float):
        return float(end - begin)
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def split(watched: Watched, begin: Mark, end: Mark) -> Seconds:
    """A round that began and ended at these marks; without what lies around it."""
    draft, verify = (sum(between(*call) for call in calls) for calls in (watched.drafts, watched.targets))
    return Seconds(draft, verify, between(begin, end) - draft - verify)


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _event() -> Mark:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event
