"""A chain: one token after the other, each drawn from q_T. Of the configuration it reads depth, support, temperature.

Source: speculative sampling (Leviathan et al., 2023; Chen et al., 2023). It is the paper's growth with one slot a
parent and no anchors, so that slot is the probe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rheo import growth
from rheo.config import Config
from rheo.growth import Drafter
from rheo.growths import rheo
from rheo.tree import Tree


@dataclass(frozen=True)
class Chain:
    """`depth` nodes under one another."""

    def grow(self, drafter: Drafter, probe: Tensor, config: Config) -> Tree:
        """The chains of one round; each node reads the uniform of the best node of its parent's depth."""
        best = torch.cat([probe[:, :1], probe[:, 1 : config.expansions : config.beam]], 1)
        narrowed = replace(config, anchors=0, slots=1, beam=1, budget=config.depth)
        return growth.grow(drafter, best, narrowed, rheo.plan)
