"""The layer of an EAGLE-3 head, its tensors named as in the official checkpoints.

Source: EAGLE-3 (Li et al., 2025) and the layout of its authors' checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class HeadShape:
    """Sizes of a head. hidden: d. features: 3 times the target's width. inner: of the MLP. draft_vocab: its own.

    rope_theta, rope_factor: rotary positions, divided by the factor. embeds: whether it brings embeddings of its own.
    """

    hidden: int
    features: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    draft_vocab: int
    eps: float
    rope_theta: float
    rope_factor: float
    embeds: bool = False


class Eagle3Head(nn.Module):
    """A head; `d2t` and `t2d` exist where its vocabulary is a part of the target's: target id = i + d2t[i]."""

    d2t: Tensor
    t2d: Tensor

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden) if shape.embeds else None
        self.fc = nn.Linear(shape.features, shape.hidden, bias=False)
        self.midlayer = _Layer(shape)
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.lm_head = nn.Linear(shape.hidden, shape.draft_vocab, bias=False)
        if shape.draft_vocab != shape.vocab:
            self.register_buffer("d2t", torch.zeros(shape.draft_vocab, dtype=torch.int64))
            self.register_buffer("t2d", torch.zeros(shape.vocab, dtype=torch.bool))

    def forward(self, embedded: Tensor, before: Tensor, positions: Tensor, mask: Tensor, kv: Any) -> Tensor:
        """States [N, w, d] of w pairs: embedded tokens and the states before them [N, w, d], fc already applied.

        positions: int64 [N, w]. mask: additive [N, 1, w, columns]. kv: a DynamicCache of one layer, which grows.
        """
        state: Tensor = self.midlayer(embedded, before, positions, mask, kv)
        return state

    def logits(self, states: Tensor) -> Tensor:
        """[N, w, V] in the target's vocabulary, -inf for what the head's own lacks."""
        logits: Tensor = self.lm_head(self.norm(states))
        if self.shape.draft_vocab == self.shape.vocab:
            return logits
        return logits.new_full((*logits.shape[:-1], self.shape.vocab), -torch.inf).index_copy_(-1, self.known, logits)

    @property
    def known(self) -> Tensor:
        """int64 [draft_vocab]: the head's vocabulary as the target's ids, ascending as the head's own."""
        tokens = torch.arange(self.shape.draft_vocab, device=self.fc.weight.device)
        return tokens if self.shape.draft_vocab == self.shape.vocab else tokens + self.d2t


class _Layer(nn.Module):
    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, shape.eps)  # of the embedding
        self.hidden_norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.self_attn = _Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.mlp = _Mlp(shape)

    def forward(self, embedded: Tensor, before: Tensor, positions: Tensor, mask: Tensor, kv: Any) -> Tensor:
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(before)], -1)
        state: Tensor = before + self.self_attn(both, positions, mask, kv)
        change: Tensor = self.mlp(self.post_attention_layernorm(state))
        return state + change


class _Attention(nn.Module):
    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        size, kv_size = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(2 * shape.hidden, size, bias=False)
        self.k_proj = nn.Linear(2 * shape.hidden, kv_size, bias=False)
        self.v_proj = nn.Linear(2 * shape.hidden, kv_size, bias=False)
        self.o_proj = nn.Linear(size, shape.hidden, bias=False)

    def forward(self, both: Tensor, positions: Tensor, mask: Tensor, kv: Any) -> Tensor:
        query, key, value = self.project(both, positions)
        keys, values = kv.update(key, value, 0)
        groups = self.shape.heads // self.shape.kv_heads
        keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
        mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(-2))
        return out

    def project(self, both: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [N, heads, w, head_dim], keys and values [N, kv_heads, w, head_dim] at positions [N, w]."""

        def by_head(states: Tensor) -> Tensor:
            return states.view(*states.shape[:-1], -1, self.shape.head_dim).transpose(1, 2)

        query, key = (self._rotate(by_head(project(both)), positions) for project in (self.q_proj, self.k_proj))
        return query, key, by_head(self.v_proj(both))

    def _rotate(self, states: Tensor, positions: Tensor) -> Tensor:
        """Rotary positions [N, w] on states [N, heads, w, head_dim]; dimensions i and i + half turn together."""
        half = self.shape.head_dim // 2
        speeds = torch.pow(self.shape.rope_theta, -torch.arange(half, device=states.device) / half)
        angles = positions[:, None, :, None] / self.shape.rope_factor * speeds
        cosine, sine = angles.cos().to(states.dtype), angles.sin().to(states.dtype)
        first, second = states[..., :half], states[..., half:]
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class _Mlp(nn.Module):
    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, state: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(state)) * self.up_proj(state))
        return out
