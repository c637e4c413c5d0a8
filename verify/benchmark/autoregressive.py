"""Autoregressive decoding in the loop of the others: a round is one token, drawn as verification draws."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rheo.decoding import Pair, Sampler
from rheo.distributions import inverse_cdf, softmax, unusable
from rheo.processors import temperature
from rheo.tree import Frontier, Path, Tree
from rheo.truncation import widened
from rheo.uniforms import Uniforms


class NoDrafter:
    """Drafts nothing and reads nothing."""

    layers: tuple[int, ...] = ()

    def start(self, contexts: Tensor, lengths: Tensor, features: Tensor) -> NoDrafter:  # noqa: ARG002
        return self

    def draft(self, frontier: Frontier) -> Tensor:  # noqa: ARG002
        raise AssertionError("nothing is drafted")

    def accept(self, tree: Tree, path: Path, features: Tensor) -> None:
        pass

    def select(self, requests: Tensor) -> None:
        pass


@torch.inference_mode()
def play_token(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
    """One target forward over the newest token and nothing else, one draw. ValueError for unusable logits."""
    place = torch.zeros(len(uniforms.draw), 1, dtype=torch.int64, device=uniforms.draw.device)
    nothing = _tree_of(place, occupied=place > 0)
    logits = pair.target(replace(nothing, tokens=place[:, :0], parents=place[:, :0], depths=place[:, :0]))[:, 0]
    weights = softmax(temperature(sampler.config.temperature)(widened(logits)))
    if bool(unusable(logits.amax(-1)).any()):
        raise ValueError("target logits: NaN, +inf or all -inf")
    token = inverse_cdf(weights, uniforms.draw[:, 0]).unsqueeze(-1)
    return nothing, Path(token, torch.full_like(token, -1), torch.ones_like(token[:, 0]))


def _tree_of(place: Tensor, occupied: Tensor) -> Tree:
    """A tree of one place [N, 1] that nothing stands in: a round's record wants one."""
    n, empty = len(place), place.new_zeros(len(place), 1, 0)
    return Tree(
        tokens=place,
        depths=place,
        slots=place,
        parents=place,
        occupied=occupied,
        scores=place.double(),
        expansion=place.new_full((n, 2), -1),
        anchors=0,
        support=empty,
        tail_law=empty.double(),
        fault=occupied[:, :1],
    )
