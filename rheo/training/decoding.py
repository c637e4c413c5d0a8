"""Plain sampling from a target in large batches, with what a head learns from: the fast way to much text.

Not lossless in any sense that matters elsewhere: half precision is welcome here, and a text that runs long is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
class Sampled:
    """One text. tokens: int64 [n], `given` of the prompt first. features: [n, F]. states: [n, d], after the last norm.

    The last token's feature and state are missing from the model's reading, and so is that token: n counts those read.
    """

    tokens: Tensor
    given: int
    features: Tensor
    states: Tensor


@torch.inference_mode()
def sample_texts(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    temperatures: Sequence[float],
    max_new_tokens: int,
    eos: Collection[int],
    generator: torch.Generator,
    layers: tuple[int, ...] = (),
) -> list[Sampled]:
    """One continuation of each of N prompts of token ids, at its own temperature, in the prompts' order.

    eos: ids that end a text. layers: of the target, whose inputs are the features; without any, nothing is kept but
    the tokens. Ends early when fewer than an eighth of the texts still run, which are cut there.
    """
    device, rows = model.device, [torch.tensor(prompt) for prompt in prompts]
    width = max(map(len, rows))
    given = torch.tensor([len(row) for row in rows], device=device)
    fed = torch.stack([functional.pad(row, (width - len(row), 0)) for row in rows]).to(device)
    first = width - given  # the column of each text's first token
    heat = torch.tensor(temperatures, device=device).unsqueeze(-1)
    ends = torch.tensor(sorted(eos), device=device)
    cache: Any = DynamicCache()
    cache.layer_class_to_replicate = _GrowingLayer
    running = torch.arange(len(rows), device=device)
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # of every step: texts, tokens, features, states
    for step in range(max_new_tokens):
        output = _read(model, cache, fed, first[running], layers)
        kept = (output.hidden_states[layer] for layer in layers)
        features = torch.cat(list(kept), -1) if layers else fed.new_zeros(*fed.shape, 0)
        states = output.hidden_states[-1] if layers else features
        parts.append((running, fed, features, states))
        if not step and layers:
            _require_plain_logits(model, states[:, -1], output.logits[:, -1])
        drawn = _draw(output.logits[:, -1].float() / heat[running], generator)
        going = torch.isin(drawn, ends, invert=True)
        if int(going.sum()) * 8 <= len(rows):
            break
        fed = drawn.unsqueeze(-1)
        if int(going.sum()) * 4 <= 3 * len(running):
            alive = going.nonzero().squeeze(-1)
            cache.batch_select_indices(alive)
            running, fed = running[alive], fed[alive]
    return _texts(parts, given.tolist(), ends)


def _read(model: PreTrainedModel, cache: Any, fed: Tensor, first: Tensor, layers: tuple[int, ...]) -> Any:
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
        output_hidden_states=bool(layers),
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


def _texts(parts: list[tuple[Tensor, Tensor, Tensor, Tensor]], given: list[int], ends: Tensor) -> list[Sampled]:
    texts = []
    for i, length in enumerate(given):
        rows = [(part, int(found[0])) for part in parts if len(found := (part[0] == i).nonzero().squeeze(-1))]
        tokens, features, states = (
            torch.cat([part[k][row, -length:] if n == 0 else part[k][row] for n, (part, row) in enumerate(rows)]).cpu()
            for k in (1, 2, 3)
        )
        over = torch.isin(tokens[length:], ends.cpu()).nonzero()
        stop = length + int(over[0]) + 1 if len(over) else len(tokens)
        texts.append(Sampled(tokens[:stop], length, features[:stop], states[:stop]))
    return texts


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
