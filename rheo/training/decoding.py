"""Plain sampling from a target in large batches, with what a head learns from: the fast way to much text.

Not lossless in any sense that matters elsewhere: half precision is welcome here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from rheo.models.causal import cache_argument, windows
from rheo.models.smollm2 import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_CHUNK = 32  # columns by which a cache grows
_ATTENTION = "grouped"


@dataclass(frozen=True)
class Turns:
    """How a conversation goes on.

    ends: token ids that end a turn. after: what is written then, behind a user's turn and behind an answer.
    """

    ends: frozenset[int]
    after: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Sampled:
    """One text. tokens: int64 [n], `given` of them at the start, the others sampled or what stands between turns.

    features: [n, F], inputs of some layers. states: [n, d], behind the last norm. Both are the target's at each token.
    """

    tokens: Tensor
    given: int
    features: Tensor
    states: Tensor


@torch.no_grad()
def sample_texts(
    model: PreTrainedModel,
    starts: Sequence[Sequence[int]],
    asked: Sequence[bool],
    temperatures: Sequence[float],
    length: int,
    turns: Turns,
    generator: torch.Generator,
    layers: tuple[int, ...],
) -> list[Sampled]:
    """N conversations, each `length` tokens longer than its start: when a turn ends, the next one is sampled.

    No text ends before the others, so every forward is over all N: that is half of the speed.
    asked: whether the start ends with the user's turn complete; otherwise the user's turn is sampled first.
    temperatures: of the answers; users are sampled at 1. layers: of the target, whose inputs are the features.
    """
    device, rows = model.device, [torch.tensor(start) for start in starts]
    width = max(map(len, rows))
    fed = torch.stack([functional.pad(row, (width - len(row), 0)) for row in rows]).to(device)
    first = torch.tensor([width - len(row) for row in rows], device=device)  # the column of each text's first token
    answering = list(asked)
    due: list[list[int]] = [[] for _ in rows]  # tokens to be written in place of sampled ones
    cache: Any = DynamicCache()
    cache.layer_class_to_replicate = _GrowingLayer
    tokens, features, states = [], [], []
    for step in range(length + 1):
        output = _read(model, cache, fed, first)
        tokens.append(fed.cpu())
        features.append(torch.cat([output.hidden_states[layer] for layer in layers], -1).cpu())
        states.append(output.hidden_states[-1].cpu())
        if not step:
            _require_plain_logits(model, output.hidden_states[-1][:, -1], output.logits[:, -1])
        heat = torch.tensor([t if now else 1.0 for t, now in zip(temperatures, answering, strict=True)], device=device)
        drawn = _draw(output.logits[:, -1].float() / heat.unsqueeze(-1), generator).tolist()
        for i, queue in enumerate(due):
            if queue:
                drawn[i] = queue.pop(0)
            elif drawn[i] in turns.ends:
                queue.extend(turns.after[answering[i]])
                answering[i] = not answering[i]
        fed = torch.tensor(drawn, device=device).unsqueeze(-1)
    whole = [torch.cat(parts, 1) for parts in (tokens, features, states)]
    return [
        Sampled(whole[0][i, width - n :], n, whole[1][i, width - n :], whole[2][i, width - n :])
        for i, n in enumerate(map(len, rows))
    ]


def _read(model: PreTrainedModel, cache: Any, fed: Tensor, first: Tensor) -> Any:
    """The model's output for the next w columns of texts that begin at column `first` [N]."""
    before = cache.get_seq_length()
    columns = torch.arange(before, before + fed.shape[1], device=fed.device)
    room = _room(before + fed.shape[1])
    masks = {
        kind: _mask(first, columns, room, model.dtype, window)
        for kind, window in windows(model.config.get_text_config()).items()
    }
    return model(
        input_ids=fed,
        attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
        position_ids=(columns - first.unsqueeze(-1)).clamp(min=0),
        use_cache=True,
        logits_to_keep=1,
        output_hidden_states=True,
        **{cache_argument(model): cache},
    )


def _mask(first: Tensor, columns: Tensor, room: int, dtype: torch.dtype, window: int | None) -> Tensor:
    """Additive [N, 1, w, room]: what is in the text, not later, and in the window."""
    seen = torch.arange(room, device=columns.device)
    sees = (seen <= columns.unsqueeze(-1)) & (seen >= first[:, None, None])
    if window is not None:
        sees = sees & (columns.unsqueeze(-1) - seen < window)
    sees = sees | (seen == columns.unsqueeze(-1))  # padding sees itself: a softmax over nothing is NaN
    return torch.zeros(sees.shape, dtype=dtype, device=sees.device).masked_fill_(~sees, -1e9).unsqueeze(1)


def _draw(logits: Tensor, generator: torch.Generator) -> Tensor:
    """One token a row of [N, V], by inverse CDF: faster than an exponential for each of V tokens."""
    sums = logits.softmax(-1).cumsum(-1)
    points = torch.rand(len(logits), 1, generator=generator, device=logits.device) * sums[:, -1:]
    return torch.searchsorted(sums, points).squeeze(-1).clamp(max=logits.shape[1] - 1)


def _require_plain_logits(model: PreTrainedModel, states: Tensor, logits: Tensor) -> None:
    """ModelError where the logits are more than the output matrix times the last states."""
    output: Any = model.get_output_embeddings
    made: Tensor = output()(states)
    if not torch.allclose(made.float(), logits.float(), rtol=2e-2, atol=0.25):
        raise ModelError(f"{type(model).__name__} changes its logits behind the output matrix: no head can be trained")


def _room(columns: int) -> int:
    return -(-columns // _CHUNK) * _CHUNK


class _GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values in buffers with columns to spare: no copy at every step, and whole buffers are contiguous."""

    keys: Tensor
    values: Tensor
    filled = 0

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys = self.values = key_states[:, :, :0]
        start, self.filled = self.filled, self.filled + key_states.shape[2]
        missing = _room(self.filled) - self.keys.shape[2]
        if missing:
            self.keys = functional.pad(self.keys, (0, 0, 0, missing))
            self.values = functional.pad(self.values, (0, 0, 0, missing))
        self.keys[:, :, start : self.filled] = key_states
        self.values[:, :, start : self.filled] = value_states
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.filled


def _grouped(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Attention whose query heads share keys: for one new token a plain product, without the keys repeated."""
    n, heads, width, size = query.shape
    groups = key.shape[1]
    if width > 1:
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=groups != heads
        )
        return mixed.transpose(1, 2), None
    scores = torch.bmm(query.reshape(n * groups, -1, size), key.flatten(0, 1).transpose(1, 2)).float() * scaling
    weights = (scores.view(n, heads, -1) + attention_mask.squeeze(1)).softmax(-1).to(value.dtype)
    mixed = torch.bmm(weights.view(n * groups, heads // groups, -1), value.flatten(0, 1))
    return mixed.view(n, 1, heads, size), None


def use_grouped_attention(model: PreTrainedModel) -> None:
    """Let a model that was loaded for this purpose attend as fast as plain sampling can."""
    ALL_ATTENTION_FUNCTIONS.register(_ATTENTION, _grouped)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_ATTENTION, sdpa_mask)
    model.config._attn_implementation = _ATTENTION
