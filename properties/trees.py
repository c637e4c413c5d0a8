"""What every draft tree must be, and how surviving probes must be distributed."""

from __future__ import annotations

from collections.abc import Iterable

from reference.growth import ROOT, place
from reference.methods import Method
from reference.order import total_order
from reference.slots import SlotPlan, drawn_slots, leading_slots
from reference.tree import Node, Tree
from rheo.config import Config
from verify.cases import Case
from verify.classes import Weighted, invariant_faults, merged, posterior_faults
from verify.laws import classes_of, draft_of


def is_well_formed(tree: Tree, config: Config) -> None:
    """Connected, in the total order, within beam, depth and budget; slots in their order, siblings all different."""
    assert invariant_faults(tree, config) == []


def uses_its_budget(tree: Tree, config: Config) -> None:
    """Nothing is dropped while there is room."""
    candidates = sum(_slots(plan) for plan in tree.plans.values())
    assert len(tree.nodes) == min(config.budget, candidates)


def holds_the_best_slots_of_its_parents(tree: Tree) -> None:
    """The survivors of a parent are its best slots, as its plan fills them: tokens, kinds, scores and positions.

    In the paper's growth those are its first; in calibrated growth a probe may be worth more than an anchor.
    """
    nodes: dict[tuple[int, ...], Node] = {(): ROOT, **{node.path: node for node in tree.nodes}}
    for path, parent in nodes.items():
        children = tree.children(path)
        if children:
            plan = tree.plans[path]
            drawn = next((node.token for node in children if node.kind == "probe"), None)
            probe = None if drawn is None else plan.tail.tolist().index(drawn)
            best = sorted(place(parent, leading_slots(plan) + drawn_slots(plan, probe)), key=total_order)
            assert sorted(children, key=total_order) == best[: len(children)]
            assert probe is None or plan.tail_law[probe] > 0


def keep_the_posterior(trees: Iterable[Weighted]) -> None:
    """Within every class, a surviving probe is distributed as q~: pruning did not look at what it is.

    trees: all of a case's, with their probabilities, every probe drawn before pruning (`classes.layered_trees`).
    """
    assert not posterior_faults(trees)


def are_those_of_lazy_growth(trees: Iterable[Weighted], case: Case, method: Method) -> None:
    """Growth that draws a probe only when its slot is reached gives the same trees, as often."""
    lazy = merged((c.mass, c.result) for c in classes_of(draft_of(case), case.config, method))
    assert {k: m for k, (m, _) in lazy.items()} == {k: m for k, (m, _) in merged(trees).items()}


def _slots(plan: SlotPlan) -> int:
    return min(plan.slots, len(plan.anchors) + len(plan.tail))
