"""Calibration refined from past rounds of the same request: lossless in Fractions, torch like the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from reference import lazy, refinement
from reference.choose import Choose, Site, inverse_cdf
from reference.decoding import Sampler
from reference.distributions import Array
from reference.methods import METHODS as REFERENCE
from reference.refinement import Sums, refine
from reference.tree import Tokens
from reference.verification import single_draw_step
from rheo.calibration import Calibration, Curve, line, scaled, stretched
from rheo.config import Config
from rheo.decoding import Sampler as TorchSampler
from rheo.decoding import play_round
from rheo.methods import METHODS
from rheo.refinement import factors, play_refined
from rheo.uniforms import split_uniforms
from verify.cases import Case
from verify.enumeration import enumerate_outcomes
from verify.laws import Law, target_of, total_variation
from verify.random_toys import random_toy
from verify.torch_toys import ToyPair, automaton

pytestmark = pytest.mark.exact

PRIOR = Fraction(1, 4)  # little: a round is enough to change what the next one grows
CURVES = Calibration(
    anchor=(line(1), ((0, 0), (Fraction(1, 2), Fraction(2, 3)), (1, Fraction(3, 4)))),
    probe=(((0, 0), (Fraction(1, 3), Fraction(1, 4)), (1, Fraction(1, 2))),),
    filler=(line(Fraction(1, 3)), line(Fraction(1, 2))),
)
# vocab, config, rounds, kind
REQUESTS = [
    (2, Config(0, 2, 1, 1, 1), 4, "any"),
    (2, Config(1, 2, 2, 2, 2), 2, "any"),
    (3, Config(1, 3, 1, 1, 2), 3, "any"),
    (3, Config(0, 2, 1, 2, 2), 2, "zeros"),
    (3, Config(1, 3, 2, 2, 3, 2), 2, "mixed"),
    (3, Config(1, 2, 2, 2, 3, None, Fraction(1, 2)), 2, "any"),
]


def request_of(vocab: int, config: Config, kind: str, method: str) -> tuple[Case, Sampler]:
    case = Case(kind, random_toy(vocab + config.budget, vocab, 3, kind), replace(config, calibration=CURVES))
    toy = case.toy
    return case, Sampler(toy.target.exact, toy.draft.exact, case.config, REFERENCE[method], lazy.grow)


def law_of(run: Callable[[Choose], Tokens]) -> Law:
    stops: dict[Tokens, Fraction] = {}
    for outcome in enumerate_outcomes(run):
        stops[outcome.result] = stops.get(outcome.result, Fraction(0)) + outcome.mass
    return Law(stops)


def refined_law(sampler: Sampler, rounds: int, prior: Fraction) -> Law:
    def run(choose: Choose) -> Tokens:
        paths = refinement.decode(sampler, (), rounds, lambda _: choose, prior)
        return tuple(token for path in paths for token in path.tokens)

    return law_of(run)


@pytest.mark.parametrize("method", ["calibrated", "calibrated-transport"])
@pytest.mark.parametrize(("vocab", "config", "rounds", "kind"), REQUESTS)
def test_rounds_refined_by_those_before_them_have_the_law_of_the_target(
    vocab: int, config: Config, rounds: int, kind: str, method: str, count_laws: Callable[[int], None]
) -> None:
    case, sampler = request_of(vocab, config, kind, method)
    law = refined_law(sampler, rounds, PRIOR)
    assert total_variation(law, target_of(case), rounds * (config.depth + 1)) == 0
    count_laws(1)


def test_a_round_refined_by_itself_is_lossy() -> None:
    """The control: were the sums to see the round that they grow, such enumerations would tell."""

    def run(choose: Choose) -> Tokens:
        drawn: dict[Site, int] = {}

        def remembered(weights: Array, site: Site) -> int:
            if site not in drawn:
                drawn[site] = choose(weights, site)
            return drawn[site]

        _, sums = refinement.play_round(sampler, (), remembered, Sums(), CURVES)
        refined = replace(sampler.config, calibration=refine(CURVES, sums, PRIOR))
        for site in [site for site in drawn if site.name != "probe"]:
            del drawn[site]
        return refinement.play_round(replace(sampler, config=refined), (), remembered, Sums(), CURVES)[0].tokens

    found = []
    for seed in range(4):
        case = Case("any", random_toy(seed, 3, 2, "any"), Config(1, 3, 2, 2, 3, calibration=CURVES))
        sampler = Sampler(case.toy.target.exact, case.toy.draft.exact, case.config, REFERENCE["calibrated"])
        found.append(total_variation(law_of(run), target_of(case), 3))
    assert max(found) > 0


def test_refinement_changes_what_is_grown() -> None:
    """Otherwise its being lossless would say nothing."""
    changed = 0
    for vocab, config, rounds, kind in REQUESTS:
        _, sampler = request_of(vocab, config, kind, "calibrated")
        changed += refined_law(sampler, rounds, PRIOR) != refined_law(sampler, rounds, PRIOR * 10**9)
    assert changed >= 2


@pytest.mark.parametrize("factor", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(100)])
@pytest.mark.parametrize("curve", [line(1), line(Fraction(1, 2)), CURVES.anchor[1], ((0, Fraction(1, 2)), (1, 1))])
def test_a_stretched_curve_is_the_curve_times_the_factor_up_to_one(curve: Curve, factor: Fraction) -> None:
    def at(points: Curve, x: Fraction) -> Fraction:
        (a, low), (b, high) = next(pair for pair in pairwise(points) if x <= pair[1][0])
        return Fraction(low) + (x - Fraction(a)) * Fraction(high - low) / Fraction(b - a)

    found = stretched(Calibration(probe=(curve,)), (1, factor, 1)).probe[0]
    for x in (Fraction(i, 24) for i in range(25)):
        assert at(found, x) == min(at(curve, x) * factor, Fraction(1))


def test_predictions_that_come_true_leave_the_calibration_as_it_is_and_others_pull_towards_the_truth() -> None:
    half = Fraction(1, 2)
    right = Sums((half, 1, 2), (half, 1, 2))
    assert refine(CURVES, right, PRIOR) == CURVES == refine(CURVES, Sums(), PRIOR)
    many = Sums((100, 100, 100), (50, 100, 200))
    anchor, probe, filler = refinement.factors(many, Fraction(1))
    assert (anchor, probe, filler) == (Fraction(51, 101), 1, Fraction(201, 101))
    assert refine(scaled(half, half), Sums((1, 100, 1), (1, 50, 1)), Fraction(0)).probe == (line(half / 2),)


# Torch


def reading(config: Config, numbers: NDArray[np.float64]) -> Choose:
    """choose() by one row of a round's uniforms."""
    first = {"coin": config.expansions, "stop": config.expansions, "draw": config.expansions + config.depth}

    def choose(weights: Array, site: Site) -> int:
        probe = site.name == "probe"
        return inverse_cdf(
            weights, numbers[config.expansion(site.depth, site.rank) if probe else first[site.name] + site.depth]
        )

    return choose


