"""A head before its first step, as much of it as can be taken from the target, and its vocabulary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rheo.models.drafters.eagle3_head import Eagle3Head, HeadShape
from rheo.models.smollm2 import ModelError
from rheo.training.text import read_one

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def vocabulary(paths: list[Path], size: int, vocab: int) -> tuple[list[int], float]:
    """The `size` tokens seen most often in the shards, ascending, and the share of all tokens that they cover.

    Lower ids come first among equals. vocab: how many tokens the target has.
    """
    seen: Counter[int] = Counter()
    for path in paths:
        seen.update(read_one(path, "tokens").tolist())
    ranked = sorted(range(vocab), key=lambda token: (-seen[token], token))[:size]
    return sorted(ranked), sum(seen[token] for token in ranked) / max(1, seen.total())


def embedding_pair(model: PreTrainedModel) -> tuple[nn.Linear, nn.Linear]:
    """A target's input embeddings and output matrix; ModelError where either is not a plain matrix."""
    found: Any = model
    pair = found.get_input_embeddings(), found.get_output_embeddings()
    if not all(isinstance(getattr(part, "weight", None), Tensor) for part in pair):
        raise ModelError(f"{type(model).__name__} has no plain embeddings: no head can be trained")
    return pair


def new_head(model: PreTrainedModel, known: list[int], inner: int, seed: int) -> Eagle3Head:
    """A head for a target, its vocabulary `known`, its MLP `inner` wide.

    The output matrix and the last norm are the target's, the state starts as the deepest of the three features, and the
    layer as the target's last, where the shapes allow: training then has less to find out.
    """
    config: Any = model.config.get_text_config()
    heads = config.num_attention_heads
    rope = getattr(config, "rope_parameters", None) or {}
    shape = HeadShape(
        hidden=config.hidden_size,
        features=3 * config.hidden_size,
        inner=inner,
        heads=heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        vocab=config.vocab_size,
        draft_vocab=len(known),
        eps=config.rms_norm_eps,
        rope_theta=float(rope.get("rope_theta", 10_000.0)),
        rope_factor=1.0,
    )
    torch.manual_seed(seed)
    head = Eagle3Head(shape)
    tokens = torch.tensor(known)
    source = {name: tensor.float() for name, tensor in model.state_dict().items()}
    last = f"layers.{config.num_hidden_layers - 1}."
    parts = {name.split(last, 1)[1]: tensor for name, tensor in source.items() if last in name}
    with torch.no_grad():
        head.lm_head.weight.copy_(embedding_pair(model)[1].weight[tokens].float())
        head.fc.weight.zero_()
        head.fc.weight[:, -shape.hidden :] = torch.eye(shape.hidden)
        norm = next((tensor for name, tensor in source.items() if name.endswith("model.norm.weight")), None)
        if norm is not None:
            head.norm.weight.copy_(norm)
        for name, weight in head.midlayer.named_parameters():
            given = parts.get(name)
            if given is None:
                continue
            if given.shape == weight.shape:
                weight.copy_(given)
            elif given.ndim == 2 and given.shape[0] == weight.shape[0] and 2 * given.shape[1] == weight.shape[1]:
                weight[:, given.shape[1] :] = given  # attention: embedding, then state
    if len(known) != shape.vocab:
        head.d2t.copy_(tokens - torch.arange(len(known)))
        head.t2d[tokens] = True
    return head
