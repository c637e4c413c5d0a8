"""Two forms of one thing: torch beside the reference, the single draw beside the paper's recursion."""

from __future__ import annotations

from functools import partial

import numpy as np

from properties.strategies import Family
from reference.rules import Rule
from reference.verification import single_draw_step
from verify.cases import Case
from verify.enumeration import enumerate_outcomes
from verify.laws import StepLaw, step_law
from verify.parity import boundary_rows, toy_disagreements
from verify.precision import PRECISIONS


def torch_agrees_with_the_reference(case: Case, method: str, seed: int, dtype: str = "float64") -> None:
    """The same trees and paths under the same uniforms, boundaries included."""
    random = np.random.default_rng(seed).random((4, case.config.decisions))
    numbers = np.concatenate([boundary_rows(case.config), random])
    assert toy_disagreements(case, method, PRECISIONS[dtype], numbers) == []


def both_forms_of_a_rule_agree(family: Family, rule: Rule) -> None:
    """One coin and one draw have the law of testing child after child, in Fractions."""
    single: StepLaw = {}
    for outcome in enumerate_outcomes(partial(single_draw_step, family.p, family.children, rule, depth=family.depth)):
        single[outcome.result] = single.get(outcome.result, 0) + outcome.mass
    assert single == step_law(family.p, family.children, rule, family.depth)
