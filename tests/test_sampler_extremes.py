"""The torch sampler is right at extremes: cold and zero temperatures, underflow, ties, drafts of one token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rheo.config import Config
from rheo.decoding import decode, play_round
from rheo.distributions import inverse_cdf, softmax
from rheo.growth import grow
from rheo.growths import rheo
from rheo.methods import METHODS
from rheo.tree import PROBE, Tree
from rheo.truncation import top, truncate
from rheo.uniforms import draw_uniforms, split_uniforms
from tests.fixed_logits import CONFIG, FixedLogits, logits_for, sampler
from verify.random_toys import random_toy
from verify.torch_toys import ToyModels, automaton


def test_a_probability_that_underflows_is_still_a_candidate() -> None:
    logits = torch.full((1, 1, 6), -torch.inf, dtype=torch.float64)
    logits[0, 0, 2], logits[0, 0, 4], logits[0, 0, 5] = 0.0, -2_000.0, -2_001.0
    draft = truncate(logits, None)
    assert draft.candidate.sum() == 3
    assert draft.q[0, 0, 1] == 0.0  # underflowed
    plan = rheo.plan(draft, Config(anchors=1, slots=3, support=None))
    assert plan.tail_law[0, 0, :2].tolist() == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))], rel=1e-12)
    config = Config(anchors=1, slots=3, beam=1, depth=1, budget=3, support=None)
    tree = grow(lambda _: logits, draw_uniforms(config, [0]).probe, config, METHODS["rheo"].growth)
    assert tree.occupied.all()
    assert (tree.kinds == PROBE).sum() == 1


@pytest.mark.parametrize("cold", [1e-3, 1e-30])
def test_a_cold_tail_does_not_underflow_beside_the_anchors(cold: float) -> None:
    draft = truncate(torch.tensor([[[5.0, 1.0, 0.99, -3.0]]]), None)
    law = rheo.plan(draft, Config(anchors=1, slots=3, temperature=cold)).tail_law[0, 0]
    assert torch.isfinite(law).all()
    assert law.sum() == pytest.approx(1)
    assert law.argmax() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("vocab", [7, 300, 5_000, 50_257])
def test_truncation_sorts_by_logit_then_by_token_id_with_any_ties(vocab: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(vocab)
    for step in (0.01, 1.0, 100.0):
        values = ((torch.randn(3, vocab, generator=generator) * 4) / step).round().to(dtype) * step
        values[1, ::2] = -torch.inf
        values[2] = -0.0
        values[2, ::3] = 0.0
        count = min(128, vocab)
        indices, largest = top(values, count)
        expected = np.argsort(-values.numpy(), axis=-1, kind="stable")[:, :count]
        np.testing.assert_array_equal(indices.numpy(), expected)
        assert torch.equal(largest, values.amax(-1))


def shape_of(tree: Tree) -> list[object]:
    return [t.tolist() for t in (tree.tokens, tree.parents, tree.slots, tree.depths, tree.occupied)]


def test_without_anchors_the_cold_limit_is_the_top_k_tree() -> None:
    for seed in range(20):
        for cold in (0.0, 1e-6):
            config = replace(CONFIG, anchors=0, temperature=cold)
            pair = logits_for([seed], config)
            probe = draw_uniforms(config, [seed]).probe
            trees = [grow(pair.draft, probe, config, METHODS[m].growth) for m in ("rheo", "topk")]
            assert shape_of(trees[0]) == shape_of(trees[1])


def test_with_an_anchor_the_cold_limit_need_not_be_the_top_k_tree() -> None:
    config = replace(CONFIG, anchors=1, temperature=0.0)
    different = 0
    for seed in range(20):
        pair, probe = logits_for([seed], config), draw_uniforms(config, [seed]).probe
        trees = [grow(pair.draft, probe, config, METHODS[m].growth) for m in ("rheo", "topk")]
        different += shape_of(trees[0]) != shape_of(trees[1])
    assert different > 0


@pytest.mark.parametrize("method", METHODS)
def test_at_temperature_zero_the_output_is_the_targets_argmax(method: str) -> None:
    config = replace(CONFIG, temperature=0.0)
    toy = random_toy(2, 6, 3, "ties")
    models = ToyModels(automaton(toy, torch.float32))
    contexts = torch.zeros(5, 0, dtype=torch.int64)
    decoded = decode(
        sampler(method, config), models, contexts, torch.zeros(5, dtype=torch.int64),
        2, lambda i: draw_uniforms(config, [1, 2, 3, 4, 5], i),
    )  # fmt: skip
    for row, length in zip(decoded.tokens.tolist(), decoded.lengths.tolist(), strict=True):
        for i in range(length):
            weights = toy.target.weights(tuple(row[:i]))
            assert row[i] == weights.index(max(weights))


def test_a_rejection_whose_residual_rounds_to_nothing_falls_back_to_the_target() -> None:
    """p equals q~ here, so a rejection has probability zero; forced by a coin of 1 - ulp it must not give NaN."""
    config = Config(anchors=0, slots=1, beam=1, depth=1, budget=1, support=None)
    logits = torch.log(torch.tensor([0.1, 0.2, 0.7]))
    pair = FixedLogits(logits.expand(1, 1, 1, 3), logits.expand(1, 2, 3))
    for probe in (0.05, 0.2, 0.9):
        numbers = torch.tensor([[probe, 1 - 2.0**-53, 0.999, 0.5]], dtype=torch.float64)
        _, path = play_round(sampler(config=config), pair, split_uniforms(config, numbers))
        assert ((path.tokens[0, : path.lengths[0]] >= 0) & (path.tokens[0, : path.lengths[0]] < 3)).all()


def test_a_budget_larger_than_all_candidates_keeps_them_all() -> None:
    config = Config(anchors=1, slots=2, beam=1, depth=2, budget=59, support=None)
    tree, path = play_round(
        sampler(config=config), logits_for([1], replace(config, budget=4)), draw_uniforms(config, [1])
    )
    assert tree.tokens.shape == (1, 4)
    assert tree.occupied.all()
    assert path.tokens.shape == (1, 3)


@pytest.mark.parametrize("vocab", [50, 5_000])
@pytest.mark.parametrize("support", [None, 700])
def test_a_draft_that_knows_one_token_has_an_anchor_and_nothing_else(vocab: int, support: int | None) -> None:
    config = replace(CONFIG, support=support)
    pair = logits_for([1, 2], config, vocab=vocab)
    pair.rows[:] = -torch.inf
    pair.rows[..., 7] = 0.0
    tree, path = play_round(sampler(config=config), pair, draw_uniforms(config, [1, 2]))
    assert (tree.tokens[tree.occupied] == 7).all()
    assert tree.occupied.sum(-1).tolist() == [3, 3]
    assert (path.lengths >= 1).all()


def test_the_tails_mass_is_summed_and_not_one_minus_the_anchors() -> None:
    draft = truncate(torch.tensor([[[0.0, -40.0, -41.0]]], dtype=torch.float64), None)
    assert 1 - float(draft.q[0, 0, 0]) == 0.0  # what is left beside the anchor, by subtraction
    plan = rheo.plan(draft, Config(anchors=1, slots=3, support=None))
    assert float(plan.proxy[0, 0]) == pytest.approx(np.exp(-40) + np.exp(-41), rel=1e-12)
    assert plan.proxy[0, 0] >= plan.scores[0, 0, 1]


@pytest.mark.parametrize("n", [3, 512, 513, 5_000, 131_072])
def test_an_inverse_cdf_of_many_float32_weights_does_not_drift(n: int) -> None:
    rng = np.random.default_rng(n)
    weights = torch.from_numpy(rng.random((8, n)).astype(np.float32) * (rng.random((8, n)) < 0.7))
    weights[:, 1] = 0.1
    cumulative = weights.double().cumsum(-1)
    uniform = torch.from_numpy(rng.random(8))
    uniform[0], uniform[1] = 0.0, 1 - 2.0**-53
    found = inverse_cdf(weights, uniform)
    goal = uniform * cumulative[:, -1]
    assert (weights.gather(1, found[:, None]) > 0).all()
    above = cumulative.gather(1, found[:, None])[:, 0]
    below = above - weights.double().gather(1, found[:, None])[:, 0]
    slack = 1e-9 * cumulative[:, -1]
    assert ((below <= goal + slack) & (goal <= above + slack)).all()
    assert found[0] == int((weights[0] > 0).long().argmax())


@pytest.mark.parametrize("n", [5, 700])
@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_an_inverse_cdf_of_nothing_is_the_end(n: int, value: float) -> None:
    assert inverse_cdf(torch.full((2, n), value), torch.tensor([0.0, 0.5], dtype=torch.float64)).tolist() == [n, n]


@pytest.mark.parametrize("n", [0, 1, 3, 32, 33, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_of_any_length_are_normalised_alike(n: int, dtype: torch.dtype) -> None:
    logits = torch.randn(50, 2, n, dtype=dtype, generator=torch.Generator().manual_seed(n)) * 30
    if n > 1:
        logits[0, 0, 0] = -torch.inf
        logits[1, 1] = -torch.inf
        logits[2, 0, 1] = torch.inf
        logits[3, 0, 0] = torch.nan
    found, wanted = softmax(logits), torch.softmax(logits, -1)
    assert torch.allclose(found, wanted, rtol=1e-5 if dtype == torch.float32 else 1e-13, atol=0, equal_nan=True)
    assert ((found == 0) == (wanted == 0)).all()
