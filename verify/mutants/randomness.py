"""Mutants that use random numbers twice, share them, or spoil them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rheo.config import Config
from rheo.uniforms import Uniforms, draw_uniforms
from verify.mutants.mutant import Mutant, with_uniforms


def _first_probes(config: Config, uniforms: Uniforms) -> Tensor:
    """The probe uniforms [N, D] of the best node at each depth."""
    return uniforms.probe[:, [config.expansion(depth, 0) for depth in range(config.depth)]]


def _probe_as_draw(config: Config, uniforms: Uniforms) -> Uniforms:
    return replace(uniforms, draw=torch.cat([_first_probes(config, uniforms), uniforms.draw[:, -1:]], 1))


def _coin_as_draw(config: Config, uniforms: Uniforms) -> Uniforms:
    return replace(uniforms, draw=torch.cat([uniforms.coin, uniforms.draw[:, -1:]], 1))


def _never_refreshed(config: Config, seeds: Sequence[int], index: int) -> Uniforms:
    return draw_uniforms(config, seeds, 0)


def _one_stream(config: Config, seeds: Sequence[int], index: int) -> Uniforms:
    return draw_uniforms(config, np.full(len(seeds), seeds[0], dtype=np.uint64), index)


def _stream_of_two(config: Config, seeds: Sequence[int], index: int) -> Uniforms:
    """Both rows of a pair take the same numbers, so they stay together from round to round."""
    return draw_uniforms(config, np.asarray(seeds, dtype=np.uint64)[np.arange(len(seeds)) // 2 * 2], index)


MUTANTS = (
    Mutant(
        "coin_stuck_at_zero",
        "every coin is 0, so a probe is accepted wherever p allows it",
        "a uniform divided as an integer, or a buffer of coins that was never filled",
        play=with_uniforms(lambda _, u: replace(u, coin=torch.zeros_like(u.coin))),
    ),
    Mutant(
        "coin_rounded_to_one",
        "every coin is rounded up to 1, so only a probe with p > q~ is accepted",
        "a generator, or a cast to half precision, that returns 1",
        play=with_uniforms(lambda _, u: replace(u, coin=u.coin.ceil())),
    ),
    Mutant(
        "one_coin_a_round",
        "the root's coin is used at every depth",
        "acceptance noise drawn with one dimension too few",
        play=with_uniforms(lambda _, u: replace(u, coin=u.coin[:, :1].expand_as(u.coin))),
    ),
    Mutant(
        "one_draw_a_round",
        "the root's final draw is used at every depth",
        "residual and bonus sampled from one generator state",
        play=with_uniforms(lambda _, u: replace(u, draw=u.draw[:, :1].expand_as(u.draw))),
    ),
    Mutant(
        "one_probe_draw_a_round",
        "the root's probe uniform is used at every expansion",
        "the draft's generator is seeded anew at every step of a round",
        play=with_uniforms(lambda _, u: replace(u, probe=u.probe[:, :1].expand_as(u.probe))),
    ),
    Mutant(
        "draft_noise_as_coin",
        "the uniform that drew the probe also tests it",
        "the draft's noise reused for the acceptance",
        play=with_uniforms(lambda config, u: replace(u, coin=_first_probes(config, u))),
    ),
    Mutant(
        "draft_noise_as_draw",
        "the uniform that drew the probe also draws from the residual",
        "the draft's noise reused for the residual",
        play=with_uniforms(_probe_as_draw),
    ),
    Mutant(
        "coin_as_draw",
        "the coin that rejected the probe also draws from the residual",
        "one uniform a position, for acceptance and for what comes behind it",
        play=with_uniforms(_coin_as_draw),
    ),
    Mutant(
        "never_refreshed",
        "every round of a request plays with the numbers of its first",
        "randomness drawn once per prompt and never refreshed",
        draw=_never_refreshed,
    ),
    Mutant(
        "rows_share_a_stream",
        "all rows of a batch play with the first row's numbers",
        "one generator, copied to every request of a batch",
        draw=_one_stream,
    ),
    Mutant(
        "neighbours_share_a_stream",
        "every second row plays with its neighbour's numbers; each row alone is right",
        "a batch index divided before it becomes a seed",
        draw=_stream_of_two,
    ),
)
