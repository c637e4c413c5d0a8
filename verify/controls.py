"""Samplers that are wrong on purpose. A harness that does not find them lossy proves nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference.choose import Choose
from reference.distributions import Array, Number, without
from reference.growth import Fill, Order
from reference.growths import rheo
from reference.methods import METHODS, Method
from reference.order import comparable, total_order
from reference.rules import Recursive, Rule, probe_first
from reference.rules.children import Children, Verdict, try_points, try_probe
from reference.slots import Slot, SlotPlan, drawn_slots
from reference.tree import Node
from reference.truncation import Draft
from rheo.config import Config
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


def _with_rule(recursive: Recursive) -> Method:
    return Method(METHODS["rheo"].growth, Rule(recursive, probe_first.single_draw))


CONTROLS: dict[str, Control] = {
    "true-score": Control("the probe ranks by its true probability", METHODS["rheo"], fill=true_score),
    "token-ties": Control("ties are broken by token id", METHODS["rheo"], order=token_order),
    "rrsw-high-proxy": Control("RRSw with a probe that outranks anchors", Method(high_proxy, METHODS["rrsw"].rule)),
    "token-residual": Control("a rejection subtracts only the drafted token", _with_rule(token_residual)),
    "wrong-law": Control("the probe is verified against a law it was not drawn from", _with_rule(wrong_law)),
}
