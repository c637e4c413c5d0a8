"""The output law of every method equals the target's, in Fractions, with zero tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from reference import growth, lazy
from reference.choose import Choose
from reference.decoding import Grow, Sampler, decode, play_round
from reference.methods import METHODS, PAPER, SLOTTED
from reference.rules import Rule
from reference.tree import Path as Emitted
from reference.tree import Tokens
from reference.verification import Step, recursive_step, single_draw_step, survivors
from rheo.config import Config
from tests.conftest import SHARED_CASES
from verify.cases import Case, load
from verify.enumeration import TooManyOutcomesError, enumerate_outcomes
from verify.gate import packaged_cases
from verify.laws import Law, exact_law, sequences, step_key, step_law, target_of, total_variation
from verify.random_toys import KINDS, random_toy

pytestmark = pytest.mark.exact

# A class more costs a tree more and its steps. A sweep over budgets ends where its classes become more than this; its
# shape then has a second sweep, over all budgets, with a support that leaves fewer of them.
MOST_CLASSES = 60

SHAPES = [
    (anchors, slots, beam, depth)
    for slots in (1, 2, 3, 4)
    for anchors in range(slots)
    for beam in (1, 2, 3)
    for depth in (1, 2, 3)
]
TEMPERATURES = (Fraction(1), Fraction(1, 2), Fraction(1, 3))


def sweep(number: int, vocab: int, support: int | None) -> list[Case]:
    """One shape with every budget; kinds of toys and temperatures in turn."""
    anchors, slots, beam, depth = SHAPES[number]
    kind = KINDS[number % len(KINDS)]
    temperature = TEMPERATURES[(number // 3) % 3] if depth < 3 else Fraction(1)
    toy = random_toy(number, vocab, depth if vocab < 5 else min(depth, 2), kind)
    budgets = range(1, slots + (depth - 1) * beam * slots + 1)
    configs = [Config(anchors, slots, beam, depth, budget, support, temperature) for budget in budgets]
    return [Case(f"{kind}-{number}-{config.budget}", toy, config) for config in configs]


def small_support(number: int, method: str) -> int:
    """Anchors and a tail so short that all probes together have few outcomes."""
    anchors, _, beam, depth = SHAPES[number]
    if method.startswith("adaptive"):
        anchors = 0  # it may leave everything to the tail
    probes = 1 + beam * (depth - 1)
    return anchors + max(tail for tail in (1, 2, 3, 4, 5) if tail**probes <= MOST_CLASSES or tail == 1)


@pytest.mark.parametrize("method", SLOTTED)
@pytest.mark.parametrize("vocab", [2, 3, 4, 5, 6])
def test_the_output_law_is_the_target_over_the_grid(vocab: int, method: str, count_laws: Callable[[int], None]) -> None:
    laws = 0
    supports = (None, *range(1, vocab + 1))
    for number, shape in enumerate(SHAPES):
        if method == "topk" and shape[0]:
            continue  # top-K ignores anchors: those laws would be counted several times
        try:
            for case in sweep(number, vocab, supports[(number * 7 + vocab) % len(supports)]):
                laws += check_law(case, method)
        except TooManyOutcomesError:
            for case in sweep(number, vocab, small_support(number, method)):
                laws += check_law(case, method)
    count_laws(laws)
    assert laws >= len(SHAPES) if method != "topk" else laws > 0


def check_law(case: Case, method: str) -> int:
    law, _ = exact_law(case, METHODS[method], MOST_CLASSES)
    assert total_variation(law, target_of(case), case.config.depth + 1) == 0, (method, case)
    return 1


@pytest.mark.parametrize("path", [*packaged_cases(), *SHARED_CASES], ids=lambda path: path.stem)
def test_every_case_file_is_lossless_and_gives_what_it_expects(path: Path, count_laws: Callable[[int], None]) -> None:
    case = load(path)
    if not case.rational:
        case = replace(case, config=replace(case.config, temperature=Fraction(1)), expect={})
    for name in SLOTTED:
        law, classes = exact_law(case, METHODS[name])
        assert total_variation(law, target_of(case), case.config.depth + 1) == 0
        seen = {"tv": "0", "accepted": str(Fraction(law.accepted)), "classes": len(classes)}
        for key, value in case.expect.get(name, {}).items():
            assert seen[key] == value, (name, key)
    count_laws(len(SLOTTED))


def test_at_least_six_real_recordings_are_packaged() -> None:
    assert sum(path.parent.name == "recorded" for path in packaged_cases()) >= 6


TWO_ROUNDS = [
    (vocab, Config(anchors, slots, beam, depth, budget, support, temperature), kind)
    for number, (vocab, anchors, slots, beam, depth, budget, support, temperature) in enumerate(
        [
            (2, 0, 2, 1, 1, 2, None, Fraction(1)),
            (3, 1, 3, 1, 1, 3, None, Fraction(1)),
            (3, 1, 2, 1, 1, 2, 2, Fraction(1, 2)),
            (4, 0, 3, 1, 1, 2, None, Fraction(1)),
            (2, 1, 2, 2, 2, 4, None, Fraction(1)),
            (2, 0, 2, 2, 2, 3, None, Fraction(1, 3)),
            (3, 1, 2, 2, 2, 3, None, Fraction(1)),
        ]
    )
    for kind in (KINDS[number % len(KINDS)], "any")
]


@pytest.mark.parametrize(("vocab", "config", "kind"), TWO_ROUNDS)
@pytest.mark.parametrize("method", SLOTTED)
def test_two_rounds_together_have_the_law_of_the_target(
    vocab: int, config: Config, kind: str, method: str, count_laws: Callable[[int], None]
) -> None:
    length = 2 * (config.depth + 1)
    case = Case(kind, random_toy(vocab, vocab, min(length - 1, 3), kind), config)
    sampler = sampler_of(case, method, lazy=True)

    def run(choose: Choose) -> Tokens:
        return tuple(token for path in decode(sampler, (), 2, lambda _: choose) for token in path.tokens)

    stops: dict[Tokens, Fraction] = {}
    for outcome in enumerate_outcomes(run):
        stops[outcome.result] = stops.get(outcome.result, Fraction(0)) + outcome.mass
    assert total_variation(Law(stops), target_of(case), length) == 0
    count_laws(1)


def sampler_of(case: Case, method: str, lazy: bool, step: Step = recursive_step) -> Sampler:
    toy = case.toy
    return Sampler(toy.target.exact, toy.draft.exact, case.config, METHODS[method], grower(lazy), step)


def grower(lazily: bool) -> Grow:
    return lazy.grow if lazily else growth.grow


@pytest.mark.parametrize("step", [recursive_step, single_draw_step])
@pytest.mark.parametrize("method", SLOTTED)
@pytest.mark.parametrize("kind", ["any", "ties", "zeros", "mixed"])
def test_whole_rounds_enumerated_decision_by_decision_have_the_composed_law(
    kind: str, method: str, step: Step, count_laws: Callable[[int], None]
) -> None:
    """The law is composed step by step; this runs growth and verification as one, probes drawn eagerly."""
    case = Case(kind, random_toy(3, 3, 2, kind), Config(1, 3, 2, 2, 5, None, Fraction(1, 2)))
    sampler = sampler_of(case, method, lazy=False, step=step)

    def run(choose: Choose) -> Emitted:
        return play_round(sampler, (), choose)

    stops: dict[Tokens, Fraction] = {}
    for outcome in enumerate_outcomes(run):
        tokens = outcome.result.tokens
        stops[tokens] = stops.get(tokens, Fraction(0)) + outcome.mass
    assert stops == exact_law(case, METHODS[method])[0].stops
    count_laws(1)


@pytest.mark.parametrize("method", PAPER)
@pytest.mark.parametrize("kind", KINDS)
def test_the_single_draw_form_of_a_rule_has_the_law_of_its_recursion(kind: str, method: str) -> None:
    case = Case(kind, random_toy(5, 5, 2, kind), Config(1, 4, 2, 2, 6, None, Fraction(1)))
    rule, target_at = METHODS[method].rule, target_of(case)
    assert isinstance(rule, Rule)
    seen = set()
    for outcome in exact_law(case, METHODS[method])[1]:
        tree = outcome.result
        for path, tokens in [((), ()), *((node.path, node.tokens) for node in tree.nodes)]:
            p = target_at(tokens)
            children = survivors(tree, path, len(p))
            if step_key(tokens, children) in seen:
                continue
            seen.add(step_key(tokens, children))
            single: dict[tuple[int | None, int], Fraction] = {}
            run = partial(single_draw_step, p, children, rule, depth=len(path))
            for fall in enumerate_outcomes(run):
                single[fall.result] = single.get(fall.result, Fraction(0)) + fall.mass
            assert single == step_law(p, children, rule, len(path))
    assert len(seen) > 1


def test_total_variation_agrees_with_the_sum_over_all_sequences() -> None:
    """The recursion stops early below the last emission; the dense sum does not. On a law made wrong on purpose."""
    case = Case("any", random_toy(1, 3, 2, "any"), Config(1, 3, 2, 2, 5, None, Fraction(1)))
    law, _ = exact_law(case, METHODS["rheo"])
    first, second, *_ = law.stops
    moved = min(law.stops[first], law.stops[second]) / 3
    wrong = Law({**law.stops, first: law.stops[first] - moved, second: law.stops[second] + moved})
    target_at = target_of(case)
    dense = Fraction(0)
    for sequence, mass in sequences(wrong, target_at, 3, 3):
        expected = Fraction(1)
        for i, token in enumerate(sequence):
            expected *= target_at(sequence[:i])[token]
        dense += abs(mass - expected) / 2
    assert total_variation(wrong, target_at, 3) == dense > 0
