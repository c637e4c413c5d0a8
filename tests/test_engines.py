"""transformers' sampling, run as shipped: right where it claims to be, and what it does at the ends of [0, 1)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation import utils as generation
from transformers.generation.candidate_generator import AssistedCandidateGenerator

from verify import goodness, power
from verify.engines.toy_models import LookupModel, seeded
from verify.engines.transformers_assisted import Generation, assisted_generation, prompt_lookup, sampling
from verify.engines.transformers_speculative import speculative_sampling
from verify.goodness import Evidence
from verify.joint import cell_of, count_cells, joint_law
from verify.random_toys import random_toy
from verify.subjects import Factory, Samples
from verify.toys import Table, Toy

pytestmark = pytest.mark.model

TOY = random_toy(3, 2, 5, "any")
ALPHA, BETA = 1e-9, 1e-6
TEMPERATURES = {"1": 1.0, "1/2": 0.5}
ULP = 2.0**-24  # the step of torch.rand in float32: k * ULP for k = 0 .. 2^24 - 1
EAGER = {"assistant_confidence_threshold": 0.0}  # never cuts a draft short


def pair(p: tuple[int, ...], q: tuple[int, ...]) -> Toy:
    """The same p and q after every prefix."""
    return Toy(len(p), Table(p, {}), Table(q, {}))


def judge(samples: Samples, toy: Any, temperature: float = 1.0) -> Evidence:
    return goodness.tv_gate(count_cells(samples, toy.vocab), joint_law(toy, temperature, samples.shape[1]))


def misdeclared(logits: torch.Tensor) -> torch.Tensor:
    """The logits of another temperature than was drawn at."""
    return logits * 0.25


@pytest.mark.parametrize("temperature", ["1", "1/2"])
def test_ordinary_sampling_is_the_target_by_every_test(temperature: str) -> None:
    samples = sampling({"temperature": temperature}).sample(TOY, 5, 200_000, seed=1)
    value = TEMPERATURES[temperature]
    assert judge(samples, TOY, value).p_value > ALPHA
    counts = count_cells(samples[:, :2], 2)
    assert goodness.chi_square(counts, joint_law(TOY, value, 2)).p_value > ALPHA
    assert goodness.independent_rows(cell_of(samples[:, :2], 2), joint_law(TOY, value, 2)).p_value > ALPHA


@pytest.mark.parametrize("temperature", ["1", "1/2"])
@pytest.mark.parametrize("kind", ["any", "zeros"])
def test_the_acceptance_step_keeps_the_target_over_several_rounds(kind: str, temperature: str) -> None:
    toy = random_toy(7, 2, 7, kind)
    samples = speculative_sampling({"depth": 2, "temperature": temperature}).sample(toy, 5, 8_000, seed=2)
    assert judge(samples, toy, TEMPERATURES[temperature]).p_value > ALPHA


ASSISTED: dict[str, dict[str, Any]] = {
    "as it comes": {"depth": 2},
    "drafts never cut short": {"depth": 2, "assistant": EAGER},
    "at temperature 1/2": {"depth": 2, "assistant": EAGER, "temperature": "1/2"},
    "drafts that grow and shrink": {"assistant": {**EAGER, "num_assistant_tokens_schedule": "heuristic"}},
}


@pytest.mark.parametrize("settings", ASSISTED.values(), ids=ASSISTED)
def test_assisted_generation_keeps_the_target(settings: dict[str, Any]) -> None:
    samples = assisted_generation(settings).sample(TOY, 4, 1_000, seed=3)
    assert judge(samples, TOY, 0.5 if "temperature" in settings else 1.0).p_value > ALPHA


def test_prompt_lookup_keeps_the_target_and_does_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    forwards = counted(monkeypatch, LookupModel, "forward")
    samples = prompt_lookup({"depth": 2}).sample(TOY, 5, 1_000, seed=4)
    assert judge(samples, TOY).p_value > ALPHA
    assert len(forwards) < 0.9 * samples.size


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Grows by one at each call of a function from now on."""
    calls: list[str] = []
    inner = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return inner(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_draft_declared_at_another_temperature_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    step, get = generation._speculative_sampling, AssistedCandidateGenerator.get_candidates

    def wrong_step(ids: Any, logits: Any, *rest: Any, **kw: Any) -> Any:
        return step(ids, misdeclared(logits), *rest, **kw)

    def wrong_candidates(self: Any, ids: Any, **kw: Any) -> Any:
        candidates, logits = get(self, ids, **kw)
        return candidates, None if candidates.shape == ids.shape else misdeclared(logits)

    toy = pair((1, 1), (9, 1))
    with monkeypatch.context() as patch:
        patch.setattr(generation, "_speculative_sampling", wrong_step)
        found = judge(speculative_sampling({"depth": 2}).sample(toy, 4, 1_000, seed=5), toy)
        assert found.p_value < ALPHA
    monkeypatch.setattr(AssistedCandidateGenerator, "get_candidates", wrong_candidates)
    found = judge(assisted_generation({"depth": 2, "assistant": EAGER}).sample(toy, 4, 500, seed=5), toy)
    assert found.p_value < ALPHA


def test_the_ensemble_weight_loses_exactly_what_it_says() -> None:
    toy, weight = pair((6, 3, 1), (1, 3, 6)), 0.5
    settings = {"assistant": EAGER, "generate": {"assistant_ensemble_weight": weight}}
    first = assisted_generation(settings).sample(toy, 2, 800, seed=6)[:, :1]
    assert judge(first, toy).p_value < ALPHA
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
    law = weight * p + (1 - weight) * q
    counts = count_cells(first, 3)
    assert goodness.tv_gate(counts, law).p_value > ALPHA
    tv = (1 - weight) * np.abs(p - q).sum() / 2
    assert abs(judge(first, toy).statistic - tv) < power.tv_gate_detectable(len(first), ALPHA, BETA, 3)


def step(coin: float | None, monkeypatch: pytest.MonkeyPatch, p: Any, q: Any, drafted: int) -> list[int]:
    """The tokens of a round with one draft; p, q: logits. coin: what the acceptance draws, None for what it draws."""
    if coin is not None:
        monkeypatch.setattr(torch, "rand_like", lambda x: torch.full_like(x, coin))
    ids, q_logits = torch.tensor([[drafted]]), torch.tensor([[q]])
    tokens, _ = generation._speculative_sampling(ids, q_logits, 1, torch.tensor([[p, p]]))
    result: list[int] = tokens[0].tolist()
    return result


INF = float("inf")


def test_a_coin_of_zero_accepts_a_token_of_probability_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    impossible: dict[str, Any] = {"p": [0.0, -INF], "q": [0.0, 0.0], "drafted": 1}
    assert step(0.0, monkeypatch, **impossible) == [1, 0]
    assert step(ULP, monkeypatch, **impossible) == [0]


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


@pytest.mark.usefixtures("_own_generator")
def test_torch_draws_coins_of_zero_and_never_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, value in ((ZERO, 0.0), (TOP, 1 - ULP)):
        drawn_until(place)
        assert torch.rand(1).item() == value
    torch.manual_seed(1)
    steps = torch.rand(1 << 22) / ULP
    assert bool((steps == steps.round()).all())  # so each of 2^24 values, 0 among them, comes once in 2^24 draws
    drawn_until(ZERO)
    assert step(None, monkeypatch, p=[0.0, -INF], q=[0.0, 0.0], drafted=1) == [1, 0]


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


def test_a_ratio_a_rounding_below_one_is_accepted_at_every_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepting on u <= a adds one coin of 2^24: P(accept) = (floor(a 2^24) + 1) / 2^24 for a < 1."""
    for a, coins_over in ((1 - ULP, 0), (1 - 2 * ULP, 1), (0.5, (1 << 23) - 1)):
        coins = torch.arange(1 << 24, dtype=torch.float32) * ULP
        assert int((~(coins <= torch.tensor(a))).sum()) == coins_over
    almost = float(np.log(np.float32(1 - ULP)))
    assert step(1 - ULP, monkeypatch, p=[almost, np.log(ULP)], q=[0.0, -INF], drafted=0)[0] == 0


# Two tokens, p and q equal but for rounding: in float32 no token has p > q, and p/q of token 0 is 1 - 3 ULP.
NEARLY_EQUAL: dict[str, Any] = {
    "q": [-2.1364338397979736, 0.9111659526824951],
    "p": [-2.1364338397979736, 0.9111661314964294],
    "drafted": 0,
}


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


@pytest.mark.parametrize("factory", [sampling, speculative_sampling, assisted_generation, prompt_lookup])
def test_a_seed_gives_its_samples_and_leaves_torchs_generator_alone(factory: Factory) -> None:
    subject = factory({"depth": 2})
    state = torch.get_rng_state()
    first = subject.sample(TOY, 4, 20, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert first.shape == (20, 4)
    assert first.dtype == np.int64
    assert np.array_equal(first, subject.sample(TOY, 4, 20, seed=1))
    assert not np.array_equal(first, subject.sample(TOY, 4, 20, seed=2))
    assert subject.sample(TOY, 4, 0, seed=1).shape == (0, 4)


@pytest.mark.parametrize("factory", [speculative_sampling, assisted_generation])
@pytest.mark.parametrize("wrong", [{"temperature": 0}, {"depth": 0}])
def test_settings_that_transformers_cannot_sample_with_are_refused(
    factory: Callable[..., object], wrong: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        factory(wrong)


@pytest.mark.parametrize("module", ["transformers_assisted", "transformers_speculative"])
def test_without_transformers_one_line_says_what_to_install(module: str) -> None:
    code = f"import sys; sys.modules['transformers'] = None; import verify.engines.{module}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1].startswith("ImportError: verify.engines needs transformers 5: pip")


def test_beyond_fifty_tokens_generate_samples_another_target_unless_told_not_to() -> None:
    toy = pair(tuple(range(30, 94)), (1,) * 64)
    seen = sampling({}).sample(toy, 1, 8_000, seed=9)
    assert np.array_equal(np.unique(seen), np.arange(64))
    seen = Generation({}, batch=8_000).sample(toy, 1, 8_000, seed=9)
    assert np.array_equal(np.unique(seen), np.arange(14, 64))