@pytest.mark.parametrize("method", ["calibrated", "calibrated-transport"])
@pytest.mark.parametrize("kind", ["any", "ties", "zeros"])
def test_torch_learns_and_grows_as_the_reference_does(kind: str, method: str) -> None:
    """Each request of a batch by its own sums, over three rounds: the same tokens, and the same sums behind each."""
    requests, prior = 12, 0.25
    case = Case(kind, random_toy(3, 5, 2, kind), Config(1, 4, 2, 2, 5, 4, 1.0, CURVES))
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(requests, dtype=torch.int64))
    sums = torch.zeros(requests, 2, 3, dtype=torch.float64)
    for index in range(3):
        numbers = np.random.default_rng(index).random((requests, case.config.decisions))
        before = [Sums(*(tuple(row) for row in each)) for each in sums.tolist()]
        sampler = TorchSampler(case.config, METHODS[method])
        uniforms = split_uniforms(case.config, torch.from_numpy(numbers))
        _, path, sums = play_refined(play_round, sampler, pair, uniforms, sums, prior)
        for i, own in enumerate(before):
            refined = replace(case.config, calibration=refine(CURVES, own, prior))
            reference = Sampler(
                case.toy.target.floats, case.toy.draft.floats, refined, REFERENCE[method], step=single_draw_step
            )
            expected, after = refinement.play_round(reference, (), reading(case.config, numbers[i]), own, CURVES)
            assert tuple(path.tokens[i, : path.lengths[i]].tolist()) == expected.tokens
            assert np.allclose((after.predicted, after.realised), sums[i].numpy(), atol=1e-12)
    assert (factors(sums, prior) != 1).any(-1).all()
