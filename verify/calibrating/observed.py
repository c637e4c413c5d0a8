"""What the slots of drafted parents were worth, beside what growth knew of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rheo.tree import ANCHOR, FILLER, PROBE, Tree
from verify.benchmark.expected import Reach

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Observed:
    """n slots of parents that the target has seen, each [n].

    kind: ANCHOR, PROBE or FILLER. depth: the parent's, 0 for the root. x: what a calibration goes by, the token's q, or
    z for a probe. worth: the chance that it is accepted once its parent is reached: p of an anchor, sum of min(p, q~)
    for a probe, (p - q~)+ of a filler. weight: the chance that its parent is reached.
    """

    kind: NDArray[np.int8]
    depth: NDArray[np.int8]
    x: Floats
    worth: Floats
    weight: Floats

    def where(self, mask: NDArray[np.bool_]) -> Observed:
        """Those alone."""
        return Observed(*(getattr(self, field.name)[mask] for field in fields(Observed)))


def joined(parts: Sequence[Observed]) -> Observed:
    """All of them in one."""
    return Observed(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Observed)))


@torch.inference_mode()
def observe(tree: Tree, q: Tensor, p: Tensor, slots: int, reach: Reach) -> Observed:
    """Every slot that the kept and expanded nodes of N trees had, whether it survived or not.

    q: float64 [N, E, S], untempered, of the tree's supports. p: float64 [N, R + 1, V]. slots: K. A filler counts with
    what it is worth on average over the probe, which may be that token.
    """
    weights = reach(tree, p)
    there = tree.expansion >= 0
    there[:, 1:] &= tree.occupied
    request, row = there.nonzero(as_tuple=True)
    where = tree.expansion[request, row]
    own, law, support = q[request, where], tree.tail_law[request, where], tree.support[request, where]
    target = p[request.unsqueeze(-1), row.unsqueeze(-1), support]
    weight = weights[request, row]
    depth = torch.cat([torch.zeros_like(tree.depths[:, :1]), tree.depths], 1)[request, row]
    m = tree.anchors
    last = max(slots - 1, m) if law.shape[-1] else m  # one slot is the probe's
    parts = [_slots(ANCHOR, own[:, :m], target[:, :m], depth, weight)]
    if law.shape[-1]:
        tail, wanted = own[:, m:], target[:, m:]
        covered = torch.minimum(wanted, law)
        parts += [
            _slots(PROBE, tail.sum(-1, keepdim=True).clamp(max=1), covered.sum(-1, keepdim=True), depth, weight),
            _slots(FILLER, tail[:, : last - m], (wanted - covered)[:, : last - m], depth, weight),
        ]
    return joined(parts)


def _slots(kind: int, x: Tensor, worth: Tensor, depth: Tensor, weight: Tensor) -> Observed:
    """Slots [k, w] of k parents; those of tokens that are no candidates are left out."""
    kept = (x > 0).cpu()
    columns = [each.unsqueeze(-1).expand_as(x).cpu()[kept].numpy() for each in (depth, weight)]
    return Observed(
        np.full(int(kept.sum()), kind, dtype=np.int8),
        columns[0].astype(np.int8),
        x.cpu()[kept].numpy(),
        worth.cpu()[kept].clamp(0, 1).numpy(),
        columns[1],
    )
