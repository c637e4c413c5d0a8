"""Trees whose shape is settled before anything is drawn: every node's children are drawn from q_T.

Whatever a sibling turned out to be, the children of a node are there and as many. So a node's children may be drawn
as late as verification comes by, and the law of a round is composed from node to node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reference.choose import Choose, Site
from reference.distributions import Array, normalise, temper
from reference.growth import ROOT, DraftAt
from reference.tree import Node, SlotPath, Tokens, Tree
from reference.truncation import truncate
from rheo.config import Config
from rheo.shapes import Shape, families

Drawn = list[tuple[int, Array]]  # tokens, each with the law [vocab] it was drawn from given those before it
Draw = Callable[[Array, Sequence[Site], Choose], Drawn]  # q_T [vocab], where each is drawn


def with_replacement(law: Array, sites: Sequence[Site], choose: Choose) -> Drawn:
    """Independent draws, which may repeat a token."""
    return [(choose(law, site), law) for site in sites]


def without_replacement(law: Array, sites: Sequence[Site], choose: Choose) -> Drawn:
    """Each from what the earlier ones left of the law; fewer than asked for where nothing is left."""
    drawn: Drawn = []
    for site in sites:
        if not law.sum() > 0:
            break
        law = normalise(law)
        token = choose(law, site)
        drawn.append((token, law))
        law = law.copy()
        law[token] = 0 * law[token]
    return drawn


@dataclass(frozen=True)
class Static:
    """A shape, and how the children of a node are drawn."""

    shape: Callable[[Config], Shape]
    draw: Draw

    def grow(self, draft_at: DraftAt, config: Config, choose: Choose) -> Tree:
        """The draft tree of one round, drawn in the order of the shape; a node that cannot be drawn has no children."""
        nodes: dict[SlotPath, Node] = {(): ROOT}
        laws: dict[SlotPath, Array] = {}
        for parent, family in families(self.shape(config)).items():
            if parent in nodes:
                drawn = self.children(draft_at, config, parent, nodes[parent].tokens, family, choose)
                nodes.update((node.path, node) for node in drawn.nodes)
                laws.update(drawn.laws)
        return Tree(tuple(nodes.values())[1:], {}, laws)

    def children(
        self, draft_at: DraftAt, config: Config, path: SlotPath, tokens: Tokens, family: range, choose: Choose
    ) -> Tree:
        """The children of one node alone; family: their places in the shape, which number the decisions."""
        law = proposal(draft_at(tokens), config)
        drawn = self.draw(law, [Site("node", 0, place) for place in family], choose)
        nodes = [Node((*path, slot), (*tokens, token), "draw", 1) for slot, (token, _) in enumerate(drawn)]
        return Tree(tuple(nodes), {}, {node.path: law for node, (_, law) in zip(nodes, drawn, strict=True)})


def proposal(weights: Array, config: Config) -> Array:
    """q_T [vocab]: the truncated draft at the sampling temperature."""
    draft = truncate(weights, config.support)
    law = 0 * weights
    law[draft.tokens] = temper(draft.q, config.temperature)
    return law
