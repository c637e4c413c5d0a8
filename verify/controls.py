"""Samplers that are wrong on purpose. A harness that does not find them lossy proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reference.choose import Choose, Site
from reference.distributions import Array, Number, residual, without
from reference.growth import DraftAt, Fill, Order
from reference.growths import rheo
from reference.growths.chain import Chain
from reference.growths.static import Drawn, Static, without_replacement
from reference.methods import METHODS, Method
from reference.order import comparable, total_order
from reference.rules import Recursive, Rule, k_seq, probe_first
from reference.rules.children import Children, Verdict, try_points, try_probe
from reference.slots import Slot, SlotPlan, drawn_slots
from reference.tree import Node, Tree
from reference.truncation import Draft
from rheo.config import Config
from rheo.sequoia import optimal
from verify.cases import Case
from verify.classes import layered_trees, posterior_faults
from verify.laws import compose, draft_of, exact_stops, target_of, total_variation


@dataclass(frozen=True)
class Control:
    """One fault: what is wrong, and the sampler that has it."""

    fault: str
    method: Method
    order: Order = total_order
    fill: Fill = drawn_slots


@dataclass(frozen=True)
class Finding:
    """What the exact tier says of a control: its total variation, and whether the posteriors are q~."""

    tv: Number
    posterior_ok: bool | None


def judge(control: Control, case: Case, limit: int | None = None) -> Finding:
    """The law of a control on a case, from layered growth: a lossy one may not be grown lazily."""
    trees = list(layered_trees(draft_of(case), case.config, control.method, limit, control.order, control.fill))
    target_at = target_of(case)
    law = compose(trees, exact_stops(target_at, control.method.rule))
    faults = posterior_faults(trees)
    tv = total_variation(law, target_at, case.config.depth + 1)
    return Finding(tv, None if faults is None else not faults)


def true_score(plan: SlotPlan, probe: int | None) -> list[Slot]:
    """The probe scored by its own probability: a likelier token survives more often than q~ says."""
    slots = drawn_slots(plan, probe)
    if probe is not None:
        kind, token, _ = slots[0]
        slots[0] = (kind, token, plan.tail_scores[probe])
    return slots


def token_order(node: Node) -> tuple[object, int, tuple[int, ...]]:
    """Ties broken by token ids: which node stays then depends on what the probe is."""
    return (-comparable(node.score), node.depth, node.tokens)


def high_proxy(draft: Draft, config: Config) -> SlotPlan:
    """A proxy that may outrank later anchors, which RRSw verifies first."""
    plan = rheo.plan(draft, config)
    return plan if plan.proxy is None else replace(plan, proxy=max(plan.proxy, plan.tail_scores.sum()))


def token_residual(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """A rejected probe takes only its own token out of p, where the residual of p and q~ is due."""
    if children.probe is not None and children.law is not None:
        verdict = try_probe(p, children.probe, children.law, choose, depth)
        if verdict.accepted is not None:
            return verdict
        p = without(p, children.probe)
    return try_points(p, children.anchors + children.fillers, choose, depth, first=1)


def wrong_law(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """Verified against half of q~, so that the probe is accepted too often."""
    law = None if children.law is None else children.law / 2
    return probe_first.recursive(p, replace(children, law=law), choose, depth)


def same_residual(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """Every draw is tested against p itself: what earlier refusals said about it is forgotten."""
    for position, (token, law) in enumerate(zip(children.draws, children.laws, strict=True), start=1):
        verdict = try_probe(p, token, law, choose, depth, position)
        if verdict.accepted is not None:
            return verdict
    return Verdict(None, residual(p, children.laws[0]) if children.laws else p)


def small_factor(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """K-SEQ with half of what rho must be above 1: some tokens are accepted more often than p allows."""
    if not children.draws:
        return Verdict(None, p)
    rho = (1 + k_seq.factor_for(p, children)) / 2
    for position, (token, law) in enumerate(zip(children.draws, children.laws, strict=True), start=1):
        verdict = try_probe(p, token, rho * law, choose, depth, position)
        if verdict.accepted is not None:
            return verdict
    return Verdict(None, k_seq.rest(p, children.laws[0], len(children.draws), rho))


def not_renormalised(law: Array, sites: Sequence[Site], choose: Choose) -> Drawn:
    """Distinct siblings that all say they come from q_T itself."""
    return [(token, law) for token, _ in without_replacement(law, sites, choose)]


@dataclass(frozen=True)
class UntemperedLaw:
    """A chain drawn from q_T that says it comes from q."""

    def grow(self, draft_at: DraftAt, config: Config, choose: Choose) -> Tree:
        tree = Chain().grow(draft_at, config, choose)
        return Tree(tree.nodes, {path: replace(plan, tail_law=plan.tail_scores) for path, plan in tree.plans.items()})


def _with_rule(recursive: Recursive) -> Method:
    return Method(METHODS["rheo"].growth, Rule(recursive, probe_first.single_draw))


CONTROLS: dict[str, Control] = {
    "true-score": Control("the probe ranks by its true probability", METHODS["rheo"], fill=true_score),
    "token-ties": Control("ties are broken by token id", METHODS["rheo"], order=token_order),
    "rrsw-high-proxy": Control("RRSw with a probe that outranks anchors", Method(high_proxy, METHODS["rrsw"].rule)),
    "token-residual": Control("a rejection subtracts only the drafted token", _with_rule(token_residual)),
    "wrong-law": Control("the probe is verified against a law it was not drawn from", _with_rule(wrong_law)),
    "chain-temperature": Control(
        "a chain drawn at one temperature, verified at another", Method(UntemperedLaw(), METHODS["chain"].rule)
    ),
    "specinfer-residual": Control(
        "a refused candidate is not subtracted before the next is tested",
        Method(METHODS["specinfer"].growth, Rule(same_residual, probe_first.single_draw)),
    ),
    "spectr-factor": Control(
        "K-SEQ's factor lies below the root",
        Method(METHODS["spectr"].growth, Rule(small_factor, probe_first.single_draw)),
    ),
    "sequoia-law": Control(
        "q is not renormalised after a token is removed",
        Method(Static(optimal, not_renormalised), METHODS["sequoia"].rule),
    ),
}
