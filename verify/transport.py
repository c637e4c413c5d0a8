"""How much acceptance is possible: optimal transport at one node, and methods compared over whole trees.

A lossless rule, however it works, emits a token of law p beside a random set of candidates, and accepts when
the token is in the set. So its acceptance is at most the largest P(token in set) over all couplings of the
two: a maximum flow. Everything here is exact in Fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import networkx as nx
import numpy as np

from reference.distributions import Array, Number
from reference.growth import ROOT, TreeGrowth, place
from reference.methods import Method
from reference.rules import Rule, TreeRule
from reference.slots import SlotPlan, drawn_slots, leading_slots
from reference.tree import Tree
from reference.truncation import truncate
from rheo.config import Config
from verify.cases import Case
from verify.laws import exact_law, exact_stops

WeightedTrees = Iterable[tuple[Number, Tree]]  # probabilities that sum to 1, and what was grown
CandidateSets = Mapping[frozenset[int], Number]  # tokens of a node's surviving children -> probability


def slot_plan(draft_weights: Array, config: Config, method: Method) -> SlotPlan:
    """What the method proposes under a node with untempered draft weights [vocab]. ValueError if it has no slots."""
    if isinstance(method.growth, TreeGrowth):
        raise ValueError("this growth has no slots")
    return method.growth(truncate(draft_weights, config.support), config)


def node_trees(plan: SlotPlan, fillers: Sequence[int] | None = None) -> list[tuple[Number, Tree]]:
    """A single expanded root, once for every token its probe can be, with the probability of that token.

    fillers: how many fillers survive beside the i-th token of the tail, for each i; None keeps every slot.
    ValueError if their number is not that of the tail.
    """
    if plan.proxy is None:
        return [(1, Tree(tuple(place(ROOT, leading_slots(plan))), {(): plan}))]
    room = [plan.slots] * len(plan.tail) if fillers is None else fillers
    trees = []
    for probe, (mass, kept) in enumerate(zip(plan.tail_law, room, strict=True)):
        if mass > 0:
            slots = leading_slots(plan) + drawn_slots(plan, probe)[: 1 + kept]
            trees.append((mass, Tree(tuple(place(ROOT, slots)), {(): plan})))
    return trees


def root_acceptance(p: Array, trees: WeightedTrees, rule: Rule | TreeRule) -> Number:
    """Probability that the rule accepts a child of the root, where the target's distribution is p [vocab].

    Of trees with deeper nodes only the root's children count, so of a rule for the whole tree this is what it would do
    without the others.
    """
    stops_at = exact_stops(lambda _: p, rule)
    total: Number = 0
    for mass, tree in trees:
        law = stops_at(Tree(tree.children(()), tree.plans))
        total += mass * sum(probability for tokens, probability in law.items() if len(tokens) > 1)
    return total


def node_acceptance(
    p: Array, draft_weights: Array, config: Config, method: Method, fillers: Sequence[int] | None = None
) -> Number:
    """Probability that a method accepts at one node, averaged over its probe.

    p: target distribution [vocab], after temperature. draft_weights: [vocab], untempered.
    fillers: as in `node_trees`; None when every slot survives.
    """
    return root_acceptance(p, node_trees(slot_plan(draft_weights, config, method), fillers), method.rule)


def bound(p: Array, plan: SlotPlan) -> Number:
    """The best acceptance of any lossless rule at a node whose slots all survive, in closed form; p [vocab].

    Anchors and the L leading tail tokens are candidates whatever the probe is: all their mass can be
    accepted. Any other tail token comes only with its own probe; but the next one, y_{L+1}, also takes the
    place of a filler that became the probe, so it comes with each of the first L + 1 probes.
    Without a tail the anchors are left; with at most L + 1 tail tokens the whole support is always proposed.
    """
    anchors: Number = p[plan.anchors].sum()
    if plan.proxy is None:
        return anchors
    fillers = plan.slots - len(plan.anchors) - 1
    tail = p[plan.tail]
    offered = plan.tail_law[fillers:].copy()
    offered[:1] = plan.tail_law[: fillers + 1].sum()
    beside: Number = tail[:fillers].sum() + np.minimum(tail[fillers:], offered).sum()
    return anchors + beside


def candidate_sets(trees: WeightedTrees) -> CandidateSets:
    """The law of the root's candidate set: of one node's trees, or of the classes of a whole round."""
    sets: dict[frozenset[int], Number] = {}
    for mass, tree in trees:
        tokens = frozenset(node.token for node in tree.children(()))
        sets[tokens] = sets.get(tokens, 0) + mass
    return sets


def min_cut(p: Array, sets: CandidateSets) -> Fraction:
    """The largest P(token in set) over all couplings of a token of law p [vocab] with a set of the given law.

    The maximum flow from sets to their tokens. Capacities are scaled to integers: the solver rounds nothing.
    Fractions only: floats are taken at face value, and their denominators make the integers huge.
    """
    supply = {tokens: Fraction(mass) for tokens, mass in sets.items()}
    demand = [Fraction(mass) for mass in p]
    scale = lcm(*(mass.denominator for mass in (*supply.values(), *demand)))
    network: nx.DiGraph[object] = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    for tokens, mass in supply.items():
        network.add_edge("source", tokens, capacity=int(mass * scale))
        network.add_edges_from((tokens, token) for token in tokens)  # no capacity given: unlimited
    for token, mass in enumerate(demand):
        network.add_edge(token, "sink", capacity=int(mass * scale))
    return Fraction(int(nx.maximum_flow_value(network, "source", "sink")), scale)


@dataclass(frozen=True)
class Tally:
    """How one method fares against another over a collection of cases.

    greatest_gain, greatest_loss: the largest lead of the first and of the second, 0 where one never leads.
    mean: average lead of the first. worst: name of the case of the greatest loss, None if there is no loss.
    """

    wins: int
    losses: int
    ties: int
    greatest_gain: Number
    greatest_loss: Number
    mean: Number
    worst: str | None


def tally(leads: Iterable[tuple[str, Number]]) -> Tally:
    """Count named leads: first method minus second. ValueError if there are none."""
    named = list(leads)
    if not named:
        raise ValueError("nothing to compare")
    values = [lead for _, lead in named]
    worst, least = min(named, key=lambda item: item[1])
    return Tally(
        wins=sum(lead > 0 for lead in values),
        losses=sum(lead < 0 for lead in values),
        ties=sum(lead == 0 for lead in values),
        greatest_gain=max(0, *values),
        greatest_loss=max(0, -least),
        mean=sum(values) / Fraction(len(values)),
        worst=worst if least < 0 else None,
    )


def compare(cases: Iterable[Case], first: Method, second: Method) -> Tally:
    """Expected accepted drafts of one round, first method against second, over whole trees and exactly.

    ValueError naming a case whose temperature makes its law irrational.
    """

    def lead(case: Case) -> Number:
        if not case.rational:
            raise ValueError(f"{case.name}: temperature {case.config.temperature} is irrational")
        return exact_law(case, first)[0].accepted - exact_law(case, second)[0].accepted

    return tally((case.name, lead(case)) for case in cases)
