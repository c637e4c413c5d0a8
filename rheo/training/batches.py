"""Shards as batches of padded texts, in an order that the seed and the epoch decide."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rheo.training.text import Shard, load_shard
from rheo.training.unrolled import Texts


def epoch(paths: list[Path], size: int, opening: int, seed: int, number: int) -> Iterator[Texts]:
    """Every text of the shards once, in batches of about `size` tokens of texts about as long as each other.

    opening: tokens at the start of every text that teach nothing, since all texts share them.
    """
    choose = random.Random(f"{seed} {number}")
    for path in choose.sample(paths, len(paths)):
        shard = load_shard(path)
        groups = _groups((shard.starts[1:] - shard.starts[:-1]).tolist(), size)
        for group in choose.sample(groups, len(groups)):
            yield texts_of(shard, group, opening)


def texts_of(shard: Shard, chosen: list[int], opening: int) -> Texts:
    """Some of a shard's texts, padded to the longest."""
    spans = [slice(int(shard.starts[i]), int(shard.starts[i + 1])) for i in chosen]
    lengths = torch.tensor([span.stop - span.start for span in spans])

    def padded(rows: Tensor) -> Tensor:
        return pad_sequence([rows[span] for span in spans], batch_first=True)

    tokens = padded(shard.tokens.long())
    column = torch.arange(tokens.shape[1])
    # The last token's state is that of what follows it, which every text has.
    learned = (column < lengths.unsqueeze(-1)) & (column >= opening)
    return Texts(tokens, lengths, learned, padded(shard.features), padded(shard.states))


def _groups(lengths: list[int], size: int) -> list[list[int]]:
    """Texts by length, cut where a batch padded to its longest would exceed `size` tokens."""
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not groups or (len(groups[-1]) + 1) * lengths[i] > size:
            groups.append([])
        groups[-1].append(i)
    return groups
