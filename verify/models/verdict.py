"""What the tokens of a run say: its tests, the size of its control, and one verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify import eprocess
from verify.lifetime import Finding
from verify.models.plan import Plan
from verify.models.scores import Scores
from verify.orders import Floats
from verify.pit import kolmogorov
from verify.power import ks_detectable, ks_samples


def findings(plan: Plan, scores: Scores) -> list[Finding]:
    """The tests of one method, each at plan.alpha_each.

    Kolmogorov's only once all tokens are there, since their number was fixed for it. How many lie in a stratum was not:
    an e-process holds for any number.
    """
    found = [_kolmogorov(plan, order, pit) for order, pit in scores.pit.items() if len(scores) == plan.tokens]
    found += [_eprocess(plan, order, pit) for order, pit in scores.pit.items()]
    pit = scores.pit["p"]
    for kind, labels in scores.strata.items():
        found += [
            _eprocess(plan, f"p, {kind} {label + 1} of 4", pit[labels == label]) for label in np.unique(labels).tolist()
        ]
    return found


def _kolmogorov(plan: Plan, where: str, pit: Floats) -> Finding:
    evidence = kolmogorov(pit, np.ones_like(pit))
    detectable = ks_detectable(len(pit), plan.alpha_each, plan.beta)
    return Finding(
        f"Kolmogorov by {where}", len(pit), plan.alpha_each, evidence.statistic, evidence.p_value,
        evidence.p_value <= plan.alpha_each, detectable if detectable < 1 else None,
    )  # fmt: skip


def _eprocess(plan: Plan, where: str, pit: Floats) -> Finding:
    state = eprocess.update(eprocess.State(), pit)
    return Finding(
        f"e-process by {where}", len(pit), plan.alpha_each, state.log_peak / math.log(10), math.exp(-state.log_peak),
        state.rejects(plan.alpha_each), eprocess.detectable(len(pit), plan.alpha_each, plan.beta),
    )  # fmt: skip


@dataclass(frozen=True)
class Size:
    """How many tokens the control needs.

    order: in which its distance showed most. distance: of the pilot. at_least: what the control's own is at least,
    but for beta / 2. tokens: with which such a distance is missed with probability beta / 2; None if it may be 0.
    """

    order: str
    distance: float
    at_least: float
    tokens: int | None


def sized(plan: Plan, pilot: Scores) -> Size:
    """The control's size from its pilot: tokens of the broken sampler, taken as draws of one law.

    Source of the band: Dvoretzky, Kiefer and Wolfowitz, for both orders at once.
    """
    distances = {order: kolmogorov(pit, np.ones_like(pit)).statistic for order, pit in pilot.pit.items()}
    order = max(distances, key=lambda name: distances[name])
    band = math.sqrt(math.log(2 * len(distances) / (plan.beta / 2)) / (2 * len(pilot)))
    least = distances[order] - band
    tokens = ks_samples(least, plan.alpha_each, plan.beta / 2) if least > 0 else None
    return Size(order, distances[order], max(least, 0.0), tokens)


def found_at(plan: Plan, scores: Scores) -> float:
    """The smallest p-value of Kolmogorov's test over the orders; 0 where a token had probability 0."""
    if scores.impossible:
        return 0.0
    return min(kolmogorov(pit, np.ones_like(pit)).p_value for pit in scores.pit.values())
