"""What transformers' acceptance does with the coins at both ends of [0, 1), and where there is no residual."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation import utils as generation

from tests.test_engines import EAGER, as_found, counted, judge, pair
from verify.engines.toy_models import LookupModel, seeded
from verify.engines.transformers_assisted import assisted_generation
from verify.engines.transformers_speculative import speculative_sampling
from verify.random_toys import random_toy
from verify.subjects import Factory

pytestmark = pytest.mark.model

ULP = 2.0**-24  # the step of torch.rand in float32: k * ULP for k = 0 .. 2^24 - 1
INF = float("inf")


def step(coin: float | None, monkeypatch: pytest.MonkeyPatch, p: Any, q: Any, drafted: int) -> list[int]:
    """The tokens of a round with one draft; p, q: logits. coin: what the acceptance draws, None for what it draws."""
    if coin is not None:
        monkeypatch.setattr(torch, "rand_like", lambda x: torch.full_like(x, coin))
    ids, q_logits = torch.tensor([[drafted]]), torch.tensor([[q]])
    tokens, _ = generation._speculative_sampling(ids, q_logits, 1, torch.tensor([[p, p]]))
    result: list[int] = tokens[0].tolist()
    return result


@as_found
def test_a_coin_of_zero_accepts_a_token_of_probability_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    impossible: dict[str, Any] = {"p": [0.0, -INF], "q": [0.0, 0.0], "drafted": 1}
    assert step(0.0, monkeypatch, **impossible) == [1, 0]
    assert step(ULP, monkeypatch, **impossible) == [0]


@as_found
@pytest.mark.parametrize("factory", [speculative_sampling, assisted_generation])
def test_with_coins_of_zero_an_impossible_sequence_is_found_at_once(
    monkeypatch: pytest.MonkeyPatch, factory: Factory
) -> None:
    monkeypatch.setattr(torch, "rand_like", torch.zeros_like)
    toy = pair((1, 0), (1, 1))
    found = judge(factory({"assistant": EAGER}).sample(toy, 2, 30, seed=7), toy)
    assert (found.test, found.p_value) == ("impossible", 0.0)


# Where torch's generator on a CPU, seeded so, gives 0.0, and where 1 - ULP, the largest float32 below 1.
ZERO = {"seed": 12, "index": 411_302}
TOP = {"seed": 17, "index": 2_642_816}


def drawn_until(place: dict[str, int], short: int = 0) -> None:
    """Leave the generator so that the next draw but `short` is the one at the place."""
    torch.manual_seed(place["seed"])
    torch.rand(place["index"] - short)


@pytest.fixture
def _own_generator() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


@as_found
@pytest.mark.usefixtures("_own_generator")
def test_torch_draws_coins_of_zero_and_never_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, value in ((ZERO, 0.0), (TOP, 1 - ULP)):
        drawn_until(place)
        assert torch.rand(1).item() == value
    torch.manual_seed(1)
    steps = torch.rand(1 << 22) / ULP
    # So each of 2^24 values, 0 among them and 1 not, comes once in 2^24 draws.
    assert bool((steps == steps.round()).all())
    assert steps.max().item() < 1 << 24
    drawn_until(ZERO)
    assert step(None, monkeypatch, p=[0.0, -INF], q=[0.0, 0.0], drafted=1) == [1, 0]


@as_found
def test_generate_as_shipped_emits_a_token_of_probability_zero() -> None:
    """No function is replaced: only the place in torch's stream is chosen."""
    toy = pair((1, 0), (1, 1))
    target = LookupModel(toy.p, 2)
    assistant = LookupModel(toy.q, 2, num_assistant_tokens=1, **EAGER)
    begin = torch.tensor([[2]])
    emitted = set()
    for drawn_before in range(32):  # how many numbers the assistant draws before the coin is torch's business
        with seeded(0):
            drawn_until(ZERO, short=drawn_before)
            ids = target.generate(
                begin,
                attention_mask=torch.ones_like(begin),
                do_sample=True,
                max_new_tokens=2,
                assistant_model=assistant,
            )
        emitted |= set(ids[0, 1:].tolist())
    assert emitted == {0, 1}


@as_found
def test_a_coin_equal_to_the_ratio_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So P(accept) = (floor(a 2^24) + 1) / 2^24 for a ratio a < 1: one coin of 2^24 too many."""
    half: dict[str, Any] = {"p": [0.0] * 4, "q": [0.0, 0.0, -INF, -INF], "drafted": 0}
    assert step(0.5, monkeypatch, **half)[0] == 0
    assert step(0.5 + 2 * ULP, monkeypatch, **half)[0] != 0
    almost: dict[str, Any] = {"p": [0.0, float(np.log(1.5 * ULP))], "q": [0.0, -INF], "drafted": 0}
    assert torch.tensor(almost["p"]).softmax(-1)[0].item() == 1 - 2 * ULP
    assert step(1 - 2 * ULP, monkeypatch, **almost)[0] == 0
    assert step(1 - ULP, monkeypatch, **almost)[0] == 1


# Two tokens, p and q equal but for rounding: in float32 no token has p > q, and p/q of token 0 is 1 - 3 ULP.
NEARLY_EQUAL: dict[str, Any] = {
    "q": [-2.1364338397979736, 0.9111659526824951],
    "p": [-2.1364338397979736, 0.9111661314964294],
    "drafted": 0,
}


@as_found
@pytest.mark.usefixtures("_own_generator")
def test_a_rejection_without_residual_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = (torch.tensor(NEARLY_EQUAL[key]).softmax(-1) for key in "pq")
    assert bool((p <= q).all())
    assert (p / q)[0].item() == 1 - 3 * ULP
    drawn_until(TOP)
    with pytest.raises(RuntimeError, match="nan"):
        step(None, monkeypatch, **NEARLY_EQUAL)
    assert step(1 - 3 * ULP, monkeypatch, **NEARLY_EQUAL)[0] == 0


def test_equal_models_accept_every_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = counted(monkeypatch, generation, "_speculative_sampling")
    toy = random_toy(5, 4, 4, "equal")
    speculative_sampling({"depth": 3}).sample(toy, 8, 200, seed=8)
    assert len(rounds) == 400
    assert step(1 - ULP, monkeypatch, p=[0.3, -1.0], q=[0.3, -1.0], drafted=1)[0] == 1
