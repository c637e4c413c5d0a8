"""Calibration refined within a request, from its rounds that are over: what growth predicted, and what p made of it.

A round's scores depend on earlier rounds alone, so growth stays predictable, and the sampler lossless: docs/theory.md,
"Proxies are free". Counted are the parents that a round passed, each as often as it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from rheo.config import Config
from rheo.decoding import Pair, Sampler, processing
from rheo.distributions import softmax
from rheo.growths import GROWTHS, rheo
from rheo.growths.calibrated import scored, worth
from rheo.slots import SlotPlan
from rheo.tree import Frontier, Path, Tree
from rheo.truncation import Draft, widened
from rheo.uniforms import Uniforms

Play = Callable[[Sampler, Pair, Uniforms], tuple[Tree, Path]]

PRIOR = 8.0  # worth of slots that the calibration itself counts for, of each kind


def factors(sums: Tensor, prior: float = PRIOR) -> Tensor:
    """What each request's anchors, probes and fillers have been worth, over what they were predicted to be.

    sums: float64 [N, 2, 3], predicted and realised in the rounds that are over. Returns [N, 3]; 1 before any round.
    """
    return (prior + sums[:, 1]) / (prior + sums[:, 0])


def require_refinable(sampler: Sampler) -> None:
    """ValueError for a growth that goes by no calibration."""
    if sampler.method.growth is not GROWTHS["calibrated"]:
        raise ValueError("only a calibrated method can be refined")


def play_refined(
    play: Play, sampler: Sampler, pair: Pair, uniforms: Uniforms, sums: Tensor, prior: float = PRIOR
) -> tuple[Tree, Path, Tensor]:
    """A round of N requests whose values are those of the calibration times `factors`, and the sums after it.

    play: as `play_round`. ValueError as `require_refinable`, and as `play`.
    """
    require_refinable(sampler)
    now, predicted, counted = factors(sums, prior), [], []

    def growth(draft: Draft, config: Config) -> SlotPlan:
        slots = rheo.plan(draft, config)
        own = worth(draft, slots, config.worth)
        known = _counted(draft, slots)
        alone = torch.cat([own.anchors, own.tail], -1) * known
        m = slots.anchors
        predicted.append(torch.stack([alone[..., :m].sum(-1), own.probe, alone[..., m:].sum(-1)], -1))
        counted.append(known)
        return scored(slots, own.times(now))

    noting = _Noting(pair)
    tree, path = play(replace(sampler, method=replace(sampler.method, growth=growth)), noting, uniforms)
    seen = torch.cat(predicted, 1), torch.cat(counted, 1), noting.seen[0]
    return tree, path, sums + passed(sampler, tree, path, *seen)


@torch.inference_mode()
def passed(sampler: Sampler, tree: Tree, path: Path, predicted: Tensor, counted: Tensor, logits: Tensor) -> Tensor:
    """float64 [N, 2, 3]: what the slots of the parents on a round's path were predicted to be worth, and were.

    predicted: float64 [N, E, 3], by expansion. counted: bool [N, E, S], which of the support's tokens have slots to
    themselves. logits: [N, R + 1, V], the target's. An anchor was worth p, a probe sum of min(p, q~), a filler
    (p - q~)+.
    """
    length = int(path.lengths.max())
    rows = pad(path.rows[:, : length - 1], (1, 0))  # the root, and what was accepted
    expansion = tree.expansion.gather(1, rows.clamp(min=0))
    there = ((rows >= 0) & (expansion >= 0)).unsqueeze(-1)
    request = torch.arange(len(rows), device=rows.device).unsqueeze(-1)
    where = expansion.clamp(min=0)
    seen = widened(logits[request, rows.clamp(min=0)])
    weights = softmax(processing(sampler)(seen.flatten(0, 1))).view(seen.shape)
    p = weights.gather(-1, tree.support[request, where]).double()
    law, m = tree.tail_law[request, where], tree.anchors
    wanted = p[..., m : m + law.shape[-1]]
    covered = torch.minimum(wanted, law)
    alone = torch.cat([p[..., :m], wanted - covered], -1) * counted[request, where]
    realised = torch.stack([alone[..., :m].sum(-1), covered.sum(-1), alone[..., m:].sum(-1)], -1)
    both = torch.stack([predicted[request, where], realised], -2)
    return torch.where(there.unsqueeze(-1), both, 0.0).sum(1)


def _counted(draft: Draft, slots: SlotPlan) -> Tensor:
    """bool [N, b, S]: the anchors and the likeliest of the tail, as many as there are slots beside the probe's."""
    first = torch.arange(draft.q.shape[-1], device=draft.q.device) < max(slots.slots - 1, slots.anchors)
    return draft.candidate & first


@dataclass(frozen=True)
class _Noting:
    """A pair that notes the target's last logits."""

    pair: Pair
    seen: list[Tensor] = field(default_factory=list)

    def draft(self, frontier: Frontier) -> Tensor:
        return self.pair.draft(frontier)

    def target(self, tree: Tree) -> Tensor:
        self.seen[:] = [self.pair.target(tree)]
        return self.seen[0]
