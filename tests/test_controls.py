"""Samplers that are wrong on purpose must be found lossy, or the harness proves nothing."""

from __future__ import annotations

import pytest

from reference.methods import METHODS
from verify.cases import load
from verify.controls import CONTROLS, Control, judge
from verify.gate import DATA, Status, check_control, overall
from verify.random_toys import random_toy

pytestmark = pytest.mark.exact


@pytest.mark.parametrize("name", CONTROLS)
def test_every_control_is_found_lossy_with_its_total_variation(name: str) -> None:
    check = check_control(name)
    assert check.status is Status.LOSSY
    assert isinstance(check.tv, str)
    assert check.tv != "0"


@pytest.mark.parametrize("name", ["true-score", "token-ties"])
def test_a_growth_fault_is_located_by_the_posterior(name: str) -> None:
    finding = judge(CONTROLS[name], load(DATA / "controls" / f"{name}.json"))
    assert finding.posterior_ok is False


@pytest.mark.parametrize("name", ["token-residual", "wrong-law", "rrsw-high-proxy"])
def test_a_verification_fault_leaves_the_posterior_right(name: str) -> None:
    finding = judge(CONTROLS[name], load(DATA / "controls" / f"{name}.json"))
    assert finding.posterior_ok is True


@pytest.mark.parametrize("name", CONTROLS)
def test_the_right_sampler_is_lossless_on_the_same_case(name: str) -> None:
    case = load(DATA / "controls" / f"{name}.json")
    for method in ("rheo", "rrsw"):
        finding = judge(Control("none", METHODS[method]), case)
        assert finding.tv == 0
        assert finding.posterior_ok is True


def test_a_control_that_is_not_found_makes_the_verdict_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTROLS, "true-score", Control("none", METHODS["rheo"]))
    check = check_control("true-score")
    assert check.status is Status.CONTROL_PASSED
    assert overall([], [check]) == 4


def test_random_toys_are_the_same_in_every_run() -> None:
    first, second = (random_toy(3, 4, 2, "mixed") for _ in range(2))
    assert first.target.listed == second.target.listed
    assert first.draft.listed != random_toy(4, 4, 2, "mixed").draft.listed
