"""RheoSampling's slots, each scored by its estimated chance of acceptance in place of its q.

The estimates come from `config.worth`. Source: docs/theory.md, "Proxies are free".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from rheo.calibration import Calibration, Curve, at_depth
from rheo.config import Config
from rheo.growths import rheo
from rheo.slots import SlotPlan
from rheo.truncation import Draft


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of every parent with the given truncated drafts, at their depth."""
    slots = rheo.plan(draft, config)
    return scored(slots, worth(draft, slots, config.worth))


@dataclass(frozen=True)
class Worth:
    """What slots are worth. anchors: float64 [N, b, m]. probe: [N, b]. tail: [N, b, S - m], its tokens as fillers."""

    anchors: Tensor
    probe: Tensor
    tail: Tensor

    def times(self, factors: Tensor) -> Worth:
        """Times each request's factors float64 [N, 3] for anchors, probe and fillers, but never above 1."""
        anchor, probe, filler = factors.unsqueeze(1).unbind(-1)
        return Worth(
            (self.anchors * anchor.unsqueeze(-1)).clamp(max=1.0),
            (self.probe * probe).clamp(max=1.0),
            (self.tail * filler.unsqueeze(-1)).clamp(max=1.0),
        )


def worth(draft: Draft, slots: SlotPlan, known: Calibration) -> Worth:
    """What a calibration says of every parent's slots."""
    m = slots.anchors
    anchor, probe, filler = (at_depth(curves, draft.depth) for curves in (known.anchor, known.probe, known.filler))
    q, tail = draft.q[..., :m], draft.q[..., m:]
    return Worth(values(anchor, q), values(probe, tail.sum(-1)), values(filler, tail))


def scored(slots: SlotPlan, own: Worth) -> SlotPlan:
    """The slots with what they are worth as scores.

    The proxy knows z and the likeliest tail token, not the probe's; nothing else could be the best filler.
    """
    scores = torch.cat([own.anchors, own.tail], -1)
    if slots.tail_law.shape[-1] == 0:
        return replace(slots, scores=scores)
    return replace(slots, scores=scores, proxy=torch.maximum(own.probe, own.tail[..., 0]))


def values(curve: Curve, x: Tensor) -> Tensor:
    """The curve at x, float64 [...]; above 1, where rounding lifts a sum, its last value."""
    at, low, slope, last = _pieces(curve, x.device)
    piece = (torch.searchsorted(at, x.contiguous(), right=True) - 1).clamp(max=last)
    return low[piece] + (x.clamp(max=1.0) - at[piece]) * slope[piece]


@lru_cache(maxsize=256)
def _pieces(curve: Curve, device: torch.device) -> tuple[Tensor, Tensor, Tensor, int]:
    """float64 [n]: where each piece of a curve starts, its value there, its slope; and the number of the last."""
    with torch.inference_mode(False):  # whoever comes first, later callers may need normal tensors
        x, y = torch.tensor([[float(a), float(b)] for a, b in curve], dtype=torch.float64).unbind(1)
        slope = (y[1:] - y[:-1]) / (x[1:] - x[:-1])
        return x[:-1].contiguous().to(device), y[:-1].to(device), slope.to(device), len(slope) - 1
