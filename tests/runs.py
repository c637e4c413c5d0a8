"""Runs by hand in which every section of the schema is filled: samplers right, wrong and undecided; a benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

Json = dict[str, Any]

TOYS = (
    "high-rejection", "reversed", "context-dependent", "ties", "zeros", "near-one-hot", "several-rounds", "deep",
    "two-tokens", "half-temperature",
)  # fmt: skip
TIERS = ("exact", "parity", "statistical", "sequential")
HEAD = {"schema": 2, "kind": "verify", "verdict": "lossless"}
ALPHA, BETA, TV = 1e-9, 1e-6, 0.005


def full_run() -> Json:
    """Every section, with figures that a real run could have."""
    generator = np.random.default_rng(0)
    return {
        "schema": 2,
        "kind": "verify",
        "verdict": "lossy",
        "complete": True,
        "seconds": 187.4,
        "checks": _checks(),
        "controls": [
            _check("control true-score", "", "reference", "lossy", "2115/7942", None, "ranks by its true probability"),
            _check("control token-ties", "", "reference", "lossy", "1/4", None, "ties are broken by token id"),
        ],
        "bad_input": ["missing.json: No such file or directory"],
        "replay": [
            {**_check("ties", "topk", "torch float32", "lossy", 2e-3), "command": "rheo verify rheo-failures/ties.json"}
        ],
        "subjects": [
            _subject("rheo", "lossless", generator),
            _subject("accepts on u <= a", "lossy", generator),
            _subject("an engine, too slow", "inconclusive", generator),
        ],
        "mutants": [_mutant(i) for i in range(30)],
        "acceptance": [_acceptance(name, generator) for name in TOYS],
        "power": [
            _curve("chi-square", 27, 30), _curve("chi-square", 64, 45), _curve("total variation", 27, 60),
            _curve("Kolmogorov", None, 55),
        ],
        "example": example(),
    }  # fmt: skip


def bench_run() -> Json:
    """A benchmark of full models, its figures made up."""
    run: Json = json.loads((Path(__file__).parent / "data" / "bench.json").read_text(encoding="utf-8"))
    return run


def small_run() -> Json:
    """The full run with as little of each section as shows everything: quick to draw."""
    run = full_run()
    for subject in run["subjects"]:
        subject["trials"] = subject["trials"][3:4]
    run["mutants"], run["acceptance"] = run["mutants"][:2], run["acceptance"][:2]
    return run


def example() -> Json:
    """A round with every kind of node, in which a probe and an anchor below it are accepted."""
    rows = [
        (1, 0, 3, "anchor", 0.41, 1, False), (2, 0, 0, "probe", 0.41, 1, True), (3, 1, 1, "anchor", 0.3, 2, False),
        (4, 2, 2, "anchor", 0.22, 2, True), (5, 0, 1, "filler", 0.2, 1, False), (6, 1, 3, "probe", 0.11, 2, False),
        (7, 4, 0, "anchor", 0.1, 3, False), (8, 4, 3, "probe", 0.07, 3, False),
    ]  # fmt: skip
    keys = ("row", "parent", "token", "kind", "score", "depth", "accepted")
    nodes = [dict(zip(keys, row, strict=True)) for row in rows]
    return {"case": "verify/data/toys/ties.json", "method": "rheo", "seed": 4, "nodes": nodes, "emitted": [0, 2, 1]}


def audit_run() -> Json:
    """A trace that was found right."""
    bins = np.random.default_rng(1).multinomial(200_000, [1 / 20] * 20).tolist()
    head = {"schema": 2, "kind": "audit", "verdict": "lossless", "complete": True, "seconds": 2.5}
    return {**head, "tokens": 200_000, "alpha": 1e-6, "e_value": 0.4, "peak": 3.1, "pit": bins}


def models_run() -> Json:
    """Three methods on a pair of models: one right, one lossy in every way, one that was not reached; a control."""
    pooled = {"test": "Kolmogorov by p", "tokens": 5_000, "alpha": 1e-11, "statistic": 0.011, "detectable": 0.16}
    right = {**pooled, "p_value": 0.6, "rejects": False}
    wrong = {**pooled, "p_value": 1e-14, "rejects": True}
    checked = {"tokens": 256, "differing": 0, "margin": 0.0, "cached": 256, "tv": 4.1e-6}
    broken = {**checked, "differing": 3, "margin": 0.8, "tv": 0.02}
    return {
        "schema": 2, "kind": "models", "verdict": "lossy", "complete": True, "seconds": 812.0,
        "target": "smollm2", "draft": "skip:5", "dtype": "float32", "temperature": 1.0, "tokens": 5_000,
        "alpha": ALPHA, "beta": BETA, "seed": 0, "most": {"tv": 1e-3, "margin": 1e-3},
        "methods": [
            _model_method("rheo", "lossless", 5_000, 0, checked, [right]),
            _model_method("topk", "lossy", 5_000, 2, broken, [wrong]),
            _model_method("rrsw", "inconclusive", 0, 0, None, []),
        ],
        "control": {
            "fault": "stale row", "method": "rheo", "status": "found", "pilot": 2_000, "order": "p",
            "distance": 0.4, "at_least": 0.33, "tokens": 900, "p_value": 1e-30,
        },
    }  # fmt: skip


def _model_method(
    method: str, status: str, tokens: int, impossible: int, checks: Json | None, tests: list[Json]
) -> Json:
    counts = {"tokens": tokens, "requests": tokens // 40, "impossible": impossible}
    return {"method": method, "status": status, **counts, "checks": checks, "tests": tests}


def _check(
    case: str, method: str, check: str, status: str,
    tv: float | str | None = None, accepted: float | str | None = None, detail: str = "",
) -> Json:  # fmt: skip
    return {
        "case": case, "method": method, "check": check, "status": status, "tv": tv, "accepted": accepted,
        "detail": detail, "unexpected": False,
    }  # fmt: skip


def _checks() -> list[Json]:
    checks = []
    for case in ("ties", "two-anchors", "humaneval-0"):
        for method in ("rheo", "rrsw", "topk"):
            checks.append(_check(f"cases/{case}.json", method, "reference", "lossless", "0", "373/240"))
            for dtype, tv in (("float64", 1.3e-16), ("float32", 7.7e-9)):
                checks.append(_check(f"cases/{case}.json", method, f"torch {dtype}", "lossless", tv, 1.5541))
                checks.append(_check(f"cases/{case}.json", method, f"parity {dtype}", "lossless"))
    wrong = next(c for c in checks if (c["check"], c["method"]) == ("torch float32", "topk"))
    wrong.update(status="lossy", tv=2e-3, detail="a cell ends at 0.252, not at 0.25")
    return checks


def _subject(name: str, verdict: str, generator: np.random.Generator) -> Json:
    trials = [_trial(toy, "lossless", generator) for toy in TOYS]
    if verdict == "lossy":
        trials[3] = _trial(TOYS[3], "lossy", generator)
        trials[7] = _trial(TOYS[7], "lossy", generator)
    if verdict == "inconclusive":
        trials = [{**trial, "status": "inconclusive", "samples": 900, "tests": [], "pit": None} for trial in trials[:4]]
    return {
        "subject": name,
        "spec": "verify.subjects:torch_sampler",
        "config": {"anchors": 1, "slots": 3, "method": "rheo"},
        "verdict": verdict,
        "claims": {"tv": TV, "alpha": ALPHA, "beta": BETA},
        "seed": 0,
        "seconds": 31.0,
        "sequences": sum(trial["samples"] for trial in trials),
        "guess": "the acceptance ratio is too large where p is small" if verdict == "lossy" else None,
        "trials": trials,
    }


def _trial(toy: str, status: str, generator: np.random.Generator) -> Json:
    law = np.ones(20) / 20
    if status == "lossy":
        law = law + np.linspace(-0.004, 0.004, 20)
    samples, wrong = 1_500_000, status == "lossy"
    tests = []
    for family, test in (
        ("joint", "chi-square"),
        ("joint", "total variation"),
        ("independence", "pairs"),
        ("pit", "Kolmogorov"),
    ):
        for look in (1, 2, 3):
            p_value = float(generator.random())
            if wrong and family != "independence":
                p_value = 10.0 ** (-12.0 * look)
            tests.append({
                "family": family, "test": test, "look": look, "samples": samples * look // 3, "statistic": 20.125,
                "p_value": p_value, "alpha": 1e-11, "rejected": p_value < 1e-11,
            })  # fmt: skip
    return {
        "toy": toy, "length": 3, "cells": 27, "needed": samples, "samples": samples, "detectable": TV, "status": status,
        "tests": tests,
        "pit": {order: generator.multinomial(3 * samples, law).tolist() for order in ("p", "q", "p/q")},
        "acceptance": {"tau": 1.9, "interval": [1.89, 1.91], "tokens": [190, 190], "rounds": [100, 100]},
        "worst_cell": {"sequence": [0, 1, 1], "expected": 0.1, "observed": 0.1062 if wrong else 0.1001,
                       "p_value": 1e-36 if wrong else 0.04},
    }  # fmt: skip


def _mutant(index: int) -> Json:
    caught = {tier: (index + i) % 3 != 0 for i, tier in enumerate(TIERS)}
    tiers: Json = {
        tier: {
            "caught": seen,
            "seconds": round(0.3 + 4.1 * i, 1),
            "detail": "" if seen else "cannot be seen by one draw",
        }
        for i, (tier, seen) in enumerate(caught.items())
    }
    if index % 5 == 0:
        tiers["exact"] = {"caught": None, "seconds": None, "detail": "no exact form"}
    cheapest = next(tier for tier in TIERS if tiers[tier]["caught"])
    return {
        "mutant": f"mutant-{index}",
        "symptom": "accepts a token of probability 0 when u is 0",
        "tiers": tiers,
        "cheapest": cheapest,
    }


def _acceptance(name: str, generator: np.random.Generator) -> Json:
    topk, rrsw, rheo = np.sort(generator.uniform(0.8, 1.6, 3)).tolist()
    bound = float(generator.uniform(0.75, 1))
    root = {
        "rheo": {"accepted": bound, "bound": bound}, "rrsw": {"accepted": bound - 0.04, "bound": bound},
        "topk": {"accepted": bound - 0.1, "bound": bound - 0.1},
    }  # fmt: skip
    return {
        "case": f"verify/data/toys/{name}.json",
        "methods": {"rheo": rheo, "rrsw": rrsw, "topk": topk},
        "root": root,
    }


def _curve(test: str, cells: int | None, scale: float) -> Json:
    points = [[round(scale / tv**2), tv] for tv in np.logspace(-1.5, -4, 12).tolist()]
    return {"test": test, "cells": cells, "alpha": ALPHA, "beta": BETA, "points": points}
