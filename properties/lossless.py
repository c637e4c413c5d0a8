"""What holds for every case: each function raises AssertionError where it does not."""

from __future__ import annotations

import numpy as np

from reference.methods import METHODS
from verify.cases import Case
from verify.classes import invariant_faults, layered_trees, merged, posterior_faults
from verify.judgement import judge_torch
from verify.laws import classes_of, draft_of, exact_law, target_of, total_variation
from verify.parity import boundary_rows, toy_disagreements
from verify.precision import PRECISIONS


def has_the_targets_law(case: Case, method: str) -> None:
    """The output law of one round, continued by the target, is the target's in Fractions."""
    law, _ = exact_law(case, METHODS[method])
    assert total_variation(law, target_of(case), case.config.depth + 1) == 0


def keeps_the_posterior(case: Case, method: str, limit: int) -> None:
    """With every probe drawn before pruning: survivors follow q~, trees are sound, lazy growth gives the same."""
    layered = list(layered_trees(draft_of(case), case.config, METHODS[method], limit))
    assert not posterior_faults(layered)
    assert not [fault for _, tree in layered for fault in invariant_faults(tree, case.config)]
    lazy = merged((c.mass, c.result) for c in classes_of(draft_of(case), case.config, METHODS[method]))
    assert {k: m for k, (m, _) in lazy.items()} == {k: m for k, (m, _) in merged(layered).items()}


def torch_has_the_targets_law(case: Case, method: str) -> None:
    """The torch sampler, measured from outside in float64."""
    judged = judge_torch(case, method)
    assert judged.lossless, judged.faults
    assert abs(judged.accepted - float(exact_law(case, METHODS[method])[0].accepted)) < 1e-9


def torch_agrees_with_the_reference(case: Case, method: str, seed: int) -> None:
    """The same trees and paths under the same uniforms, boundaries included."""
    random = np.random.default_rng(seed).random((4, case.config.decisions))
    numbers = np.concatenate([boundary_rows(case.config), random])
    assert toy_disagreements(case, method, PRECISIONS["float64"], numbers) == []
