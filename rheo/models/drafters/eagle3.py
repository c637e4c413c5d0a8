"""An EAGLE-3 head as drafter: one layer that reads the target's features and its own.

Source: EAGLE-3 (Li et al., 2025). A column of its cache stands for a pair: a token, and the state at the token before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from rheo.calibration import AnyCalibration
from rheo.models.cache import drop, empty, keep, select
from rheo.models.drafters.eagle3_head import Eagle3Head
from rheo.models.smollm2 import ModelError
from rheo.models.tree_attention import (
    Block,
    align_right,
    attention_mask,
    chain_block,
    from_first,
    next_block,
    take,
)
from rheo.tree import Frontier, Path, Tree

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def feature_layers(target: PreTrainedModel) -> tuple[int, ...]:
    """The layers whose inputs a head reads."""
    count = target.config.get_text_config().num_hidden_layers
    return 2, count // 2, count - 3


def _embeddings(head: Eagle3Head, target: PreTrainedModel) -> Tensor:
    """[V, d]: the head's own where it brings some, else the target's."""
    own: Any = target.get_input_embeddings() if head.embed_tokens is None else head.embed_tokens
    weight: Tensor = own.weight
    return weight


def require_pair(head: Eagle3Head, target: PreTrainedModel) -> None:
    """ModelError where the two do not fit: sizes, vocabulary, or a target with fewer layers than features need."""
    config, shape = target.config.get_text_config(), head.shape
    for name, needed, given in (
        ("features", shape.features // 3, config.hidden_size),
        ("embeddings", shape.hidden, _embeddings(head, target).shape[1]),
        ("a vocabulary", shape.vocab, config.vocab_size),
    ):
        if needed != given:
            raise ModelError(f"the EAGLE-3 head needs {name} of size {needed}, the target has {given}")
    if len(set(feature_layers(target))) < 3:
        count = config.num_hidden_layers
        raise ModelError(f"EAGLE-3 reads layers 2, L // 2 and L - 3: a target of {count} layers is too shallow")


class Eagle3:
    """A head, and the target whose features and embeddings it reads. calibration: what its slots are worth, if known.

    ModelError as `require_pair`.
    """

    def __init__(self, head: Eagle3Head, target: PreTrainedModel, calibration: AnyCalibration | None = None) -> None:
        self.head = head.to(target.device)
        self.calibration = calibration
        self.layers = feature_layers(target)
        self.embeddings = _embeddings(head, target).to(head.fc.weight.dtype)
        require_pair(head, target)

    def start(self, contexts: Tensor, lengths: Tensor, features: Tensor) -> Eagle3Drafting:
        """Every token but the first is pending, with the feature before it. ValueError for a context of one token."""
        if int(lengths.min()) < 2:
            raise ValueError("an EAGLE-3 head needs prompts of at least two tokens")
        tokens = align_right(contexts, lengths, contexts.shape[1] - 1)
        return Eagle3Drafting(self.head, self.embeddings, tokens, features, lengths - 1)


class Eagle3Drafting:
    """The head at N contexts, of which the last `counts` [N] pairs, right-aligned in `pending` and `features`, are new.

    Drafted pairs carry the head's own state in the place of a feature; none of them outlives the round.
    """

    block: Block  # of the round
    hidden: Tensor  # [N, b, d], the head's states at the last frontier

    def __init__(self, head: Eagle3Head, embeddings: Tensor, pending: Tensor, features: Tensor, counts: Tensor) -> None:
        self.head = head
        self.embeddings = embeddings
        self.cache = empty(len(pending), pending.device)
        self.pending = pending
        self.features = features
        self.counts = counts

    @torch.inference_mode()
    def draft(self, frontier: Frontier) -> Tensor:
        """Logits [N, b, V], -inf for what the head's vocabulary lacks."""
        if frontier.previous is None:
            drop(self.cache)
            tokens = self.pending.clamp(min=0)
            before = self.head.fc(self.features.to(self.embeddings.dtype))
            self.block = chain_block(self.cache.lengths, self.counts, tokens.shape[1])
        else:
            tokens = frontier.tokens
            before = take(self.hidden, frontier.parents)
            self.block = next_block(self.block, frontier)
        mask = attention_mask(self.cache.lengths, self.cache.width, self.block, before.dtype)
        positions = self.block.positions[:, -tokens.shape[1] :]
        hidden = self.head(functional.embedding(tokens, self.embeddings), before, positions, mask, self.cache.kv)
        self.hidden = hidden[:, -frontier.tokens.shape[1] :]
        return self.head.logits(self.hidden)

    @torch.inference_mode()
    def accept(self, tree: Tree, path: Path, features: Tensor) -> None:  # noqa: ARG002
        """Keep the pairs with the target's features; every emitted token is pending with its own."""
        columns = torch.arange(self.pending.shape[1], device=self.pending.device).expand_as(self.pending)
        self.cache = keep(self.cache, from_first(columns, self.counts, columns.shape[1]), self.counts)
        self.pending = align_right(path.tokens, path.lengths, features.shape[1])
        self.features, self.counts = features, path.lengths

    @torch.inference_mode()
    def select(self, requests: Tensor) -> None:
        """Go on with those requests int64 [n] alone."""
        self.cache = select(self.cache, requests)
        self.pending, self.features = self.pending[requests], self.features[requests]
        self.counts = self.counts[requests]
