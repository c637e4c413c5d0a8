"""How much is accepted: at most what optimal transport allows, and everything where the draft is the target.

Dominance is asserted where it is a theorem and nowhere else: at one node without fillers.
"""

from __future__ import annotations

from dataclasses import replace

from properties.strategies import Parent
from reference.methods import Method
from reference.rules import Rule
from verify.cases import Case
from verify.laws import exact_law, exact_steps, target_of
from verify.transport import bound, candidate_sets, min_cut, node_acceptance, node_trees, slot_plan


def accepts_no_more_than_the_bound(parent: Parent, method: Method) -> None:
    """0 <= acceptance <= the transport bound at a node whose slots all survive."""
    accepted = node_acceptance(parent.p, parent.draft, parent.config, method)
    assert 0 <= accepted <= bound(parent.p, slot_plan(parent.draft, parent.config, method)) <= 1


def accepts_no_more_than_the_min_cut(parent: Parent, method: Method) -> None:
    """The same where the number of surviving fillers depends on what the probe is: no closed form, but a maximum flow.

    For methods with a probe; `parent.fillers` are rheo's.
    """
    sets = candidate_sets(node_trees(slot_plan(parent.draft, parent.config, method), parent.fillers))
    accepted = node_acceptance(parent.p, parent.draft, parent.config, method, parent.fillers)
    assert 0 <= accepted <= min_cut(parent.p, sets)


def bound_is_the_min_cut(parent: Parent, method: Method) -> None:
    """The closed form of the bound is the maximum flow."""
    plan = slot_plan(parent.draft, parent.config, method)
    assert bound(parent.p, plan) == min_cut(parent.p, candidate_sets(node_trees(plan)))


def dominates_without_fillers(parent: Parent, better: Method, worse: Method) -> None:
    """At one node where no filler survives, `better` attains the bound and so accepts at least as often as `worse`."""
    plan = slot_plan(parent.draft, parent.config, better)
    none = [0] * len(plan.tail)
    first, second = (node_acceptance(parent.p, parent.draft, parent.config, m, none) for m in (better, worse))
    assert first == min_cut(parent.p, candidate_sets(node_trees(plan, none)))
    assert first >= second


def first_step_is_within_the_min_cut(case: Case, method: Method) -> None:
    """In a whole tree, what survives at the root bounds how often a round accepts anything."""
    law, classes = exact_law(case, method)
    first = 1 - sum(mass for tokens, mass in law.stops.items() if len(tokens) == 1)
    assert 0 <= first <= min_cut(target_of(case)(()), candidate_sets((c.mass, c.result) for c in classes))


def accepts_all_it_can_where_the_draft_is_the_target(case: Case, method: Method) -> None:
    """With the case's target as its draft too, a node accepts until slots were cut: all of p on the draft's support.

    For rules of one node, at every node that kept its anchors and its probe; without truncation that is probability 1,
    so a path goes on until the budget or the depth ends it. Fillers gain nothing there.
    """
    assert isinstance(method.rule, Rule), "a rule for one node"
    same = replace(case, toy=replace(case.toy, draft=case.toy.target))
    target_at = target_of(same)
    steps = exact_steps(target_at, method.rule)
    for outcome in exact_law(same, method)[1]:
        tree = outcome.result
        for path, tokens in [((), ()), *((node.path, node.tokens) for node in tree.nodes)]:
            children, plan = tree.children(path), tree.plans.get(path)
            if plan is None or len(children) < len(plan.anchors) + (plan.proxy is not None):
                continue
            accepted = sum(m for (child, _), m in steps(tree, path, tokens).items() if child is not None)
            p = target_at(tokens)
            assert accepted == p[plan.anchors].sum() + p[plan.tail].sum()
