"""A benchmark's expected tokens and the bounds beside them are exact, and shapes are chosen by measured acceptance."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
import torch

from reference.methods import METHODS as REFERENCE
from reference.methods import PAPER
from rheo.config import Config
from rheo.decoding import Sampler, play_round
from rheo.growths.static import Static
from rheo.methods import METHODS
from rheo.uniforms import draw_uniforms
from verify.benchmark import depth_one, expected, shaping
from verify.benchmark.pruning import pruned
from verify.benchmark.shapes import of_record
from verify.benchmark.texts import target_law
from verify.cases import Case
from verify.laws import classes_of, compose, draft_of, exact_law, exact_stops, target_of
from verify.random_toys import random_toy
from verify.torch_law import expected_tree
from verify.torch_toys import ToyPair, automaton
from verify.transport import bound, candidate_sets, min_cut, node_acceptance, slot_plan

pytestmark = pytest.mark.model

EXPECTED = tuple(METHODS)
SMALL = Config(anchors=1, slots=3, beam=2, depth=2, budget=5, support=None, temperature=Fraction(1))


def played(case: Case, method: str, count: int) -> Any:
    """Trees, paths and the target's distributions of `count` rounds on a toy."""
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(count, dtype=torch.int64))
    sampler = Sampler(case.config, METHODS[method])
    tree, path = play_round(sampler, pair, draw_uniforms(case.config, range(count)))
    return tree, path, target_law(sampler, pair.target(tree))


@pytest.mark.parametrize("kind", ["any", "ties", "zeros", "equal", "disjoint", "peaked"])
@pytest.mark.parametrize("method", EXPECTED)
def test_expected_tokens_given_a_tree_are_those_of_exact_enumeration(method: str, kind: str) -> None:
    seen = 0
    # A tree of fixed shape has a class for whatever each of its nodes may be.
    vocab = 3 if isinstance(METHODS[method].growth, Static) else 5
    for change in ({}, {"anchors": 0}, {"anchors": 2, "slots": 4}, {"temperature": Fraction(1, 2)}, {"temperature": 0}):
        case = Case(kind, random_toy(5, vocab, 2, kind), replace(SMALL, **change))
        tree, _, p = played(case, method, 200)
        tokens = expected.tokens(tree, expected.REACH[METHODS[method].rule](tree, p))
        stops = exact_stops(target_of(case), REFERENCE[method].rule)
        trees = {expected_tree(c.result): c.result for c in classes_of(draft_of(case), case.config, REFERENCE[method])}
        exact: dict[Any, float] = {}
        for row, value in enumerate(tokens.tolist()):
            columns = (tree.tokens[row].tolist(), tree.parents[row].tolist(), tree.slots[row].tolist())
            places = zip(*columns, tree.occupied[row].tolist(), strict=True)
            key = tuple((token, parent, slot) for token, parent, slot, there in places if there)
            if key in trees:  # a probe that was never popped is named by its first token there
                if key not in exact:
                    exact[key] = float(compose([(1, trees[key])], stops).accepted + 1)
                assert value == pytest.approx(exact[key], abs=1e-9)
                seen += 1
    assert seen >= 200


@pytest.mark.parametrize("method", EXPECTED)
def test_expected_tokens_are_the_mean_of_sampled_ones_at_every_depth(method: str) -> None:
    case = Case("any", random_toy(8, 8, 3, "any"), Config(1, 4, 3, 3, 9, 6, 1.0))
    tree, path, p = played(case, method, 20_000)
    reach = expected.REACH[METHODS[method].rule](tree, p)
    for depth, share in enumerate(expected.by_depth(tree, reach, 3).T):
        excess = (path.lengths > depth).double() - share
        assert abs(excess.mean()) <= 5 * excess.std() / len(excess) ** 0.5
    assert expected.by_depth(tree, reach, 3)[:, 1:].sum(-1).allclose(expected.tokens(tree, reach) - 1)


def node_of(tree: Any, p: torch.Tensor, slots: int) -> depth_one.Node:
    """The root of the first tree, where the target's distribution is p [V]."""
    support = tree.support[0, 0]
    beside = p.index_fill(0, support, 0).sum().unsqueeze(0)
    return depth_one.Node(p[support], beside, tree.tail_law[0, 0], tree.anchors, slots)


