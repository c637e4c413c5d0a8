"""Target processors: torch agrees with the reference, with transformers, and rules out what it says it does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from reference import processors as reference
from reference.distributions import exact, temper
from rheo import processors
from rheo.config import Config
from rheo.decoding import Sampler, play_round
from rheo.methods import METHODS
from rheo.uniforms import draw_uniforms
from tests.fixed_logits import CONFIG, FixedLogits, logits_for

WEIGHTS = [(5, 3, 3, 1, 0, 8), (1, 1, 1, 1, 1, 1), (0, 0, 9, 0, 0, 0), (100, 1, 50, 50, 2, 49)]


def torch_p(weights: tuple[int, ...], *chain: processors.Processor) -> list[float]:
    logits = torch.log(torch.tensor(weights, dtype=torch.float64)).unsqueeze(0)
    return torch.softmax(processors.chain(*chain)(logits), -1)[0].tolist()


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("t", [Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(0)])
def test_temperature_is_the_references(weights: tuple[int, ...], t: Fraction) -> None:
    expected = [float(x) for x in temper(exact(weights), t)]
    assert torch_p(weights, processors.temperature(t)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("k", [1, 2, 3, 6, 50])
def test_top_k_is_the_references(weights: tuple[int, ...], k: int) -> None:
    expected = [float(x) for x in reference.top_k(exact(weights), k)]
    assert torch_p(weights, processors.top_k(k)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("mass", [1e-9, 0.3, 0.45, 0.77, 0.999, 1.0])
def test_top_p_is_the_references(weights: tuple[int, ...], mass: float) -> None:
    expected = [float(x) for x in reference.top_p(exact(weights), Fraction(mass))]
    assert torch_p(weights, processors.top_p(mass)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.37, 0.61])
def test_min_p_is_the_references(weights: tuple[int, ...], ratio: float) -> None:
    expected = [float(x) for x in reference.min_p(exact(weights), Fraction(ratio))]
    assert torch_p(weights, processors.min_p(ratio)) == pytest.approx(expected, abs=1e-12)


def test_tied_tokens_at_the_edge_of_top_p_go_by_token_id() -> None:
    assert torch_p((1, 1, 1, 1), processors.top_p(0.5)) == [0.5, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("build", "wrong"),
    [
        (processors.temperature, (-1.0, float("nan"), float("inf"), 1e-40)),
        (processors.top_k, (0, -3)),
        (processors.top_p, (0.0, 1.1, -0.5)),
        (processors.min_p, (-0.1, 1.5)),
    ],
)
def test_values_outside_their_domain_are_refused(build: object, wrong: tuple[float, ...]) -> None:
    for value in wrong:
        with pytest.raises(ValueError, match=r"must be"):
            build(value)  # type: ignore[operator]


@pytest.mark.parametrize("method", METHODS)
def test_a_processed_target_is_verified_as_the_distribution_it_is(method: str) -> None:
    """The same uniforms give the same tokens as a target whose logits were processed beforehand."""
    process = processors.chain(processors.temperature(0.8), processors.top_k(9), processors.top_p(0.9))
    seeds = list(range(60))
    pair, uniforms = logits_for(seeds), draw_uniforms(CONFIG, seeds)
    before = FixedLogits(pair.rows, process(pair.all))
    inside = play_round(Sampler(CONFIG, METHODS[method], process), pair, uniforms)[1]
    ahead = play_round(Sampler(CONFIG, METHODS[method], processors.chain()), before, uniforms)[1]
    assert torch.equal(inside.tokens, ahead.tokens)
    assert inside.lengths.max() > 1


def test_a_token_that_is_ruled_out_is_never_emitted() -> None:
    seeds = list(range(100))
    pair = logits_for(seeds)
    process = processors.top_k(3)
    tree, path = play_round(Sampler(CONFIG, METHODS["rheo"], process), pair, draw_uniforms(CONFIG, seeds))
    kept = process(pair.all) > -torch.inf
    for request in range(len(seeds)):
        row = 0
        for step in range(int(path.lengths[request])):
            assert kept[request, row, path.tokens[request, step]]
            row = int(path.rows[request, step])
    assert tree.occupied.all()


@pytest.mark.model
def test_processors_agree_with_transformers_warpers() -> None:
    from transformers.generation import logits_process as hf

    logits = torch.randn(20, 300, generator=torch.Generator().manual_seed(0)) * 3
    pairs = [
        (processors.temperature(0.7), hf.TemperatureLogitsWarper(0.7)),
        (processors.top_k(17), hf.TopKLogitsWarper(17)),
        (processors.top_p(0.83), hf.TopPLogitsWarper(0.83)),
        (processors.min_p(0.05), hf.MinPLogitsWarper(0.05)),
    ]
    for ours, theirs in pairs:
        expected = torch.softmax(theirs(torch.zeros(20, 1, dtype=torch.int64), logits.clone()), -1)
        np.testing.assert_allclose(torch.softmax(ours(logits), -1).numpy(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_coldest_temperature_is_the_argmax_and_not_nan(dtype: torch.dtype) -> None:
    logits = torch.tensor([[3.0, -torch.inf, 3.0 + 1e-6, 2.0]], dtype=dtype)
    assert torch.softmax(processors.temperature(1e-30)(logits), -1).tolist() == [[0.0, 0.0, 1.0, 0.0]]
    assert torch.softmax(processors.temperature(0)(logits), -1).tolist() == [[0.0, 0.0, 1.0, 0.0]]


def test_processors_come_behind_the_configurations_temperature() -> None:
    config = Config(**{**vars(CONFIG), "temperature": 0.0})
    pair, uniforms = logits_for([1, 2]), draw_uniforms(CONFIG, [1, 2])
    cold = play_round(Sampler(config, METHODS["rheo"], processors.top_k(20)), pair, uniforms)[1]
    assert torch.equal(cold.tokens[:, 0], pair.all[:, 0].argmax(-1))
