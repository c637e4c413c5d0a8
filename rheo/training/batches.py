"""Shards as batches of padded texts, in an order that the seed and the epoch decide."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rheo.training.text import Shard, load_shard, text_lengths
from rheo.training.unrolled import Texts

Batch = tuple[Path, list[int]]  # a shard, and which of its texts


def epoch(paths: list[Path], size: int, seed: int, number: int) -> list[Batch]:
    """Every text of the shards once, in batches of about `size` tokens of texts about as long as each other.

    Batches of one shard come together, so that one shard at a time is read.
    """
    choose = random.Random(f"{seed} {number}")
    batches: list[Batch] = []
    for path in choose.sample(paths, len(paths)):
        groups = _groups(text_lengths(path), size)
        batches += [(path, group) for group in choose.sample(groups, len(groups))]
    return batches


def read(batches: Iterable[Batch], opening: int) -> Iterator[Texts]:
    """The texts of the batches. opening: tokens at the start of every text that teach nothing: all texts share them."""
    for path, together in groupby(batches, key=itemgetter(0)):
        shard = load_shard(path)
        for _, chosen in together:
            yield texts_of(shard, chosen, opening)


def texts_of(shard: Shard, chosen: list[int], opening: int) -> Texts:
    """Some of a shard's texts, of which all but the opening is learned."""
    spans = [slice(int(shard.starts[i]), int(shard.starts[i + 1])) for i in chosen]
    tokens, features, states = (
        [rows[span] for span in spans] for rows in (shard.tokens.long(), shard.features, shard.states)
    )
    return padded_texts(tokens, [torch.arange(len(row)) >= opening for row in tokens], features, states)


def padded_texts(tokens: list[Tensor], learned: list[Tensor], features: list[Tensor], states: list[Tensor]) -> Texts:
    """Texts one by one, padded on the right to the longest; padding is not learned."""
    columns = (pad_sequence(rows, batch_first=True) for rows in (tokens, learned, features, states))
    return Texts(*columns)


def _groups(lengths: list[int], size: int) -> list[list[int]]:
    """Texts by length, cut where a batch padded to its longest would exceed `size` tokens."""
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not groups or (len(groups[-1]) + 1) * lengths[i] > size:
            groups.append([])
        groups[-1].append(i)
    return groups
