"""The baselines are what their papers say: trees, rules and factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from reference.distributions import Array, exact
from reference.growths.static import proposal
from reference.methods import METHODS
from reference.rules import k_seq
from reference.tree import Tokens
from rheo.acceptance import Acceptance
from rheo.config import Config
from rheo.sequoia import best_shape, optimal
from rheo.shapes import Shape, complete, families
from tests.baselines import FIXED
from verify.cases import Case
from verify.laws import Law, exact_law
from verify.random_toys import random_toy

pytestmark = pytest.mark.exact

STEP = Fraction(1, k_seq.STEPS)


def chains(kind: str, seed: int, temperature: Fraction) -> Case:
    return Case(kind, random_toy(seed, 3, 3, kind), Config(0, 1, 1, 3, 3, None, temperature))


def rows_of(case: Case) -> tuple[Callable[[Tokens], list[Fraction]], Callable[[Tokens], list[Fraction]]]:
    """The target's and the draft's probabilities at the case's temperature, straight from its weights."""

    def rows(weights: Callable[[Tokens], tuple[int, ...]]) -> Callable[[Tokens], list[Fraction]]:
        power = int(1 / Fraction(case.config.temperature))
        return lambda tokens: [Fraction(w**power, sum(v**power for v in weights(tokens))) for w in weights(tokens)]

    return rows(case.toy.target.weights), rows(case.toy.draft.weights)


def block_verification(case: Case) -> dict[Tokens, Fraction]:
    """Algorithm 2 of Sun et al., Block Verification Accelerates Speculative Decoding (2024), over all drafts."""
    big, small = rows_of(case)
    length = case.config.depth
    law: dict[Tokens, Fraction] = {}
    for draft in product(range(case.toy.vocab), repeat=length):
        chance = prod((small(draft[:i])[draft[i]] for i in range(length)), start=Fraction(1))
        if not chance:
            continue
        kept = [Fraction(1)]
        for i, token in enumerate(draft):
            kept.append(min(kept[-1] * big(draft[:i])[token] / small(draft[:i])[token], Fraction(1)))
        excess = [
            [max(kept[i] * b - s, Fraction(0)) for b, s in zip(big(draft[:i]), small(draft[:i]), strict=True)]
            for i in range(length)
        ]
        accept = [sum(over) + 1 - kept[i] for i, over in enumerate(excess)]
        coins = [sum(over) / total if total else Fraction(1) for over, total in zip(excess, accept, strict=True)]
        later = chance
        for i in range(length, -1, -1):  # the longest prefix whose coin accepts it
            here = later * (kept[length] if i == length else coins[i] if i else 1)
            later -= here
            if here:
                over = big(draft) if i == length else excess[i]
                for token, weight in enumerate(over):
                    if weight:
                        emitted = (*draft[:i], token)
                        law[emitted] = law.get(emitted, Fraction(0)) + here * weight / sum(over)
    return law


def lengths(stops: dict[Tokens, Fraction]) -> Counter[int]:
    found: Counter[int] = Counter()
    for tokens, mass in stops.items():
        found[len(tokens)] += mass  # type: ignore[assignment]  # a Counter counts anything that adds
    return found


@pytest.mark.parametrize("temperature", [Fraction(1), Fraction(1, 2)])
@pytest.mark.parametrize("kind", ["any", "zeros", "equal", "peaked", "disjoint"])
def test_transport_on_a_chain_is_block_verification(kind: str, temperature: Fraction) -> None:
    case = chains(kind, 7, temperature)
    stops = exact_law(case, METHODS["block"])[0].stops
    papers = block_verification(case)
    assert lengths(stops) == lengths(papers)
    assert Law(stops).accepted == Law(papers).accepted
    assert stops == papers


