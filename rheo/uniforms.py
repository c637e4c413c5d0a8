"""Every random number of a round, drawn before it: one row a request, independent of the rest of the batch.

Source of the counter-based streams: Philox (Salmon et al., 2011), as NumPy implements it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rheo import philox
from rheo.config import Config

# From so many requests on, the blockwise generator is faster than one object a request.
_MANY = 256


@dataclass(frozen=True)
class Uniforms:
    """float64 in [0, 1) for N requests.

    probe: [N, config.draws], growth's: the root's, then those of the nodes expanded at each depth, best first; a tree
    of fixed shape takes one a drafted node instead, in the order of its shape.
    coin: [N, D] and draw: [N, D + 1]: of the node at each depth of the path.
    """

    probe: Tensor
    coin: Tensor
    draw: Tensor


def draw_uniforms(
    config: Config, seeds: Sequence[int] | NDArray[np.uint64], index: int = 0, device: torch.device | str = "cpu"
) -> Uniforms:
    """The uniforms of round `index` of requests with these seeds (64 bits), from Philox streams keyed by both.

    A request's numbers depend on its own seed and round alone. ValueError for no seeds, or a seed or round outside
    0..2**64 - 1.
    """
    if not len(seeds):
        raise ValueError("there are no seeds, so no requests")
    for name, values in (("round", [index]), ("seed", seeds)):
        for value in (min(values), max(values)):
            if not 0 <= value < 1 << 64:
                raise ValueError(f"{name} {value} does not fit into 64 bits")
    # The dtype is said at once: mixed Python integers would go through floats, and large seeds would collide.
    first, second = np.array(seeds, dtype=np.uint64), np.full(len(seeds), index, dtype=np.uint64)
    if len(seeds) < _MANY:
        keys = np.stack([first, second], 1)
        rows = np.stack([np.random.Generator(np.random.Philox(key=key)).random(config.decisions) for key in keys])
    else:
        rows = philox.uniforms(first, second, config.decisions)
    return split_uniforms(config, torch.from_numpy(rows).to(device, non_blocking=True))


def split_uniforms(config: Config, numbers: Tensor) -> Uniforms:
    """Uniforms from one float64 tensor [N, config.decisions]: probes, coins, draws; then growth's, if it may read more
    than one an expansion."""
    more = config.draws - config.expansions
    probe, coin, draw, rest = torch.split(numbers, [config.expansions, config.depth, config.depth + 1, more], dim=-1)
    return Uniforms(torch.cat([probe, rest], -1) if more else probe, coin, draw)
