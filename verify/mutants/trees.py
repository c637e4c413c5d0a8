"""Mutants whose trees are wrong: scores and ties that look at what the probe is, nodes at the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import torch
from torch import Tensor

from rheo.config import Config
from rheo.decoding import Pair, Sampler, play_round
from rheo.distributions import counting
from rheo.growth import TreeGrowth, grow
from rheo.slots import SlotPlan, draw_probe
from rheo.tree import Path, Tree
from rheo.truncation import Draft
from rheo.uniforms import Uniforms
from verify.mutants.mutant import Mutant, verified
from verify.mutants.targets import siblings
from verify.subjects import PlayRound

# A relative difference that the order of nodes sees, and no two scores that differ in a toy come as near.
_TIE = 2.0**-28


def scored(change: Callable[[Draft, SlotPlan, Tensor], SlotPlan]) -> PlayRound:
    """A round whose plans change once it is known which support position int64 [N, b, 1] each probe drew."""

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        depths = count()  # a growth is asked once a depth

        def growth(draft: Draft, config: Config) -> SlotPlan:
            assert not isinstance(sampler.method.growth, TreeGrowth)
            plan, first = sampler.method.growth(draft, config), config.expansion(next(depths), 0)
            if plan.tail_law.shape[-1] == 0:
                return plan
            uniform = uniforms.probe[:, first : first + plan.proxy.shape[1]]
            return change(draft, plan, draw_probe(draft, plan, uniform))

        return play_round(replace(sampler, method=replace(sampler.method, growth=growth)), pair, uniforms)

    return play


def _true_score(draft: Draft, plan: SlotPlan, probe: Tensor) -> SlotPlan:
    return replace(plan, proxy=plan.scores.gather(-1, probe).squeeze(-1))


def _by_token(draft: Draft, plan: SlotPlan, probe: Tensor) -> SlotPlan:
    """Among equal scores the lower token id ranks first."""
    behind = 1 - _TIE * draft.tokens.double()
    return replace(plan, scores=plan.scores * behind, proxy=plan.proxy * behind.gather(-1, probe).squeeze(-1))


def _last_slot_first(draft: Draft, plan: SlotPlan, probe: Tensor) -> SlotPlan:
    """Among equal scores the later slot ranks first, a child before its parent."""
    m, position = plan.anchors, counting(plan.scores.shape[-1], plan.scores.device).double()
    return replace(
        plan, scores=plan.scores * (1 + _TIE * (2 * position + 2)), proxy=plan.proxy * (1 + _TIE * (2 * m + 1))
    )


def _eager_fillers(draft: Draft, plan: SlotPlan, probe: Tensor) -> SlotPlan:
    fillers = counting(plan.scores.shape[-1], plan.scores.device) >= plan.anchors
    return replace(plan, scores=torch.where(fillers, (1.5 * plan.scores).clamp(max=1), plan.scores))


def _mass_as_proxy(draft: Draft, plan: SlotPlan, probe: Tensor) -> SlotPlan:
    mass = plan.scores[..., plan.anchors :].sum(-1).clamp(max=1)
    return replace(plan, proxy=torch.maximum(plan.proxy, mass))


def _orphans(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
    """The target sees the tree as it was drafted, the walk sees nodes below depth 1 under a sibling of their parent."""
    tree = grow(pair.draft, uniforms.probe, sampler.config, sampler.method.growth)
    adopted = siblings(tree).gather(1, tree.parents)
    earlier = adopted <= counting(tree.tokens.shape[1], adopted.device)  # a row's parent comes before it
    astray = replace(tree, parents=torch.where((tree.depths > 1) & earlier, adopted, tree.parents))
    return astray, verified(sampler, astray, pair.target(tree), uniforms)


MUTANTS = (
    Mutant(
        "probe_by_true_score",
        "the probe ranks by its own probability",
        "the true probability of a sampled node used as its score",
        play=scored(_true_score),
    ),
    Mutant(
        "ties_by_token",
        "equal scores rank by token id",
        "nodes sorted by (score, token)",
        play=scored(_by_token),
    ),
    Mutant(
        "ties_reversed",
        "equal scores rank last slot first",
        "a descending order from a reversed ascending sort, or what a top-k kernel makes of ties",
        play=scored(_last_slot_first),
    ),
    Mutant(
        "fillers_before_probe",
        "fillers score one and a half times their q, and may outrank the probe",
        "scores calibrated without the probe's share in mind",
        play=scored(_eager_fillers),
    ),
    Mutant(
        "rrsw_probe_before_anchors",
        "in RRSw the probe scores the tail's mass, and may outrank anchors",
        "a rule kept while the growth under it changed",
        method="rrsw",
        play=scored(_mass_as_proxy),
    ),
    Mutant(
        "orphan_adopted",
        "nodes below depth 1 hang under a sibling of their parent",
        "a reranked tree that keeps a child without its parent, and finds it another",
        method="topk",
        play=_orphans,
    ),
)