def test_a_chain_is_speculative_sampling_and_a_block_accepts_no_less() -> None:
    """The number of tokens accepted is the product of the steps' overlaps, summed."""
    above = 0
    for seed in range(6):
        case = chains("any", seed, Fraction(1))
        big, small = rows_of(case)

        def expected(tokens: Tokens, case: Case = case, big: object = big, small: object = small) -> Fraction:
            if len(tokens) == case.config.depth:
                return Fraction(0)
            pairs = zip(rows_of(case)[0](tokens), rows_of(case)[1](tokens), strict=True)
            return sum(
                (min(p, q) * (1 + expected((*tokens, token))) for token, (p, q) in enumerate(pairs)), start=Fraction(0)
            )

        accepted = exact_law(case, METHODS["chain"])[0].accepted
        block = exact_law(case, METHODS["block"])[0].accepted
        assert accepted == expected(())
        assert block >= accepted
        above += block > accepted
    assert above


def test_a_chain_reads_depth_support_and_temperature_alone() -> None:
    toy = random_toy(2, 4, 3, "any")
    for method in ("chain", "block"):
        first, *others = (
            exact_law(Case("any", toy, Config(m, k, b, 3, r, 3, Fraction(1))), METHODS[method])[0]
            for m, k, b, r in ((0, 1, 1, 3), (1, 2, 3, 1), (2, 4, 1, 9))
        )
        assert all(other == first for other in others)
        assert max(map(len, first.stops)) == 4


@pytest.mark.parametrize("method", FIXED)
def test_one_child_a_node_is_a_chain(method: str) -> None:
    case = chains("any", 3, Fraction(1, 2))
    assert exact_law(case, METHODS[method])[0] == exact_law(case, METHODS["chain"])[0]


def test_the_multi_round_rule_accepts_what_its_definition_says() -> None:
    """SpecInfer at one node: min(p, q) of the running residual in every round, q the same."""
    case = Case("any", random_toy(4, 4, 1, "any"), Config(0, 3, 1, 1, 3, None, Fraction(1)))
    p, q = (rows(()) for rows in rows_of(case))
    accepted, left = Fraction(0), Fraction(1)
    for _ in range(3):
        overlap = sum(map(min, p, q))
        accepted, left = accepted + left * overlap, left * (1 - overlap)
        rest = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
        p = [a / sum(rest) for a in rest]
    assert exact_law(case, METHODS["specinfer"])[0].accepted == accepted


def test_distinct_draws_carry_the_renormalised_rest_of_the_law() -> None:
    case = Case("any", random_toy(4, 4, 1, "any"), Config(0, 3, 1, 1, 3, None, Fraction(1)))
    q = rows_of(case)[1](())
    for outcome in exact_law(case, METHODS["sequoia"])[1]:
        tokens = [node.token for node in outcome.result.nodes]
        assert len(set(tokens)) == len(tokens) == 3
        for place, node in enumerate(outcome.result.nodes):
            rest = [Fraction(0) if token in tokens[:place] else weight for token, weight in enumerate(q)]
            assert outcome.result.laws[node.path].tolist() == [weight / sum(rest) for weight in rest]


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_k_seq_takes_the_least_lossless_factor_on_its_grid_and_loses_less_than_it_by_rounding(count: int) -> None:
    rng = np.random.default_rng(count)
    rounded = 0
    for _ in range(20):
        p, q = (exact(row) / int(row.sum()) for row in rng.integers(0, 12, (2, 5)) + np.eye(5, dtype=int)[:2])
        rho = k_seq.factor(tuple(p), tuple(q), count)
        assert 1 <= rho <= count
        assert k_seq.covers(p, q, count, rho)
        if rho > 1:  # the root lies between it and the factor one step below, which accepts more
            assert not k_seq.covers(p, q, count, rho - STEP)
            lost = k_seq.refused(p, q, count, rho) - k_seq.refused(p, q, count, rho - STEP)
            assert 0 <= lost < count * STEP
            rounded += 1
        due = p - np.minimum(p / rho, q) * overdue(p, q, count, rho)
        assert min(due) >= 0
        if rho > 1:
            assert min(p - np.minimum(p / (rho - STEP), q) * overdue(p, q, count, rho - STEP)) < 0
    assert rounded > (5 if count > 1 else -1)
    assert rounded == 0 or count > 1


def overdue(p: Array, q: Array, count: int, rho: Fraction) -> Fraction:
    """c / beta, from their definitions."""
    beta = sum(np.minimum(p / rho, q))
    return Fraction(0) if not beta else (1 - (1 - beta) ** count) / beta


