"""Torch and reference under the same uniforms give the same trees and the same paths."""

from __future__ import annotations

import hashlib
import itertools
import random

import numpy as np
import pytest
import torch
from torch import Tensor

from reference.methods import METHODS
from rheo.config import Config
from verify.cases import Case
from verify.cells import ONE_BELOW
from verify.parity import FunctionPair, Logits, boundary_rows, disagreements, toy_disagreements
from verify.precision import PRECISIONS
from verify.random_toys import KINDS, random_toy
from verify.toys import Table, Tokens, Toy

pytestmark = pytest.mark.exact

SLACK = {precision.dtype: precision.slack for precision in PRECISIONS.values()}


def random_logits(vocab: int, seed: int, dtype: torch.dtype, step: float, spread: float = 3.0) -> Logits:
    """Normal logits of each prefix, rounded to multiples of `step` so that many are tied; 0 keeps them apart."""
    cache: dict[Tokens, Tensor] = {}

    def logits(tokens: Tokens) -> Tensor:
        if tokens not in cache:
            digest = hashlib.sha256(f"{seed}/{vocab}/{tokens}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            values = torch.randn(vocab, generator=generator, dtype=torch.float64) * spread
            cache[tokens] = ((values / step).round() * step if step else values).to(dtype)
        return cache[tokens]

    return logits


def near_target(draft: Logits, seed: int, noise: float = 1.0) -> Logits:
    """A target that resembles the draft, so that drafts are accepted and paths get long."""

    def logits(tokens: Tokens) -> Tensor:
        base = draft(tokens)
        other = random_logits(len(base), seed, base.dtype, 0.0, noise)
        return base + other(tokens)

    return logits


def uniforms(config: Config, random_rows: int, seed: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).random((random_rows, config.decisions))
    return np.concatenate([boundary_rows(config), numbers])


def assert_parity(logits: tuple[Logits, Logits], config: Config, method: str, numbers: np.ndarray) -> int:
    """No disagreement but where rounding decides; returns how many rounds rounding did decide."""
    dtype = logits[0](()).dtype
    found = disagreements(FunctionPair(*logits), logits, config, method, numbers, SLACK[dtype])
    assert [d.line for d in found if not d.near] == []
    return len(found)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [0.0, 0.5], ids=["apart", "tied"])
@pytest.mark.parametrize("vocab", [97, 2_000])
def test_parity_on_random_logits(vocab: int, step: float, method: str) -> None:
    config = Config(anchors=1, slots=6, beam=4, depth=4, budget=20, support=32, temperature=1.0)
    draft = random_logits(vocab, 1, torch.float64, step)
    numbers = uniforms(config, 40, seed=vocab)
    assert assert_parity((draft, near_target(draft, 2)), config, method, numbers) <= 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("vocab", [32_000, 50_257, 128_256])
def test_parity_at_real_vocabularies_with_forced_ties(vocab: int, dtype: torch.dtype, method: str) -> None:
    config = Config(anchors=1, slots=10, beam=3, depth=4, budget=24, support=128, temperature=1.0)
    draft = random_logits(vocab, 3, dtype, 0.25, spread=2.0)
    assert_parity((draft, near_target(draft, 4)), config, method, uniforms(config, 4, seed=vocab))


def test_parity_at_the_default_shape() -> None:
    config = Config(temperature=1.0)
    draft = random_logits(4_096, 5, torch.float64, 0.125)
    assert assert_parity((draft, near_target(draft, 6)), config, "rheo", uniforms(config, 3, seed=1)) == 0


@pytest.mark.parametrize("temperature", [0.0, 0.3, 0.7, 1.5])
@pytest.mark.parametrize("anchors", [0, 1, 3])
def test_parity_at_other_temperatures_and_anchors(anchors: int, temperature: float) -> None:
    config = Config(anchors=anchors, slots=5, beam=3, depth=3, budget=15, support=20, temperature=temperature)
    draft = random_logits(200, 7, torch.float64, 0.5)
    for method in METHODS:
        assert_parity((draft, near_target(draft, 8)), config, method, uniforms(config, 20, seed=anchors))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_parity_on_toys_with_zeros_ties_and_disjoint_supports(kind: str, dtype: str) -> None:
    for number, (anchors, support) in enumerate([(0, None), (1, 3), (2, None)]):
        config = Config(anchors, 4, 2, 3, 9, support, 1.0)
        case = Case(kind, random_toy(number, 5, 3, kind), config)
        numbers = uniforms(config, 12, seed=number)
        for method in METHODS:
            assert toy_disagreements(case, method, PRECISIONS[dtype], numbers) == []


def test_the_boundary_uniforms_are_zero_and_one_minus_an_ulp() -> None:
    rows = boundary_rows(Config())
    assert ONE_BELOW == 1 - 2.0**-53
    assert set(np.unique(rows[:, : -Config().depth - 1])) == {0.0, ONE_BELOW}
    assert set(np.unique(rows[:, -Config().depth - 1 :])) == {0.0, 0.5, ONE_BELOW}
    assert len({tuple(row) for row in rows}) == len(rows) == 12


@pytest.mark.parametrize("seed", range(30))
def test_parity_where_scores_of_different_depths_and_branches_tie(seed: int) -> None:
    """Powers of two make products of different paths equal: the frontier's order by slot path then decides."""
    rng = random.Random(seed)
    vocab, depth = rng.choice((3, 4)), rng.choice((3, 4))
    prefixes = [p for length in range(depth) for p in itertools.product(range(vocab), repeat=length)]
    draft = {p: tuple(rng.choice((1, 2, 2, 4, 8)) for _ in range(vocab)) for p in prefixes}
    toy = Toy(vocab, Table((1,) * vocab, {}), Table((1,) * vocab, draft))
    slots = rng.choice((2, 3))
    config = Config(rng.randrange(2), slots, rng.choice((3, 5)), depth, rng.randint(8, 22), None, 1.0)
    numbers = uniforms(config, 16, seed)
    for method in METHODS:
        assert toy_disagreements(Case("powers", toy, config), method, PRECISIONS["float64"], numbers) == []
