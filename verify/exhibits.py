"""What a report shows beside its verdict: acceptance against what is possible, power, and one round as it went.

Everything is plain JSON values; docs/schema.md says what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from reference import lazy
from reference.choose import sampling
from reference.methods import METHODS, PAPER
from reference.tree import Path, Tree
from reference.verification import verify
from verify import power
from verify.cases import Case
from verify.enumeration import InconclusiveError
from verify.laws import draft_of, exact_law, target_of
from verify.transport import candidate_sets, min_cut

Record = dict[str, Any]

_CLASSES = 2_000  # trees enumerated before a method is left out
_ROUNDS = 32  # rounds played in search of an accepted probe
_DRAWABLE = 64  # nodes of a tree that still make a picture
_DISCREPANCIES = np.logspace(-1.7, -3.3, 17)


def exhibits(cases: Sequence[Case], alpha: float = 1e-9, beta: float = 1e-6) -> Record:
    """The sections "acceptance", "power" and "example" of a run; without cases, power alone."""
    sections: Record = {"power": power_curves(alpha, beta)}
    with suppress(Exception):  # whatever a broken sampler raises here, its checks have said: the verdict goes on
        if cases:
            sections["acceptance"] = [acceptance(case) for case in cases]
            drawable = [case for case in cases if case.config.budget <= _DRAWABLE]
            sections["example"] = example(max(drawable, key=lambda case: case.config.budget)) if drawable else None
    return sections


def acceptance(case: Case) -> Record:
    """Expected accepted drafts of a round by method; at the root, acceptance and the most that is possible.

    The bound is that of the candidates that this method's own growth offers over a whole round, so it differs between
    growths. Computed in Fractions where the case's temperature leaves them. Methods that need too many trees are left
    out.
    """
    methods, root = {}, {}
    p = target_of(case)(())
    for name in PAPER:
        try:
            law, classes = exact_law(case, METHODS[name], _CLASSES)
        except InconclusiveError:
            continue
        trees = [(c.mass, c.result) for c in classes]
        methods[name] = float(law.accepted)
        root[name] = {
            "accepted": float(1 - sum(mass for tokens, mass in law.stops.items() if len(tokens) == 1)),
            "bound": float(min_cut(p, candidate_sets(trees))),
        }
    return {"case": case.name, "methods": methods, "root": root}


def power_curves(alpha: float, beta: float, cells: Sequence[int] = (8, 64)) -> list[Record]:
    """Samples by the discrepancy they find, for every test; of joint tests by the number of cells."""
    joint = {"chi-square": power.chi_square_samples, "total variation": power.tv_gate_samples}
    curves = [
        _curve(test, k, alpha, beta, partial(samples, alpha=alpha, beta=beta, cells=k))
        for k in cells
        for test, samples in joint.items()
    ]
    return [*curves, _curve("Kolmogorov", None, alpha, beta, partial(power.ks_samples, alpha=alpha, beta=beta))]


def _curve(test: str, cells: int | None, alpha: float, beta: float, samples: Callable[[float], int]) -> Record:
    points = [[samples(size), size] for size in _DISCREPANCIES.tolist()]
    return {"test": test, "cells": cells, "alpha": alpha, "beta": beta, "points": points}


def example(case: Case, method: str = "rheo") -> Record:
    """One round of the reference: every kept node, the accepted ones marked, and the tokens emitted.

    The first of up to 32 seeds with which a probe is accepted, since that is what is to be shown; else the first.
    """

    def accepts_probe(seed: int) -> bool:
        return any(node.kind == "probe" for node in _round(case, method, seed)[1].accepted)

    seed = next((seed for seed in range(_ROUNDS) if accepts_probe(seed)), 0)
    tree, path = _round(case, method, seed)
    row = {(): 0, **{node.path: i for i, node in enumerate(tree.nodes, start=1)}}
    accepted = {node.path for node in path.accepted}
    nodes = [
        {
            "row": row[node.path],
            "parent": row[node.path[:-1]],
            "token": node.token,
            "kind": node.kind,
            "score": float(node.score),
            "depth": node.depth,
            "accepted": node.path in accepted,
        }
        for node in tree.nodes
    ]
    return {"case": case.name, "method": method, "seed": seed, "nodes": nodes, "emitted": list(path.tokens)}


def _round(case: Case, method: str, seed: int) -> tuple[Tree, Path]:
    choose = sampling(np.random.default_rng(seed))
    tree = lazy.grow(draft_of(case), case.config, METHODS[method].growth, choose)
    return tree, verify(tree, target_of(case), METHODS[method].rule, choose)
