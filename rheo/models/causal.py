"""A causal language model of transformers as a function: new tokens and a cache in, logits out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.models.cache import TreeCache
from rheo.models.smollm2 import ModelError
from rheo.models.tree_attention import Block, attention_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ATTENTIONS = ("full_attention", "sliding_attention")
_IMPLEMENTATIONS = ("eager", "sdpa")  # those that take any mask


@dataclass(frozen=True)
class Output:
    """logits: [N, k, V] of the last k tokens fed. features: [N, w, F], inputs of some layers side by side, or F = 0."""

    logits: Tensor
    features: Tensor


def forward(
    model: PreTrainedModel, cache: TreeCache, tokens: Tensor, block: Block, last: int = 0, layers: tuple[int, ...] = ()
) -> Output:
    """Feed tokens int64 [N, w], the last w columns of the block; their keys and values join the cache.

    last: of how many tokens, counted from the end, logits are wanted; 0 for all. layers: whose inputs are features.
    """
    config = model.config.get_text_config()
    masks = {
        kind: attention_mask(cache.lengths, cache.width, block, model.dtype, window)
        for kind, window in windows(config).items()
    }
    positions = block.positions[:, -tokens.shape[1] :]
    limit = context_limit(model)
    output = model(
        input_ids=tokens,
        attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
        # Tokens beyond the limit are never emitted, whatever comes out here.
        position_ids=positions if limit is None else positions.clamp(max=limit - 1),
        use_cache=True,
        logits_to_keep=last,
        output_hidden_states=bool(layers),
        **{cache_argument(model): cache.kv},
    )
    inputs = [output.hidden_states[layer] for layer in layers]
    return Output(output.logits, torch.cat(inputs, -1) if inputs else output.logits.new_zeros(*tokens.shape, 0))


def context_limit(model: PreTrainedModel) -> int | None:
    """The longest context the model was made for, in tokens; None if its configuration names none."""
    limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return limit


def eos_tokens(model: PreTrainedModel) -> frozenset[int]:
    """The ids that end a text, as the model's own settings for generation name them."""
    named: Any = getattr(model.generation_config, "eos_token_id", None)
    return frozenset([named] if isinstance(named, int) else named or ())


def windows(config: Any) -> dict[str, int | None]:
    """The kinds of attention in a model, and how many tokens each sees; None for all."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or [_ATTENTIONS[window is not None]]
    return {kind: window if kind == "sliding_attention" else None for kind in sorted(set(kinds))}


def require_tree_attention(model: PreTrainedModel) -> None:
    """ModelError naming what keeps a model from reading a tree: it could give wrong probabilities without a sign."""
    name, config = type(model).__name__, model.config.get_text_config()
    parameters = inspect.signature(model.forward).parameters
    implementation = getattr(config, "_attn_implementation", "eager")
    foreign = set(windows(config)) - set(_ATTENTIONS)
    rope = _rope_types(getattr(config, "rope_parameters", None))
    reasons = {
        "it is an encoder-decoder": bool(getattr(model.config, "is_encoder_decoder", False)),
        "it keeps a state that cannot be rolled back": bool(getattr(model, "_is_stateful", False)),
        "it takes no position_ids": "position_ids" not in parameters,
        "it counts distances in the cache (ALiBi)": bool(getattr(config, "alibi", False)),
        "it attends in both directions": bool(getattr(config, "use_bidirectional_attention", False)),
        f"layers of type {', '.join(sorted(foreign))}": bool(foreign),
        f"attention {implementation} takes no tree mask; load it with sdpa or eager": (
            implementation not in _IMPLEMENTATIONS
        ),
        f"positions of type {', '.join(sorted(rope))} change with the length of the text": bool(rope),
    }
    for reason, holds in reasons.items():
        if holds:
            raise ModelError(f"{name} cannot verify trees: {reason}")


def _rope_types(parameters: Any) -> set[str]:
    """The rotary position types whose frequencies depend on how long the text is."""
    if not isinstance(parameters, dict):
        return set()
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    kinds = {str(entry.get("rope_type", entry.get("type", ""))) for entry in (parameters, *nested)}
    return kinds & {"dynamic", "longrope"}


def cache_argument(model: PreTrainedModel) -> str:
    """What the model calls its cache: transformers renamed it within version 5."""
    return _cache_argument(type(model).forward)


@lru_cache
def _cache_argument(method: Callable[..., Any]) -> str:
    return "cache" if "cache" in inspect.signature(method).parameters else "past_key_values"
