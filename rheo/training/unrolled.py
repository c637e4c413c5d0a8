"""A head on whole texts, several steps deep: as it will draft, each step reading the states of the one before.

Source: the training-time test of EAGLE-3 (Li et al., 2025).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rheo.models.drafters.eagle3_head import Eagle3Head


@dataclass(frozen=True)
class Texts:
    """N texts, padded on the right to L tokens. tokens: int64 [N, L].

    learned: bool [N, L], whether what follows the token is learned. features: [N, L, F]. states: [N, L, d].
    """

    tokens: Tensor
    learned: Tensor
    features: Tensor
    states: Tensor


def unrolled(head: Eagle3Head, embeddings: Tensor, texts: Texts, steps: int) -> Iterator[tuple[Tensor, int]]:
    """For each step: the head's states [N, L - k, d] after tokens k.., and the offset k >= 1 of the first of them.

    A step's state at a token comes from the state before it, one step shallower; it sees the target's features up to
    where its own drafting began, and the drafted pairs since. embeddings: [V, d].
    """
    layer = head.midlayer
    attention = layer.self_attn
    embedded = layer.input_layernorm(functional.embedding(texts.tokens, embeddings)[:, 1:])
    before: Tensor = head.fc(texts.features[:, :-1]).float()  # the residual stays in full precision
    n, width = embedded.shape[:2]
    position = torch.arange(width, device=before.device)
    earlier: list[tuple[Tensor, Tensor]] = []  # keys and values [N, heads, width, head_dim] of each step
    for step in range(steps):
        both = torch.cat([embedded, layer.hidden_norm(before)], -1)
        query, key, value = attention.project(both, position.expand(n, -1))
        groups = query.shape[1] // key.shape[1]
        earlier.append((key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)))
        mixed = _attend(query, earlier, position)
        state = before + attention.o_proj(mixed.transpose(1, 2).flatten(-2))
        state = state + layer.mlp(layer.post_attention_layernorm(state))
        yield state[:, step:], step + 1
        before = functional.pad(state[:, :-1], (0, 0, 1, 0))  # what stands in front belongs to no text


def _attend(query: Tensor, earlier: list[tuple[Tensor, Tensor]], position: Tensor) -> Tensor:
    """[N, heads, w, d]: step k at column t sees step 1 up to column t - k + 1, and then step j at t - k + j."""
    behind = len(earlier) - 1
    keys, values = earlier[0]
    scale = query.shape[-1] ** -0.5
    scores = query @ keys.transpose(-1, -2) * scale
    hidden = position > position.unsqueeze(-1) - behind
    if behind:
        hidden = hidden & (position > 0)  # the columns in front of any text see something
    parts = [scores.masked_fill(hidden, torch.finfo(scores.dtype).min)]
    shifted = [(_later(k, behind - j), _later(v, behind - j)) for j, (k, v) in enumerate(earlier[1:], start=1)]
    parts += [(query * key).sum(-1, keepdim=True) * scale for key, _ in shifted]
    weights = torch.cat(parts, -1).softmax(-1, dtype=torch.float32).to(query.dtype)
    mixed = weights[..., : len(position)] @ values
    for j, (_, value) in enumerate(shifted):
        mixed = mixed + weights[..., len(position) + j, None] * value
    return mixed


def _later(states: Tensor, columns: int) -> Tensor:
    """States moved `columns` to the right, zeros in front."""
    return functional.pad(states[:, :, : states.shape[2] - columns], (0, 0, columns, 0)) if columns else states
