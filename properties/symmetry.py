"""Names of tokens mean nothing: what happens when token t is called names[t] everywhere.

Ids enter in three places only. They sort tokens of equal q, and so decide which of them are anchors, fillers, or kept
by truncation; at T = 0 they choose among the likeliest tokens of p, and among those of q's tail. The total order of
nodes goes by slot positions and knows no ids. So:

- the output law is the target's, whatever q is. Its sequences are renamed and nothing else changes, unless T = 0 and
  several tokens of p are likeliest: then the target itself depends on ids (`ids_decide_the_target`).
- trees, with their probabilities, how many there are and what they accept, are renamed too where ids decide no slot
  (`ids_decide_slots`): for any q without ties, and for many with.

Everything is compared in Fractions.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from reference.distributions import Array, Number
from reference.methods import Method
from reference.slots import SlotPlan
from reference.tree import Tokens
from rheo.config import Config
from verify.cases import Case
from verify.classes import Shape, merged
from verify.laws import classes_of, draft_of, exact_law, sequences, target_of
from verify.toys import Table, Weights


def renamed(case: Case, names: Tokens) -> Case:
    """The case with every token t called names[t]; names: a permutation of the vocabulary."""

    def row(weights: Weights) -> Weights:
        return tuple(weights[names.index(token)] for token in range(len(names)))

    def table(old: Table) -> Table:
        return Table(row(old.default), {rename(prefix, names): row(w) for prefix, w in old.listed.items()})

    return replace(case, toy=replace(case.toy, target=table(case.toy.target), draft=table(case.toy.draft)))


def rename(tokens: Tokens, names: Tokens) -> Tokens:
    """A sequence of tokens by their new names."""
    return tuple(names[token] for token in tokens)


def ids_decide_the_target(case: Case) -> bool:
    """Whether T = 0 and p has several likeliest tokens somewhere in reach of one round."""
    if case.config.temperature > 0:
        return False
    prefixes = (p for length in range(case.config.depth + 1) for p in product(range(case.toy.vocab), repeat=length))
    return any(row.count(max(row)) > 1 for row in map(case.toy.target.weights, prefixes))


def ids_decide_slots(case: Case, method: Method) -> bool:
    """Whether equal q at a node that is expanded in some tree leaves it to ids which token gets which slot."""
    draft_at = draft_of(case)
    for outcome in classes_of(draft_at, case.config, method):
        tokens = {(): (), **{node.path: node.tokens for node in outcome.result.nodes}}
        for path, plan in outcome.result.plans.items():
            if _ids_decide(draft_at(tokens[path]), plan, case.config):
                return True
    return False


def _ids_decide(weights: Array, plan: SlotPlan, config: Config) -> bool:
    """Whether a slot boundary lies between two equal draft weights [vocab].

    Deterministic slots go to x_1, x_2, ... in their order, so no two neighbours among them, nor the last of them and
    the next, may be equal; a probe is drawn by weight from whatever is behind the anchors, and knows no order.
    """
    anchors, fillers = len(plan.anchors), plan.slots - len(plan.anchors) - 1
    ordered = anchors if plan.proxy is None or fillers == 0 else plan.slots
    edges = {*range(1, ordered + 1)}
    if config.support is not None:
        edges.add(config.support)
    if config.temperature == 0 and plan.proxy is not None:
        edges.add(anchors + 1)  # the probe is the tail's first maximum
    ranked = sorted(weights, reverse=True)
    return any(edge < len(ranked) and ranked[edge - 1] == ranked[edge] > 0 for edge in edges)


def output_law_is_renamed(case: Case, method: Method, names: Tokens) -> None:
    """The law of the first depth + 1 tokens. Holds unless `ids_decide_the_target`."""
    laws = []
    for variant in (case, renamed(case, names)):
        law, target_at = exact_law(variant, method)[0], target_of(variant)
        laws.append(dict(sequences(law, target_at, case.config.depth + 1, case.toy.vocab)))
    assert {rename(tokens, names): mass for tokens, mass in laws[0].items()} == laws[1]


def trees_are_renamed(case: Case, method: Method, names: Tokens) -> None:
    """Every tree with its probability, so how many there are too. Holds unless `ids_decide_slots`."""

    def grown(variant: Case) -> dict[Shape, Number]:
        classes = classes_of(draft_of(variant), variant.config, method)
        return {kept: mass for kept, (mass, _) in merged((c.mass, c.result) for c in classes).items()}

    before, after = grown(case), grown(renamed(case, names))
    assert {tuple((path, names[t]) for path, t in kept): mass for kept, mass in before.items()} == after


def emissions_are_renamed(case: Case, method: Method, names: Tokens) -> None:
    """What a round emits and how much of it, so the expected acceptance too. Holds unless ids decide either."""
    before, after = (exact_law(variant, method)[0] for variant in (case, renamed(case, names)))
    assert {rename(tokens, names): mass for tokens, mass in before.stops.items()} == after.stops
    assert before.accepted == after.accepted