@pytest.mark.parametrize("anchors", [0, 1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_acceptance_at_one_node_and_its_bound_are_those_of_exact_transport(seed: int, anchors: int) -> None:
    toy = random_toy(seed, 7, 0, ("any", "ties", "peaked")[seed % 3])
    config = Config(anchors, 4, 1, 1, 4, 6, Fraction(1))
    weights = toy.draft.exact(())
    case = Case("node", toy, config)
    p = target_of(case)(())
    for name in (*PAPER, "rheo-transport"):
        figures = depth_one.AT_ONE_NODE[METHODS[name].rule]
        tree, _, rows = played(case, name, 1)
        node = node_of(tree, rows[0, 0], config.slots)
        exact = node_acceptance(p, weights, config, REFERENCE[name])
        assert figures.accepted(node) == pytest.approx(float(exact), abs=1e-12)
        assert figures.bound(node) == pytest.approx(
            float(bound(p, slot_plan(weights, config, REFERENCE[name]))), abs=1e-12
        )


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_acceptance_of_drawn_children_and_its_bound_are_those_of_enumeration_and_maximum_flow(
    seed: int, slots: int
) -> None:
    toy = random_toy(seed, 5, 0, ("any", "ties", "peaked", "zeros", "disjoint", "equal")[seed])
    case = Case("node", toy, Config(0, slots, 1, 1, slots, 4, Fraction(1)))
    p = target_of(case)(())
    for name in ("chain", "block", "specinfer", "spectr", "sequoia"):
        figures = depth_one.AT_ONE_NODE[METHODS[name].rule]
        tree, _, rows = played(case, name, 1)
        node = node_of(tree, rows[0, 0], 1 if name in ("chain", "block") else slots)
        law, classes = exact_law(case, REFERENCE[name])
        # The factor is rounded up; refusals of distinct children are so many that 0.03 is far more than five errors.
        error = {"spectr": slots * 2.0**-20, "sequoia": 0.03 if slots > 1 else 0.0}.get(name, 0.0) + 1e-9
        assert figures.accepted(node) == pytest.approx(float(law.accepted), abs=error)
        flow = min_cut(p, candidate_sets((each.mass, each.result) for each in classes))
        assert figures.bound(node) == pytest.approx(float(flow), abs=1e-9)


def test_draws_without_replacement_are_all_inside_a_set_as_often_as_enumeration_says() -> None:
    """However small the rates of those outside."""
    for law in ([0.4, 0.3, 0.2, 0.1], [1.0, 1e-20, 2e-40, 1e-40], [1e-9, 0.5, 0.5, 1e-300]):
        rates = torch.tensor(law, dtype=torch.float64)
        for count in (1, 2, 3, 4):
            exact = [
                sum(
                    math.prod(law[x] / sum(law[y] for y in range(4) if y not in order[:i]) for i, x in enumerate(order))
                    for order in permutations(range(4), count)
                    if max(order) <= last
                )
                for last in range(4)
            ]
            assert depth_one.all_inside(rates, count).tolist() == pytest.approx(exact, abs=1e-9)


def test_no_fixed_set_of_candidates_holds_more_than_the_likeliest_tokens() -> None:
    p = torch.tensor([0.1, 0.4, 0.2, 0.3])
    assert [depth_one.likeliest(p, count) for count in (1, 2, 9)] == pytest.approx([0.4, 0.7, 1.0])


@pytest.mark.parametrize("method", ["specinfer", "spectr"])
def test_a_smaller_complete_tree_is_the_beginning_of_a_larger_one(method: str) -> None:
    large = Case("any", random_toy(3, 6, 3, "any"), Config(0, 3, 1, 3, 20, 4, 1.0))
    tree, _, p = played(large, method, 50)
    for budget in (1, 4, 11, 19):
        small, _, other = played(replace(large, config=replace(large.config, budget=budget)), method, 50)
        beginning = pruned(tree, range(budget))
        assert torch.equal(beginning.tokens, small.tokens)
        assert torch.equal(beginning.parents, small.parents)
        both = ((beginning, p[:, : budget + 1]), (small, other))
        taus = [expected.tokens(grown, expected.REACH[METHODS[method].rule](grown, rows)) for grown, rows in both]
        assert taus[0].allclose(taus[1], atol=1e-12)


def test_measured_acceptance_is_how_often_each_child_of_a_node_that_is_reached_is_the_one_accepted() -> None:
    count = 10_000
    case = Case("any", random_toy(4, 6, 2, "any"), Config(0, 3, 1, 2, 12, None, 1.0))
    sampler = Sampler(case.config, shaping.EVEN)
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(count, dtype=torch.int64))
    tree, path = play_round(sampler, pair, draw_uniforms(case.config, range(count)))
    accepted, reached = shaping.rates(tree, target_law(sampler, pair.target(tree)), case.config)
    visits = count + int((path.rows[:, 0] > 0).sum())
    assert len(set(reached.tolist())) == 1
    assert abs(visits - float(reached[0])) < 5 * count**0.5
    followed = [child for row in path.rows.flatten().tolist() if row > 0 for child in [int(tree.slots[0, row - 1])]]
    for child, share in enumerate(accepted.tolist()):
        assert abs(followed.count(child) - share) < 5 * share**0.5
    assert len(set(accepted.tolist())) == 3


def test_the_number_of_children_that_yields_most_is_taken_and_sequoias_tree_is_made_for_its_acceptance() -> None:
    record = {"contexts": 1, "tau": {"spectr": {"15": {"1": 1.5, "4": 2.0, "2": 2.0}}}, "acceptance": [0.7, 0.2]}
    found = of_record(record)
    config = Config(anchors=5, budget=15)
    assert (found.applied("spectr", config).slots, found.applied("spectr", config).anchors) == (2, 1)
    assert found.applied("spectr", replace(config, budget=16)) == replace(config, budget=16)
    assert found.applied("sequoia", config).acceptance.rates == (0.7, 0.2)
    assert found.applied("rheo", config) == config
