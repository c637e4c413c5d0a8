"""A request of a batch is played as if it were alone, bit by bit: in any company, in any row, behind any padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from properties.strategies import Request
from rheo.decoding import Decoded, Models, Sampler, decode, play_round
from rheo.tree import Path, Tree
from rheo.uniforms import Uniforms, draw_uniforms


def rounds_do_not_see_their_batch(sampler: Sampler, models: Models, requests: Sequence[Request]) -> None:
    """One round of every request gives the tree and the path that it gives alone."""
    tree, path = _round(sampler, models, requests)
    for row, request in enumerate(requests):
        own_tree, own_path = _round(sampler, models, [request])
        for name, tensor in _tensors(tree).items():
            assert torch.equal(tensor[row], _tensors(own_tree)[name][0]), (row, name)
        for name, tensor in _tensors(path).items():
            assert torch.equal(tensor[row], _tensors(own_path)[name][0]), (row, name)


def decoding_does_not_see_padding(
    sampler: Sampler, models: Models, requests: Sequence[Request], rounds: int, extra: int, junk: int
) -> None:
    """Several rounds of every request give what they give alone; contexts are padded with junk, `extra` at least."""
    together = _decoded(sampler, models, requests, rounds, extra, junk)
    for row, request in enumerate(requests):
        alone = _decoded(sampler, models, [request], rounds, extra=0, junk=-1)
        length = int(alone.lengths[0])
        assert int(together.lengths[row]) == length
        assert torch.equal(together.tokens[row, :length], alone.tokens[0, :length])
        assert (together.tokens[row, length:] == -1).all()
        assert torch.equal(together.rounds[row], alone.rounds[0])


def _round(sampler: Sampler, models: Models, requests: Sequence[Request]) -> tuple[Tree, Path]:
    contexts, lengths = _padded(requests, extra=0, junk=-1)
    return play_round(sampler, models(contexts, lengths), draw_uniforms(sampler.config, _seeds(requests)))


def _tensors(record: Tree | Path) -> dict[str, Tensor]:
    return {name: value for name, value in vars(record).items() if isinstance(value, Tensor)}


def _decoded(
    sampler: Sampler, models: Models, requests: Sequence[Request], rounds: int, extra: int, junk: int
) -> Decoded:
    contexts, lengths = _padded(requests, extra, junk)

    def uniforms(index: int) -> Uniforms:
        return draw_uniforms(sampler.config, _seeds(requests), index)

    return decode(sampler, models, contexts, lengths, rounds, uniforms)


def _seeds(requests: Sequence[Request]) -> list[int]:
    return [request.seed for request in requests]


def _padded(requests: Sequence[Request], extra: int, junk: int) -> tuple[Tensor, Tensor]:
    """Contexts int64 [N, L], junk behind each, and their lengths [N]."""
    lengths = torch.tensor([len(request.context) for request in requests])
    contexts = torch.full((len(requests), int(lengths.max()) + extra), junk)
    for row, request in enumerate(requests):
        contexts[row, : len(request.context)] = torch.tensor(request.context, dtype=torch.int64)
    return contexts, lengths
