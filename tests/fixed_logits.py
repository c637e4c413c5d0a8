"""Rounds of the torch sampler on logits that are fixed before."""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.config import Config
from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.tree import Frontier, Tree

CONFIG = Config(anchors=1, slots=4, beam=3, depth=3, budget=12, support=16)
VOCAB = 50


class FixedLogits:
    """The same logits at every node of a depth; row i of the batch is request i."""

    def __init__(self, draft: Tensor, target: Tensor) -> None:
        self.rows, self.all = draft, target

    def draft(self, frontier: Frontier) -> Tensor:
        return self.rows[:, frontier.depth, : frontier.tokens.shape[1]]

    def target(self, tree: Tree) -> Tensor:
        return self.all[:, : tree.tokens.shape[1] + 1]


def logits_for(
    seeds: list[int], config: Config = CONFIG, dtype: torch.dtype = torch.float32, vocab: int = VOCAB
) -> FixedLogits:
    drafts, targets = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        drafts.append(torch.randn(config.depth, config.beam, vocab, generator=generator) * 2)
        targets.append(torch.randn(config.budget + 1, vocab, generator=generator) * 2)
    return FixedLogits(torch.stack(drafts).to(dtype), torch.stack(targets).to(dtype))


def sampler(method: str = "rheo", config: Config = CONFIG) -> Sampler:
    return Sampler(config, METHODS[method])
