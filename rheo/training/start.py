"""A head before its first step, and its vocabulary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rheo.models.drafters.eagle3 import require_pair
from rheo.models.drafters.eagle3_files import load_head
from rheo.models.drafters.eagle3_head import Eagle3Head, HeadShape
from rheo.models.smollm2 import ModelError
from rheo.training.text import read_one

if TYPE_CHECKING:
    from transformers import PreTrainedModel

VOCABULARY = 16_384
_LOOKED_AT = 20_000  # tokens of a shard
_UNSURE = 0.25


def tokens_seen(paths: list[Path]) -> Counter[int]:
    """How often each token stands in the shards."""
    seen: Counter[int] = Counter()
    for path in paths:
        seen.update(read_one(path, "tokens").tolist())
    return seen


def vocabulary(seen: Counter[int], size: int, vocab: int) -> list[int]:
    """The `size` tokens seen most often, ascending; lower ids come first among equals. vocab: those of the target."""
    return sorted(sorted(range(vocab), key=lambda token: (-seen[token], token))[:size])


def share_of(seen: Counter[int], known: list[int]) -> float:
    """Of all that was seen, what a vocabulary covers."""
    return sum(seen[token] for token in known) / max(1, seen.total())


def embedding_pair(model: PreTrainedModel) -> tuple[nn.Linear, nn.Linear]:
    """A target's input embeddings and output matrix; ModelError where either is not a plain matrix."""
    found: Any = model
    pair = found.get_input_embeddings(), found.get_output_embeddings()
    if not all(isinstance(getattr(part, "weight", None), Tensor) for part in pair):
        raise ModelError(f"{type(model).__name__} has no plain embeddings: no head can be trained")
    return pair


def feature_scale(path: Path) -> Tensor:
    """A width [F] of every feature, from a shard: few are very large, so its size in the middle, as a normal law's."""
    sizes = read_one(path, "features")[:_LOOKED_AT].float().abs().median(0).values
    return (1.4826 * sizes).clamp(min=1e-3)


def new_head(
    model: PreTrainedModel, known: list[int], inner: int, heads: tuple[int, int], scale: Tensor, seed: int
) -> Eagle3Head:
    """A head for a target, its vocabulary `known`, its MLP `inner` wide, with heads for queries and for keys.

    The output matrix is the target's, and so is the last norm but for a factor, so that it begins unsure. All else is
    drawn: states of unit size from features of size `scale`. A layer of the target's would only learn more slowly, for
    it predicts a token that the head is given.
    """
    config: Any = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    shape = HeadShape(
        hidden=config.hidden_size,
        features=3 * config.hidden_size,
        inner=inner,
        heads=heads[0],
        kv_heads=heads[1],
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        vocab=config.vocab_size,
        draft_vocab=len(known),
        eps=config.rms_norm_eps,
        rope_theta=float(rope.get("rope_theta", 10_000.0)),
        rope_factor=1.0,
    )
    torch.manual_seed(seed)
    head = Eagle3Head(shape)
    tokens = torch.tensor(known)
    norm = next((each for name, each in model.state_dict().items() if name.endswith("model.norm.weight")), None)
    with torch.no_grad():
        for name, weight in head.named_parameters():
            if weight.ndim > 1:
                adds = name.endswith(("o_proj.weight", "down_proj.weight"))  # to the state
                weight.normal_(0, (0.5 if adds else 1.0) * weight.shape[1] ** -0.5)
        head.lm_head.weight.copy_(embedding_pair(model)[1].weight[tokens].float())
        head.norm.weight.copy_(_UNSURE * (head.norm.weight if norm is None else norm.float()))
        head.fc.weight /= scale
    if len(known) != shape.vocab:
        head.d2t.copy_(tokens - torch.arange(len(known)))
        head.t2d[tokens] = True
    return head


def head_to_go_on(source: str, model: PreTrainedModel) -> Eagle3Head:
    """A trained head of this target, its numbers in float32 and free to learn; ModelError if there is none."""
    head = load_head(source)
    require_pair(head, model)
    if head.embed_tokens is not None:
        raise ModelError(f"{source}: brings embeddings of its own; only a head that reads the target's can be trained")
    return head.requires_grad_()
