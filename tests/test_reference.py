"""The reference's smallest pieces, by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reference.choose import Site, bernoulli, inverse_cdf, reading
from reference.distributions import exact, normalise, residual, temper, without
from reference.growths import rheo
from reference.rules import RULES
from reference.rules.children import Children
from reference.truncation import truncate, weights_from_logits
from rheo.config import Config
from verify.cells import ONE_BELOW
from verify.enumeration import TooManyOutcomesError, enumerate_outcomes

F = Fraction


def test_an_index_of_weight_zero_is_never_chosen_at_either_end() -> None:
    assert inverse_cdf(np.array([0.0, 0.5, 0.0, 0.5, 0.0]), 0.0) == 1
    assert inverse_cdf(np.array([0.0, 0.5, 0.0, 0.5, 0.0]), 0.5) == 3
    assert inverse_cdf(np.array([0.0, 0.5, 0.0, 0.5, 0.0]), ONE_BELOW) == 3
    assert inverse_cdf(exact([0, 1, 0, 1, 0]), F(1, 2)) == 3


def test_a_probability_of_zero_is_not_accepted_by_a_uniform_of_zero() -> None:
    site = Site("coin", 0)
    assert not bernoulli(0.0, reading({site: 0.0}), site)
    assert not bernoulli(0.25, reading({site: 0.25}), site)
    assert bernoulli(0.25, reading({site: 0.24}), site)
    assert bernoulli(1.0, reading({site: ONE_BELOW}), site)


def test_truncation_keeps_lower_ids_at_a_tied_edge_and_no_zeros() -> None:
    draft = truncate(exact([2, 5, 2, 0, 2]), 3)
    assert draft.tokens.tolist() == [1, 0, 2]
    assert draft.q.tolist() == [F(5, 9), F(2, 9), F(2, 9)]
    assert truncate(exact([0, 3, 0]), 3).tokens.tolist() == [1]


def test_only_a_logit_of_minus_infinity_is_weight_zero() -> None:
    weights = weights_from_logits(np.array([0.0, -5_000.0, -np.inf]))
    assert weights[0] == 1
    assert weights[1] > 0
    assert weights[2] == 0


def test_slots_of_a_parent_by_hand() -> None:
    draft = truncate(exact([8, 6, 3, 3]), None)
    plan = rheo.plan(draft, Config(anchors=1, slots=3, support=None))
    assert (plan.anchors.tolist(), plan.tail.tolist()) == ([0], [1, 2, 3])
    assert plan.proxy == F(8, 20)
    assert plan.tail_law.tolist() == [F(1, 2), F(1, 4), F(1, 4)]
    assert rheo.plan(draft, Config(anchors=2, slots=3, support=None)).proxy == F(6, 20)
    assert rheo.plan(draft, Config(anchors=3, slots=4, support=None)).proxy == F(3, 20)
    assert rheo.plan(draft, Config(anchors=0, slots=3, support=None)).proxy == F(8, 20)


@pytest.mark.parametrize("anchors", [2, 3])
def test_a_support_without_a_tail_has_neither_probe_nor_fillers(anchors: int) -> None:
    plan = rheo.plan(truncate(exact([3, 0, 1]), None), Config(anchors=anchors, slots=4, support=None))
    assert plan.proxy is None
    assert plan.anchors.tolist() == [0, 2]


def test_tempering_is_exact_where_it_can_be_and_refused_where_it_cannot() -> None:
    assert temper(exact([1, 2]), F(1, 2)).tolist() == [F(1, 5), F(4, 5)]
    assert temper(exact([2, 2, 1]), F(0)).tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="irrational"):
        temper(exact([1, 2]), F(2))
    assert temper(np.array([1.0, 4.0]), 2.0) == pytest.approx([1 / 3, 2 / 3])
    with pytest.raises(ValueError, match="zero"):
        normalise(exact([0, 0]))


def test_residuals_by_hand() -> None:
    p, q = normalise(exact([1, 2, 1])), normalise(exact([2, 1, 1]))
    assert residual(p, q).tolist() == [0, 1, 0]
    assert residual(p, p).tolist() == p.tolist()
    assert without(p, 1).tolist() == [F(1, 2), 0, F(1, 2)]
    assert without(exact([0, 1]), 1).tolist() == [0, 1]


def test_a_probe_is_refused_by_the_rule_that_takes_everything_for_certain() -> None:
    children = Children((), 0, (), exact([1, 0]))
    for form in (RULES["point_mass"].recursive, RULES["point_mass"].single_draw):
        with pytest.raises(ValueError, match="wastes"):
            form(exact([1, 0]), children, lambda weights, site: 0, 0)


def test_enumeration_meets_every_outcome_once_with_its_probability() -> None:
    def run(choose):  # type: ignore[no-untyped-def]
        first = choose(np.array([F(1, 2), F(0), F(1, 2)]), Site("probe", 0))
        return (first, choose(np.array([F(1, 3), F(2, 3)]), Site("draw", 0))) if first else (first,)

    outcomes = {o.result: o.mass for o in enumerate_outcomes(run)}
    assert outcomes == {(0,): F(1, 2), (2, 0): F(1, 6), (2, 1): F(1, 3)}
    with pytest.raises(TooManyOutcomesError):
        list(enumerate_outcomes(run, limit=2))
    assert len(list(enumerate_outcomes(run, limit=3))) == 3