def test_k_seq_in_floats_takes_the_same_factor_where_the_draft_is_the_target() -> None:
    """Summed as one minus beta, a rounding error of 1e-16 would lift it by its tenth root: 2.5 percent."""
    row = np.array([0.1, 0.2, 0.3, 0.4]) / np.array([0.1, 0.2, 0.3, 0.4]).sum()
    assert k_seq.factor(tuple(row), tuple(row), 10) == 1.0


def test_spectr_accepts_what_k_seq_says_at_one_node() -> None:
    case = Case("any", random_toy(4, 4, 1, "any"), Config(0, 3, 1, 1, 3, None, Fraction(1)))
    p, q = (np.array(rows(()), dtype=object) for rows in rows_of(case))
    rho = k_seq.factor(tuple(p), tuple(q), 3)
    beta = sum(np.minimum(p / rho, q))
    c = 1 - (1 - beta) ** 3
    accepted = exact_law(case, METHODS["spectr"])[0].accepted
    assert c <= accepted < c + 3 * STEP  # a refused child keeps what rounding leaves of it, and is a child


def shapes(slots: int, depth: int, budget: int) -> Iterator[frozenset[tuple[int, ...]]]:
    """Every tree whose nodes have elder siblings and parents in it."""
    frontier = {frozenset[tuple[int, ...]]()}
    for _ in range(budget + 1):
        yield from frontier
        grown = set()
        for shape in frontier:
            for parent in [(), *shape]:
                child = (*parent, sum(path[:-1] == parent and len(path) == len(parent) + 1 for path in shape))
                if len(child) <= depth and child[-1] < slots:
                    grown.add(shape | {child})
        frontier = grown


def worth(shape: Shape | frozenset[tuple[int, ...]], rates: tuple[Fraction, ...]) -> Fraction:
    return sum((prod((rates[slot] for slot in path), start=Fraction(1)) for path in shape), start=Fraction(0))


@pytest.mark.parametrize("rates", ["3/5 6/25 12/125", "1/5 1/2 2/5", "1/2 0 1/3", "1/3 1/3 1/3"])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_programmed_shape_is_worth_as_much_as_the_best_of_all(rates: str, depth: int) -> None:
    vector = tuple(Fraction(rate) for rate in rates.split())
    for budget in range(1, 6):
        shape = best_shape(vector, depth, budget)
        everything = list(shapes(3, depth, budget))
        assert frozenset(shape) in everything
        assert worth(shape, vector) == max(worth(other, vector) for other in everything)


def test_shapes_on_a_case_file() -> None:
    config = Config(1, 3, 2, 2, 5, None)
    assert complete(config) == ((0,), (1,), (2,), (0, 0), (0, 1))
    assert optimal(config) == ((0,), (1,), (0, 0), (0, 1), (1, 0))
    steep = replace(config, depth=3, acceptance=Acceptance((0.9, 0.1)))
    assert optimal(steep) == ((0,), (1,), (0, 0), (0, 1), (0, 0, 0))
    assert optimal(replace(config, acceptance=Acceptance((0.3, 0.3, 0.3)))) == complete(config)
    assert complete(replace(config, depth=1)) == ((0,), (1,), (2,))
    assert families(complete(config)) == {(): range(3), (0,): range(3, 5)}
    assert len(optimal(Config())) == 59


@pytest.mark.parametrize("rates", [(), (0, 1), (0.5, 1.5), (0.5, float("nan"))])
def test_an_acceptance_vector_holds_probabilities(rates: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="acceptance rates"):
        Acceptance(rates)


def test_the_law_that_draws_are_from_is_the_truncated_draft_at_its_temperature() -> None:
    law = proposal(exact([4, 0, 2, 2, 1]), Config(support=3, temperature=Fraction(1, 2)))
    assert law.tolist() == [Fraction(4, 6), 0, Fraction(1, 6), Fraction(1, 6), 0]
    assert proposal(exact([1, 2, 2]), Config(temperature=Fraction(0))).tolist() == [0, 1, 0]
