"""Properties under Hypothesis: what holds for the chosen cases holds for any."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from properties import lossless
from properties.strategies import cases, pairs
from reference.methods import METHODS
from verify.cases import Case, document, dumps, parse
from verify.enumeration import TooManyOutcomesError

pytestmark = pytest.mark.exact

METHOD = st.sampled_from(sorted(METHODS))


@given(case=cases(), method=METHOD)
@settings(max_examples=settings().max_examples * 4)
def test_any_case_has_the_targets_law(case: Case, method: str) -> None:
    lossless.has_the_targets_law(case, method)


@given(case=cases(largest_vocab=3), method=METHOD)
def test_any_case_keeps_the_posterior(case: Case, method: str) -> None:
    try:
        lossless.keeps_the_posterior(case, method, limit=2_000)
    except TooManyOutcomesError:
        assume(False)


@given(case=cases(), method=METHOD)
def test_torch_has_the_targets_law_on_any_case(case: Case, method: str) -> None:
    lossless.torch_has_the_targets_law(case, method)


@given(case=cases(), method=METHOD, seed=st.integers(0, 1_000))
def test_torch_agrees_with_the_reference_on_any_case(case: Case, method: str, seed: int) -> None:
    lossless.torch_agrees_with_the_reference(case, method, seed)


@given(case=cases())
def test_any_case_survives_being_written_and_read(case: Case) -> None:
    again = parse(dumps(document(case)), "drawn")
    assert (again.toy.target, again.toy.draft, again.config) == (case.toy.target, case.toy.draft, case.config)


def test_the_strategies_produce_the_kinds_that_break_samplers() -> None:
    seen: Counter[str] = Counter()

    @given(pair=pairs(4))
    @settings(max_examples=400, derandomize=True, database=None)
    def collect(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        p, q = pair
        seen["all"] += 1
        seen["zeros"] += 0 in q
        seen["ties"] += len(set(q)) < len(q)
        seen["one-hot"] += sum(w > 0 for w in q) == 1
        seen["near-delta"] += max(q) == 1_000
        seen["equal"] += p == q
        seen["disjoint"] += not any(a and b for a, b in zip(p, q, strict=True))

    collect()
    for kind, least in {"zeros": 0.2, "ties": 0.3, "one-hot": 0.05, "near-delta": 0.05}.items():
        assert seen[kind] >= least * seen["all"], (kind, seen)
    for kind in ("equal", "disjoint"):
        assert seen[kind] >= 0.05 * seen["all"], (kind, seen)
