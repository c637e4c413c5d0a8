"""A chain: one token after the other, each drawn from q_T. Of the configuration it reads depth, support, temperature.

Source: speculative sampling (Leviathan et al., 2023; Chen et al., 2023). It is the paper's growth with one slot a
parent and no anchors, so that slot is the probe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference import growth
from reference.choose import Choose
from reference.growth import DraftAt
from reference.growths import rheo
from reference.tree import Tree
from rheo.config import Config


@dataclass(frozen=True)
class Chain:
    """`depth` nodes under one another."""

    def grow(self, draft_at: DraftAt, config: Config, choose: Choose) -> Tree:
        """The chain of one round; shorter only where the draft has no token."""
        return growth.grow(draft_at, narrowed(config), rheo.plan, choose)


def narrowed(config: Config) -> Config:
    """The configuration under which the paper's growth is a chain."""
    return replace(config, anchors=0, slots=1, beam=1, budget=config.depth)
