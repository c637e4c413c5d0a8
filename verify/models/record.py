"""A run on models as JSON: every method with its checks and tests, the control, one verdict."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from verify.models.checks import MOST_MARGIN, MOST_TV, Checked
from verify.models.plan import CONTROL, PILOT, Plan
from verify.models.run import CONTROL_FAULT, Progress
from verify.models.scores import Scores, nothing
from verify.models.verdict import findings, found_at, sized


def record(plan: Plan, progress: Progress, exact: bool) -> dict[str, Any]:
    """The result so far. exact: whether the target computes in float32, so that nothing but rounding may differ."""
    methods = [
        _method(plan, name, progress.scores.get(name, nothing()), progress.checks.get(name), exact)
        for name in plan.methods
    ]
    control = _control(plan, progress)
    return {
        "verdict": _verdict([method["status"] for method in methods], control["status"]),
        "alpha": plan.alpha,
        "beta": plan.beta,
        "seed": plan.seed,
        "tokens": plan.tokens,
        "temperature": float(plan.config.temperature),
        "most": {"tv": MOST_TV, "margin": MOST_MARGIN} if exact else None,
        "methods": methods,
        "control": control,
    }


def _method(plan: Plan, name: str, scores: Scores, checks: Checked | None, exact: bool) -> dict[str, Any]:
    tests = findings(plan, scores) if len(scores) else []
    if scores.impossible or any(test.rejects for test in tests) or (exact and checks and not checks.exact):
        status = "lossy"
    else:
        status = "lossless" if checks and len(scores) == plan.tokens else "inconclusive"
    return {
        "method": name,
        "status": status,
        "tokens": len(scores),
        "requests": scores.requests,
        "impossible": scores.impossible,
        "checks": None if checks is None else asdict(checks),
        "tests": [vars(test) for test in tests],
    }


def _control(plan: Plan, progress: Progress) -> dict[str, Any]:
    """status: "found", "not found", or "open" where it was not carried out, or would have needed more tokens."""
    shown: dict[str, Any] = {"fault": CONTROL_FAULT, "method": plan.methods[0], "status": "open", "pilot": None}
    pilot, scores = (progress.scores.get(part, nothing()) for part in (PILOT, CONTROL))
    if len(pilot) == plan.pilot:
        size = sized(plan, pilot)
        shown |= {"pilot": len(pilot), **asdict(size)}
        if size.tokens is not None and len(scores) == size.tokens:
            p_value = found_at(plan, scores)
            shown |= {"p_value": p_value, "status": "found" if p_value <= plan.alpha_each else "not found"}
    return shown


def _verdict(methods: list[str], control: str) -> str:
    if control == "not found":
        return "control_passed"
    if "lossy" in methods:
        return "lossy"
    return "lossless" if set(methods) == {"lossless"} and control == "found" else "inconclusive"
