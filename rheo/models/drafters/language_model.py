"""A causal language model with the target's tokenizer as drafter: a smaller one, or the target without some layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rheo.models.cache import drop, empty, keep, select
from rheo.models.causal import forward, require_tree_attention
from rheo.models.tree_attention import Block, align_right, chain_block, from_first, next_block
from rheo.tree import Frontier, Path, Tree

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LanguageModel:
    """Any model that can read a tree. ModelError as `require_tree_attention`."""

    layers: tuple[int, ...] = ()

    def __init__(self, model: PreTrainedModel) -> None:
        require_tree_attention(model)
        self.model = model

    def start(self, contexts: Tensor, lengths: Tensor, features: Tensor) -> LanguageModelDrafting:  # noqa: ARG002
        """All tokens are pending: the first draft reads them."""
        return LanguageModelDrafting(self.model, align_right(contexts, lengths, contexts.shape[1]), lengths)


class LanguageModelDrafting:
    """The model at N contexts, of which the last `counts` [N] tokens, right-aligned in `pending`, are not read yet.

    During a round its cache grows by the pending tokens and by every frontier.
    """

    block: Block  # of the round

    def __init__(self, model: PreTrainedModel, pending: Tensor, counts: Tensor) -> None:
        self.model = model
        self.cache = empty(len(pending), pending.device)
        self.pending = pending
        self.counts = counts

    @torch.inference_mode()
    def draft(self, frontier: Frontier) -> Tensor:
        """Logits [N, b, V]; the pending tokens are read with the root, which is their last."""
        if frontier.previous is None:
            drop(self.cache)
            tokens = self.pending
            self.block = chain_block(self.cache.lengths, self.counts, tokens.shape[1])
        else:
            tokens = frontier.tokens
            self.block = next_block(self.block, frontier)
        # What stands in for padding, or the target knows and this model does not, is any token.
        tokens = tokens.clamp(0, self.model.config.get_text_config().vocab_size - 1)
        return forward(self.model, self.cache, tokens, self.block, last=frontier.tokens.shape[1]).logits

    @torch.inference_mode()
    def accept(self, tree: Tree, path: Path, features: Tensor) -> None:  # noqa: ARG002
        """Keep what was pending and those accepted nodes that were expanded: all, but for the last perhaps."""
        width, device = self.pending.shape[1], self.pending.device
        expansion = tree.expansion.gather(1, path.rows.clamp(min=0))
        read = ((path.rows >= 0) & (expansion >= 0)).sum(-1)
        pending = torch.arange(width, device=device).expand(len(expansion), -1)
        # Expansion 0 is the root, the last pending column; the others follow in the order in which they were fed.
        columns = from_first(torch.cat([pending, expansion + width - 1], 1), self.counts, width)
        self.cache = keep(self.cache, columns, self.counts + read)
        self.pending, self.counts = align_right(path.tokens, path.lengths, 2), path.lengths - read

    @torch.inference_mode()
    def select(self, requests: Tensor) -> None:
        """Go on with those requests int64 [n] alone."""
        self.cache = select(self.cache, requests)
        self.pending, self.counts = self.pending[requests], self.counts[requests]
