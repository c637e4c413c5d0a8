"""Calibration refined within a request, from its rounds that are over: what growth predicted, and what p made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reference.choose import Choose
from reference.decoding import Sampler
from reference.distributions import Array, Number, temper
from reference.growths import rheo
from reference.growths.calibrated import worth
from reference.slots import SlotPlan
from reference.tree import Path, Tokens
from reference.truncation import truncate
from reference.verification import verify
from rheo.calibration import Calibration, stretched

Three = tuple[Number, Number, Number]  # of anchors, probes and fillers


@dataclass(frozen=True)
class Sums:
    """Over the parents that past rounds of a request passed: what their slots were predicted to be worth, and were."""

    predicted: Three = (0, 0, 0)
    realised: Three = (0, 0, 0)


def refine(calibration: Calibration, sums: Sums, prior: Number) -> Calibration:
    """The calibration with its values scaled by what slots were worth over what they were predicted to be.

    prior: > 0, the worth of slots that the calibration itself counts for, of each kind.
    """
    return stretched(calibration, factors(sums, prior))


def factors(sums: Sums, prior: Number) -> Three:
    """Realised over predicted worth, of each kind, shrunk towards 1; 1 before any round."""
    one, two, three = (
        (prior + found) / (prior + expected) for expected, found in zip(sums.predicted, sums.realised, strict=True)
    )
    return one, two, three


def decode(
    sampler: Sampler, context: Tokens, rounds: int, choose: Callable[[int], Choose], prior: Number
) -> list[Path]:
    """As `decoding.decode`, each round grown by what the rounds before it have taught."""
    paths: list[Path] = []
    sums, known = Sums(), sampler.config.worth
    for index in range(rounds):
        refined = replace(sampler.config, calibration=refine(known, sums, prior))
        path, sums = play_round(replace(sampler, config=refined), context, choose(index), sums, known)
        paths.append(path)
        context += path.tokens
    return paths


def play_round(sampler: Sampler, context: Tokens, choose: Choose, sums: Sums, known: Calibration) -> tuple[Path, Sums]:
    """One round, and the sums after it; known: the calibration whose predictions they count."""

    def target_at(tokens: Tokens) -> Array:
        return temper(sampler.target(context + tokens), sampler.config.temperature)

    tree = sampler.grow(lambda tokens: sampler.draft(context + tokens), sampler.config, sampler.method.growth, choose)
    path = verify(tree, target_at, sampler.method.rule, choose, sampler.step)
    for place, tokens in [((), ()), *((node.path, node.tokens) for node in path.accepted)]:
        if place in tree.plans:
            draft = truncate(sampler.draft(context + tokens), sampler.config.support, len(place))
            sums = passed(sums, rheo.plan(draft, sampler.config), len(place), target_at(tokens), known)
    return path, sums


def passed(sums: Sums, slots: SlotPlan, depth: int, p: Array, known: Calibration) -> Sums:
    """The sums with one parent more, whose slots are scored by their q; p: [vocab], the target's there.

    An anchor was worth p, a probe sum of min(p, q~), a filler (p - q~)+.
    """
    anchors, probe, tail = worth(slots, depth, known)
    fillers = max(slots.slots - len(anchors) - 1, 0)
    covered = np.minimum(p[slots.tail], slots.tail_law)
    rest = p[slots.tail] - covered
    return Sums(
        _plus(sums.predicted, (anchors.sum(), probe.sum(), tail[:fillers].sum())),
        _plus(sums.realised, (p[slots.anchors].sum(), covered.sum(), rest[:fillers].sum())),
    )


def _plus(old: Three, new: Three) -> Three:
    return old[0] + new[0], old[1] + new[1], old[2] + new[2]
