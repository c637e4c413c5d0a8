"""A draft that needs no training: the target without its last layers."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import nn

from rheo.models.smollm2 import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def skip_last_layers(target: PreTrainedModel, count: int) -> PreTrainedModel:
    """The target with its last `count` decoder layers left out.

    Embeddings, remaining layers, final norm and output head are the target's own modules: nothing is copied,
    and a later change of the target's weights shows in the draft. ModelError if the model keeps its layers in
    no list called `layers`, or if none would be left.
    """
    body = target.base_model
    layers = getattr(body, "layers", None)
    if body is target or not isinstance(layers, nn.ModuleList):
        raise ModelError(f"cannot skip layers of {type(target).__name__}: its decoder has no list of layers")
    if not 0 <= count < len(layers):
        raise ModelError(f"cannot skip {count} of {len(layers)} layers: at least one must remain")
    kept = len(layers) - count
    # The forward pass counts its layers by the configuration, so the draft needs one of its own.
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = kept
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:kept]
    draft_body = _twin(body)
    draft_body.layers, draft_body.config = layers[:kept], config
    draft: PreTrainedModel = _twin(target)
    draft.config = config
    setattr(draft, target.base_model_prefix, draft_body)
    return draft


def _twin(module: Any) -> Any:
    """A module with the same submodules, whose own attributes can be set without touching the original."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
