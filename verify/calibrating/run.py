"""Rounds at many contexts, and what the slots of their trees were worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from rheo.config import Config
from rheo.decoding import Pair, Sampler, play_round
from rheo.growth import TreeGrowth
from rheo.methods import METHODS
from rheo.models.generation import Limits, generate
from rheo.slots import SlotPlan
from rheo.training.prompts import Start
from rheo.tree import Path, Tree
from rheo.truncation import Draft
from rheo.uniforms import Uniforms
from verify.benchmark.clock import Watched
from verify.benchmark.expected import REACH
from verify.benchmark.texts import Models, target_law
from verify.calibrating.observed import Observed, joined, observe
from verify.calibrating.starts import round_starts

METHOD = "rheo-transport"  # grows the trees: it needs no calibration to begin with
_TOGETHER = 4  # contexts of a batch


@dataclass(frozen=True)
class Plan:
    """temperatures: each is fitted alone. config: of the trees. starts: where texts begin. each: contexts of a text."""

    temperatures: tuple[float, ...]
    config: Config
    starts: tuple[Start, ...]
    each: int
    seed: int

    @property
    def contexts(self) -> int:
        """At most so many."""
        return len(self.temperatures) * len(self.starts) * self.each


@dataclass(frozen=True)
class Seen:
    """What was seen at one temperature, at so many contexts; whether those are all."""

    contexts: int
    observed: Observed
    complete: bool


Progress = dict[float, Seen]  # by temperature


def run(models: Models, tokenizer: Any, plan: Plan, begun: Progress) -> Iterator[Progress]:
    """The progress after every batch of contexts. ValueError as `generate`."""
    seen = dict(begun)
    for number, temperature in enumerate(plan.temperatures):
        if temperature in seen and seen[temperature].complete:
            continue
        seed = plan.seed + number
        contexts = round_starts(models.target, tokenizer, plan.starts, plan.each, temperature, seed)
        first = seen[temperature].contexts if temperature in seen else 0
        for at in range(first, len(contexts), _TOGETHER):
            batch = contexts[at : at + _TOGETHER]
            found = observe_rounds(models, replace(plan.config, temperature=temperature), batch, (seed << 32) + at)
            parts = [seen[temperature].observed, found] if temperature in seen else [found]
            end = at + len(batch)
            seen[temperature] = Seen(end, joined(parts), end == len(contexts))
            yield dict(seen)


def observe_rounds(models: Models, config: Config, contexts: Sequence[Sequence[int]], seed: int) -> Observed:
    """One round after each context, in a batch: what all slots of their trees were worth. ValueError as `generate`."""
    found: list[Observed] = []

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        drafts: list[Draft] = []
        growth = sampler.method.growth
        assert not isinstance(growth, TreeGrowth)

        def noting(draft: Draft, config: Config) -> SlotPlan:
            drafts.append(draft)
            return growth(draft, config)

        watched = Watched(pair, lambda: None)
        tree, path = play_round(replace(sampler, method=replace(sampler.method, growth=noting)), watched, uniforms)
        q = torch.cat([draft.q for draft in drafts], 1)
        p = target_law(sampler, watched.seen[0])
        found.append(observe(tree, q, p, config.slots, REACH[sampler.method.rule]))
        return tree, path

    seeds = [seed + i for i in range(len(contexts))]
    sampler = Sampler(config, METHODS[METHOD])
    next(generate(models.target, models.drafter, sampler, contexts, seeds, Limits(1), play=play))
    return found[0]
