"""The target at the contexts of several requests: one forward a round, over the newest token and the drafted tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rheo.models.cache import drop, empty, keep, select
from rheo.models.causal import forward, require_tree_attention
from rheo.models.tree_attention import align_right, chain_block, from_first, take, tree_block
from rheo.tree import Path, Tree

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Target:
    """A causal language model with a cache of all context tokens but the newest, which goes first in the next forward.

    features: [N, w, F], right-aligned, the inputs of `layers` at the tokens that joined the cache last: all of the
    context but the newest at the start, later the newest of before and the accepted ones. For a drafter. Between
    `logits` and `accept`: those at all rows of the tree.
    """

    @torch.inference_mode()
    def __init__(self, model: PreTrainedModel, contexts: Tensor, lengths: Tensor, layers: tuple[int, ...] = ()) -> None:
        """Reads contexts int64 [N, L] of `lengths` [N] >= 1 in one forward. ModelError as `require_tree_attention`."""
        require_tree_attention(model)
        self.model = model
        self.layers = layers
        self.newest = align_right(contexts, lengths, 1)
        self.cache = empty(len(contexts), contexts.device)
        width, counts = contexts.shape[1] - 1, lengths - 1
        self.features = torch.empty(len(contexts), 0, 0, device=contexts.device)
        if width:
            tokens = align_right(contexts, counts, width).clamp(min=0)
            block = chain_block(self.cache.lengths, counts, width)
            self.features = forward(model, self.cache, tokens, block, last=1, layers=layers).features
            columns = torch.arange(width, device=contexts.device).expand_as(tokens)
            self.cache = keep(self.cache, from_first(columns, counts, width), counts)

    @torch.inference_mode()
    def logits(self, tree: Tree) -> Tensor:
        """Raw logits [N, R + 1, V] after the context and after every node."""
        drop(self.cache)
        tokens = torch.cat([self.newest, tree.tokens], 1)
        output = forward(self.model, self.cache, tokens, tree_block(self.cache.lengths, tree), layers=self.layers)
        self.features = output.features
        return output.logits

    @torch.inference_mode()
    def accept(self, path: Path) -> None:
        """Keep of the last tree what was accepted: the cache's columns, the features, and the newest token."""
        rows = torch.cat([torch.zeros_like(self.newest), path.rows[:, :-1].clamp(min=0)], 1)
        self.cache = keep(self.cache, rows, path.lengths)
        self.features = align_right(take(self.features, rows), path.lengths, int(path.lengths.max()))
        self.newest = align_right(path.tokens, path.lengths, 1)

    @torch.inference_mode()
    def select(self, requests: Tensor) -> None:
        """Go on with those requests int64 [n] alone."""
        self.cache = select(self.cache, requests)
        self.newest, self.features = self.newest[requests], self.features[requests]
