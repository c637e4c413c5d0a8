"""What a head learns by: cross-entropy with the target, and the mass that sampling would reject.

Logits over a vocabulary are by far the largest values of a fit. They are made, and their gradient taken, a few rows at
a time while they lie in the processor's cache; no autograd graph ever holds them.

Source: the overlap is the acceptance of speculative sampling itself (Leviathan et al., 2023), maximised directly.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_ROWS = 256  # at a time


def rejection_loss(
    states: Tensor, output: Tensor, p_states: Tensor, p_output: Tensor, overlap: float, half: bool
) -> tuple[Tensor, Tensor]:
    """Means over n rows: cross-entropy + overlap * (1 - sum(min(p, q))), and sum(min(p, q)), which has no gradient.

    p: of p_states [n, d] times p_output [V, d], which learn nothing; q: of states [n, d] times output [V, d].
    half: whether products are taken in bfloat16.
    """
    with torch.autocast(states.device.type, enabled=False):
        loss, found = _Rejection.apply(states, output, p_states, p_output, overlap, half)  # type: ignore[no-untyped-call]
    return loss, found


class _Rejection(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, output: Tensor, p_states: Tensor, p_output: Tensor, weight: float, half: bool
    ) -> tuple[Tensor, Tensor]:
        dtype = torch.bfloat16 if half else states.dtype
        rows, columns, p_columns = states.to(dtype), output.to(dtype), p_output.to(dtype)
        slopes = rows.new_empty(len(rows), len(columns))
        by_state = rows.new_empty(rows.shape)
        losses, overlaps = states.new_empty(len(rows)), states.new_empty(len(rows))
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            p = _wide(p_states[part].to(dtype) @ p_columns.T).softmax(-1)
            log_q = _wide(rows[part] @ columns.T).log_softmax(-1)
            cross_entropy = -torch.linalg.vecdot(p, log_q)
            q = log_q.exp_()
            overlaps[part] = torch.minimum(p, q).sum(-1)
            losses[part] = cross_entropy + weight * (1 - overlaps[part])
            # sum(min(p, q)) grows with q where q is below p, and every logit takes from all q by its own.
            short = q * (q < p)
            slope = q.mul_(1 + weight * short.sum(-1, keepdim=True)).sub_(p).sub_(short, alpha=weight)
            slopes[part] = slope.div_(len(rows))
            by_state[part] = slopes[part] @ columns
        ctx.save_for_backward(by_state, slopes.T @ rows if output.requires_grad else None)
        loss, found = losses.mean(), overlaps.mean()
        ctx.mark_non_differentiable(found)
        return loss, found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_state, by_output = ctx.saved_tensors
        grad = grads[0]
        wide = [None if each is None else grad * each.to(grad.dtype) for each in (by_state, by_output)]
        return wide[0], wide[1], None, None, None, None


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
