"""Mutants whose probes follow another law than the one that they are verified against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rheo.config import Config
from rheo.decoding import Pair, Sampler
from rheo.distributions import counting, temper
from rheo.growth import TreeGrowth, grow
from rheo.slots import SlotPlan
from rheo.tree import Path, Tree
from rheo.truncation import Draft
from rheo.uniforms import Uniforms
from verify.mutants.mutant import Mutant, verified
from verify.subjects import PlayRound

# A draft, its plan and the settings -> weights [N, b, tail], to draw from or to declare in place of q~.
Law = Callable[[Draft, SlotPlan, Config], Tensor]


def right(draft: Draft, plan: SlotPlan, config: Config) -> Tensor:
    """q~ itself."""
    return plan.tail_law


def drafted(drawn: Law = right, declared: Law = right) -> PlayRound:
    """A round whose probes are drawn from one law, while the tree carries another to verification."""

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        carried = []

        def growth(draft: Draft, config: Config) -> SlotPlan:
            assert not isinstance(sampler.method.growth, TreeGrowth)
            plan = sampler.method.growth(draft, config)
            carried.append(declared(draft, plan, config))
            return replace(plan, tail_law=drawn(draft, plan, config))

        tree = replace(grow(pair.draft, uniforms.probe, sampler.config, growth), tail_law=torch.cat(carried, 1))
        return tree, verified(sampler, tree, pair.target(tree), uniforms)

    return play


def _cooler(draft: Draft, plan: SlotPlan, config: Config) -> Tensor:
    m = plan.anchors
    return temper(draft.logits[..., m:], draft.candidate[..., m:], 0.6 * float(config.temperature))


def _two_likeliest(draft: Draft, plan: SlotPlan, config: Config) -> Tensor:
    return plan.tail_law * (counting(plan.tail_law.shape[-1], plan.tail_law.device) < 2)


def _greedy(draft: Draft, plan: SlotPlan, config: Config) -> Tensor:
    return plan.tail_law * (counting(plan.tail_law.shape[-1], plan.tail_law.device) < 1)


def _in_bf16(draft: Draft, plan: SlotPlan, config: Config) -> Tensor:
    m = plan.anchors
    return temper(draft.logits[..., m:].bfloat16().double(), draft.candidate[..., m:], float(config.temperature))


def _logits(draft: Draft, plan: SlotPlan, config: Config) -> Tensor:
    return torch.where(draft.candidate, draft.logits, 0.0)[..., plan.anchors :]


def whole(draft: Draft, plan: SlotPlan, config: Config) -> Tensor:
    """q_T over the whole support, anchors included, at the tail: q~ without its renormalisation."""
    return temper(draft.logits, draft.candidate, float(config.temperature))[..., plan.anchors :]


MUTANTS = (
    Mutant(
        "draft_at_another_temperature",
        "probes are drawn at 0.6 T and verified against q~ at T",
        "a draft with a temperature of its own that nobody tells the verifier",
        play=drafted(drawn=_cooler),
    ),
    Mutant(
        "draft_from_another_support",
        "probes are drawn from the two likeliest tail tokens and verified against q~ over all of them",
        "a draft truncated again, or anew, between drafting and verification",
        play=drafted(drawn=_two_likeliest),
    ),
    Mutant(
        "greedy_draft_as_sampled",
        "the probe is always the likeliest tail token, and is verified as a draw from q~",
        "a greedy draft verified as if it had been sampled",
        play=drafted(drawn=_greedy),
    ),
    Mutant(
        "bf16_draft",
        "probes are drawn from logits in bf16 and verified against q~ of the full ones",
        "a draft in half precision, verified in another",
        play=drafted(drawn=_in_bf16),
    ),
    Mutant(
        "logits_as_q",
        "the tree carries the draft's raw logits in place of q~",
        "raw logits returned where probabilities are expected",
        play=drafted(declared=_logits),
    ),
    Mutant(
        "q_with_anchors",
        "the tree carries q in place of q~: the anchors' share is missing from the tail",
        "a draft's law that was not renormalised after some tokens were taken out",
        play=drafted(declared=whole),
    ),
)
