"""RheoSampling's slots, each scored by its estimated chance of acceptance in place of its q.

The estimates come from `config.worth`. Source: docs/theory.md, "Proxies are free".
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from rheo.calibration import Curve, at_depth
from rheo.config import Config
from rheo.growths import rheo
from rheo.slots import SlotPlan
from rheo.truncation import Draft


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of every parent with the given truncated drafts, at their depth.

    The proxy knows z and the likeliest tail token, not the probe's; nothing else could be the best filler.
    """
    slots, known = rheo.plan(draft, config), config.worth
    m = slots.anchors
    anchor, probe, filler = (at_depth(curves, draft.depth) for curves in (known.anchor, known.probe, known.filler))
    scores = torch.cat([values(anchor, draft.q[..., :m]), values(filler, draft.q[..., m:])], -1)
    if slots.tail_law.shape[-1] == 0:
        return replace(slots, scores=scores)
    own = values(probe, draft.q[..., m:].sum(-1))
    return replace(slots, scores=scores, proxy=torch.maximum(own, scores[..., m]))


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
