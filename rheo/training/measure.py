"""How well a head predicts its target, step by step, over the whole vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from rheo.models.drafters.eagle3_head import Eagle3Head
from rheo.training.unrolled import Texts, unrolled

_ROWS = 512  # distributions over the vocabulary at a time


@dataclass(frozen=True)
class Agreement:
    """By self-conditioned step, the first reading the target's features: means over the positions of held-out texts.

    overlap: sum(min(p, q)) at temperature 1. top1: share of positions where p and q have the same likeliest token.
    covered: mean p of the head's vocabulary, no more than which any overlap can be. positions: at step 1.
    """

    overlap: tuple[float, ...]
    top1: tuple[float, ...]
    covered: float
    positions: int


@torch.no_grad()
def agreement(
    head: Eagle3Head, embeddings: Tensor, output: Tensor, batches: Iterable[Texts], steps: int = 8
) -> Agreement:
    """Agreement at the learned positions; embeddings, output: [V, d], the target's. Texts must be on the head's device.

    The states of the texts are taken for the target's: in float32, p is exact.
    """
    sums = torch.zeros(steps, 3, dtype=torch.float64)
    covered = torch.zeros((), dtype=torch.float64)
    for texts in batches:
        for state, offset in unrolled(head, embeddings, texts, steps):
            chosen = texts.learned[:, offset:]
            drafted, known = state[chosen], texts.states[:, offset:][chosen]
            for start in range(0, len(drafted), _ROWS):
                p = (known[start : start + _ROWS].float() @ output.T.float()).softmax(-1)
                q = head.logits(drafted[start : start + _ROWS]).float().softmax(-1)
                same = p.argmax(-1) == q.argmax(-1)
                found = (torch.minimum(p, q).sum(-1).double().sum(), same.double().sum(), same.new_ones(len(p)).sum())
                sums[offset - 1] += torch.stack([value.double().cpu() for value in found])
                if offset == 1:
                    covered += ((q > 0) * p).sum(-1).double().sum().cpu()
    means = sums[:, :2] / sums[:, 2:]
    count = int(sums[0, 2])
    return Agreement(tuple(means[:, 0].tolist()), tuple(means[:, 1].tolist()), float(covered / count), count)
