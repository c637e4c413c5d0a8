"""What a run says: a verdict with its error rates, the worst deviation, acceptance, and how to play it again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from verify.acceptance import estimate
from verify.guess import guess
from verify.plan import EARLY_SHARE, FAMILIES, Plan, detectable
from verify.run import Progress
from verify.tally import Ruling


def verdict(plan: Plan, progress: Progress) -> str:
    """lossy where a test rejects, lossless where all looks were taken and none did, else inconclusive."""
    if progress.rejected:
        return "lossy"
    return "lossless" if progress.looks == plan.looks else "inconclusive"


def record(plan: Plan, progress: Progress, name: str) -> dict[str, Any]:
    """The run as the JSON of a report holds it."""
    worst = worst_test(progress)
    said = verdict(plan, progress)
    missing = seconds_missing(plan, progress) if said == "inconclusive" else None
    subject = {
        "subject": name,
        "spec": str(plan.sampler),
        "verdict": said,
        "claims": {"tv": plan.claims.tv, "alpha": plan.claims.alpha, "beta": plan.claims.beta},
        "seed": plan.seed,
        "seconds": round(progress.seconds, 3),
        "sequences": progress.sequences,
        "seconds_missing": missing,
        "worst": None if worst is None else plan.trials[worst.trial].name,
        "guess": None if worst is None else guess(plan, progress, worst),
        "trials": [trial_record(plan, progress, i) for i in range(len(plan.trials))],
    }
    return {**subject, "sentence": sentence(subject), "findings": list(findings(subject))}


def sentence(subject: dict[str, Any]) -> str:
    """A verdict in words, with its error rates; subject: as `record` makes it."""
    claims, spent = subject["claims"], f"{subject['sequences']:,} sequences, {subject['seconds']:.1f} s"
    if subject["verdict"] == "lossless":
        return f"no deviation of TV >= {claims['tv']:g}: alpha {claims['alpha']:g}, beta {claims['beta']:g}; {spent}"
    if subject["verdict"] == "lossy":
        return f"said of a right sampler with probability <= {claims['alpha']:g}; {spent}"
    missing = subject["seconds_missing"]
    more = "nothing was drawn" if missing is None else f"about {missing:,.0f} s more would settle it"
    return f"{more}; {spent}"


def findings(subject: dict[str, Any]) -> Iterator[str]:
    """What a lossy sampler did, a line each."""
    if subject["worst"] is not None:
        trial = next(trial for trial in subject["trials"] if trial["toy"] == subject["worst"])
        cell = trial["worst_cell"]
        yield (
            f"worst: {trial['toy']}, sequence {cell['sequence']}: expected {cell['expected']:.6g}, "
            f"observed {cell['observed']:.6g}, p-value {cell['p_value']:.2g}"
        )
        yield f"guess: {subject['guess']}"


def worst_test(progress: Progress) -> Ruling | None:
    """The most telling of the tests that reject: by p-value, joint tests before others, then by how much there is."""

    def key(test: Ruling) -> tuple[float, bool, float]:
        return test.evidence.p_value, test.family != "joint", -test.evidence.statistic

    return min((test for test in progress.tests if test.rejected), key=key, default=None)


def seconds_missing(plan: Plan, progress: Progress) -> float | None:
    """How much longer the run would have taken at the pace it had; None if there was none."""
    if not progress.sequences:
        return None
    return round((plan.sequences - progress.sequences) * progress.seconds / progress.sequences, 1)


def trial_record(plan: Plan, progress: Progress, place: int) -> dict[str, Any]:
    """One trial of a run."""
    trial, law, tally = plan.trials[place], plan.laws[place], progress.tallies[place]
    tests = [test for test in progress.tests if test.trial == place]
    alpha = plan.claims.alpha * FAMILIES["joint"] * (1 - EARLY_SHARE * (plan.looks - 1)) / len(plan.trials)
    lossy = any(test.rejected for test in tests)
    tau = estimate(tally.emitted)
    return {
        "toy": trial.name,
        "length": trial.length,
        "cells": int((law > 0).sum()),
        "settings": trial.settings,
        "needed": plan.sizes[place][-1],
        "samples": tally.samples,
        "detectable": detectable(law, tally.samples, alpha, plan.claims.beta),
        "status": "lossy" if lossy else "lossless" if progress.looks == plan.looks else "inconclusive",
        "tests": [
            {
                "family": test.family,
                "test": test.evidence.test,
                "look": test.look,
                "samples": test.evidence.samples,
                "statistic": test.evidence.statistic,
                "p_value": test.evidence.p_value,
                "alpha": test.alpha,
                "rejected": test.rejected,
            }
            for test in tests
        ],
        "pit": {name: list(found.histogram) for name, found in tally.pit.items()},
        "acceptance": None if tau is None else tau.record(),
        "worst_cell": worst_cell(plan, progress, place) if tally.samples else None,
    }


def worst_cell(plan: Plan, progress: Progress, place: int) -> dict[str, Any]:
    """The sequence whose count is the least likely, by a two-sided binomial test times the number of cells."""
    law, tally, trial = plan.laws[place], progress.tallies[place], plan.trials[place]
    n = tally.samples
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.abs(tally.cells - n * law) / np.sqrt(n * law * (1 - law))
    impossible = np.where(tally.cells > 0, math.inf, 0.0)
    # What must be, or hardly can be otherwise, has no spread to compare with.
    cell = int(np.argmax(np.where(law > 0, np.nan_to_num(deviation, posinf=math.inf), impossible)))
    p_value = stats.binomtest(int(tally.cells[cell]), n, min(1.0, float(law[cell]))).pvalue
    return {
        "sequence": [int(x) for x in np.unravel_index(cell, (trial.toy.vocab,) * trial.length)],
        "expected": float(law[cell]),
        "observed": float(tally.cells[cell] / n),
        "p_value": min(1.0, float(p_value) * len(law)),
    }
