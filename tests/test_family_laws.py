"""The baselines are lossless, in Fractions on every case, and torch plays them as the reference does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from reference import growth
from reference.choose import Choose
from reference.decoding import Sampler, decode, play_round
from reference.methods import METHODS
from reference.tree import Tokens
from reference.verification import Step, recursive_step, single_draw_step
from rheo import uniforms as torch_uniforms
from rheo.acceptance import Acceptance
from rheo.config import Config
from tests.baselines import BASELINES, FIXED
from tests.conftest import SHARED_CASES, Rheo
from verify.cases import Case, load
from verify.enumeration import TooManyOutcomesError, enumerate_outcomes
from verify.gate import DATA, Status, check_case, packaged_cases
from verify.judgement import judge_reference, judge_torch
from verify.laws import Law, exact_law, target_of, total_variation
from verify.parity import boundary_rows, toy_disagreements
from verify.precision import PRECISIONS
from verify.random_toys import random_toy

pytestmark = pytest.mark.exact


@pytest.mark.parametrize("path", [*packaged_cases(), *SHARED_CASES], ids=lambda path: path.stem)
def test_every_case_file_has_the_targets_law(path: Path, count_laws: Callable[[int], None]) -> None:
    case = load(path)
    if not case.rational:
        case = replace(case, config=replace(case.config, temperature=Fraction(1)))
    for method in BASELINES:
        judged = judge_reference(case, method, limit=5_000)
        assert judged.tv == 0, method
        assert judged.posterior_ok, method
    count_laws(len(BASELINES))


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("kind", ["any", "zeros"])
def test_two_rounds_together_have_the_law_of_the_target(kind: str, method: str) -> None:
    config = Config(0, 2, 1, 1, 2, None, Fraction(1, 2))
    case = Case(kind, random_toy(5, 3, 3, kind), config)
    sampler = Sampler(case.toy.target.exact, case.toy.draft.exact, config, METHODS[method])

    def run(choose: Choose) -> Tokens:
        return tuple(token for path in decode(sampler, (), 2, lambda _: choose) for token in path.tokens)

    assert total_variation(enumerated(run), target_of(case), 2 * (config.depth + 1)) == 0


@pytest.mark.parametrize("step", [recursive_step, single_draw_step])
@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("kind", ["any", "ties"])
def test_whole_rounds_enumerated_decision_by_decision_have_the_composed_law(kind: str, method: str, step: Step) -> None:
    """Children that verification never comes by are drawn here; in the composed law they are integrated out."""
    case = Case(kind, random_toy(3, 3, 2, kind), Config(0, 3, 2, 2, 4, None, Fraction(1)))
    sampler = Sampler(case.toy.target.exact, case.toy.draft.exact, case.config, METHODS[method], growth.grow, step)
    law, classes = exact_law(case, METHODS[method])
    assert enumerated(lambda choose: play_round(sampler, (), choose).tokens) == law
    if method in FIXED:
        with pytest.raises(TooManyOutcomesError, match=f"more than {len(classes) - 1} outcomes"):
            exact_law(case, METHODS[method], limit=len(classes) - 1)


def enumerated(run: Callable[[Choose], Tokens]) -> Law:
    stops: dict[Tokens, Fraction] = {}
    for outcome in enumerate_outcomes(run):
        stops[outcome.result] = stops.get(outcome.result, Fraction(0)) + outcome.mass
    return Law(stops)


def test_a_measured_vector_makes_another_tree_that_is_as_lossless() -> None:
    case = load(packaged_cases()[0])
    measured = replace(case, config=replace(case.config, acceptance=Acceptance((0.9, 0.1))))
    law, _ = exact_law(measured, METHODS["sequoia"])
    assert total_variation(law, target_of(case), case.config.depth + 1) == 0
    assert law != exact_law(case, METHODS["sequoia"])[0]


TOYS = ("ties", "zeros", "equal", "disjoint", "truncated", "half-temperature", "zero-temperature", "support-of-one")


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("toy", TOYS)
def test_torch_plays_as_the_reference_under_the_same_uniforms(toy: str, dtype: str) -> None:
    case = load(DATA / "toys" / f"{toy}.json")
    random = np.random.default_rng(1).random((40, case.config.decisions))
    numbers = np.concatenate([boundary_rows(case.config), random])
    for method in BASELINES:
        assert toy_disagreements(case, method, PRECISIONS[dtype], numbers) == []


@pytest.mark.parametrize("method", ["chain", "block"])
@pytest.mark.parametrize("toy", ["ties", "half-temperature", "small-budget"])
def test_the_measured_law_of_a_torch_chain_is_the_targets(toy: str, method: str) -> None:
    case = load(DATA / "toys" / f"{toy}.json")
    measured, reference = judge_torch(case, method), judge_reference(case, method)
    assert measured.lossless, measured.faults
    assert measured.classes == reference.classes
    assert measured.accepted == pytest.approx(float(reference.accepted), abs=1e-9)


def test_the_main_job_takes_a_fixed_shape_through_the_checks_it_can() -> None:
    case = load(DATA / "toys" / "ties.json")
    checks = list(check_case(case, ("sequoia",)))
    assert [check.check for check in checks] == ["reference", "parity float64", "parity float32"]
    assert {check.status for check in checks} == {Status.LOSSLESS}


def test_more_nodes_than_expansions_leave_the_other_uniforms_as_they_were() -> None:
    few, many = Config(1, 3, 1, 2, 2), Config(1, 3, 1, 2, 9)
    assert Config().decisions == 88  # growth reads no more than it did
    assert (few.draws, many.draws) == (2, 9)
    short, long = (torch_uniforms.draw_uniforms(config, [5, 6], 3) for config in (few, many))
    assert torch.equal(short.coin, long.coin)
    assert torch.equal(short.draw, long.draw)
    assert torch.equal(short.probe, long.probe)
    numbers = torch.arange(many.decisions, dtype=torch.float64).unsqueeze(0)
    columns = torch_uniforms.split_uniforms(many, numbers).growth[0].tolist()
    assert columns == [many.column(draw) for draw in range(9)] == [0, 1, 7, 8, 9, 10, 11, 12, 13]


def test_a_law_too_large_to_enumerate_is_said_to_be(rheo: Rheo) -> None:
    status, _, err = rheo("law", DATA / "toys" / "ties.json", "--method", "specinfer", "--limit", 10, "--json")
    assert status == 3
    assert "more than 10 outcomes" in err
