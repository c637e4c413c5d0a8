"""Losslessness on models at T = 1: the randomised PIT of every emitted token under an independent full forward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reference.methods import PAPER
from rheo.methods import METHODS
from rheo.models.causal import eos_tokens
from rheo.models.generation import Limits
from tests.tiny_models import CONFIG, VOCAB, drafters, skipping, small_draft, tiny_target
from verify.models import checks
from verify.models.checks import MOST_TV, checked
from verify.models.faults import FAULTS, broken
from verify.models.plain import draft_logits, target_logits
from verify.models.plan import DEFAULT_PROMPTS, PILOT, Plan
from verify.models.run import more
from verify.models.scores import Scores, nothing, scored
from verify.models.texts import Models, Text, judged
from verify.models.verdict import findings, found_at, sized

pytestmark = pytest.mark.model

_RNG = np.random.default_rng(0)
PLAN = Plan(
    CONFIG,
    methods=PAPER,
    prompts=tuple(tuple(_RNG.integers(VOCAB, size=1 + index % 9).tolist()) for index in range(64)),
    limits=Limits(100),
    tokens=50_000,
    batch=512,
    alpha=1e-6,
    beta=1e-6,
)


@pytest.fixture(scope="module")
def tiny() -> Models:
    target = tiny_target()
    return judged(target, skipping(target))


def collected(plan: Plan, models: Models, part: str, wanted: int, fault: str | None = None) -> Scores:
    scores = nothing()
    while len(scores) < wanted:
        scores = more(plan, models, part, wanted, scores, fault=fault)
    return scores


@pytest.mark.parametrize("method", PAPER)
def test_emitted_tokens_follow_the_law_of_an_independent_forward(method: str, tiny: Models) -> None:
    """Over all methods and tests at alpha 1e-6; a Kolmogorov distance of 0.026 is missed once in 10^6 times."""
    scores = collected(PLAN, tiny, method, PLAN.tokens)
    found = findings(PLAN, scores)
    assert len(scores) == PLAN.tokens and len(found) == 12
    assert all(test.detectable is not None and test.detectable < 0.026 for test in found[:2])
    assert scores.impossible == 0 and not [test for test in found if test.rejects]


@pytest.mark.parametrize("method", [method for method in METHODS if method not in PAPER])
def test_so_do_those_of_every_other_method(method: str, tiny: Models) -> None:
    """A tenth of the tokens: they find a distance of 0.08."""
    plan = replace(PLAN, tokens=5_000)
    scores = collected(plan, tiny, method, plan.tokens)
    assert scores.impossible == 0 and not [test for test in findings(plan, scores) if test.rejects]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_broken_cache_is_found_with_as_many_tokens_as_its_pilot_asks_for(fault: str, tiny: Models) -> None:
    pilot = collected(PLAN, tiny, "rheo", PLAN.pilot, fault)
    size = sized(PLAN, pilot).tokens
    assert size is not None and size <= PLAN.tokens
    assert found_at(PLAN, collected(replace(PLAN, seed=1), tiny, "rheo", size, fault)) <= PLAN.alpha_each


def test_the_control_of_a_run_has_a_stale_row(tiny: Models) -> None:
    """Its parts have seeds of their own, so the pilot is the fault's, not the method's."""
    plan = replace(PLAN, tokens=1000)
    assert found_at(plan, collected(plan, tiny, PILOT, plan.pilot)) <= plan.alpha_each
    assert sized(plan, collected(plan, tiny, "rheo", plan.pilot)).tokens is None  # nothing is broken here


@pytest.mark.parametrize("method", METHODS)
def test_without_temperature_tokens_are_greedy_and_caches_give_what_a_full_forward_gives(
    method: str, tiny: Models
) -> None:
    result = checked(PLAN, tiny, method)
    assert result.tokens == result.cached == 8 * 32
    assert result.differing == 0 and result.tv < 1e-5 and result.exact


@pytest.mark.parametrize("fault", FAULTS)
def test_every_broken_cache_shows_beside_a_full_forward(fault: str, tiny: Models) -> None:
    with broken(fault):
        result = checked(PLAN, tiny, "topk")
    assert result.tv > 50 * MOST_TV and not result.exact


def test_scores_depend_neither_on_the_batch_nor_on_when_a_request_ended(tiny: Models) -> None:
    plan = replace(PLAN, limits=Limits(30, eos=(7,)))
    small, large = (collected(replace(plan, batch=batch), tiny, "rheo", 400) for batch in (3, 40))
    assert len(small) == len(large) == 400 and small.requests == large.requests > 400 // 30 + 1
    for order in small.pit:
        np.testing.assert_allclose(small.pit[order], large.pit[order], atol=1e-4)
    for kind in small.strata:
        assert np.mean(small.strata[kind] == large.strata[kind]) > 0.99


def test_every_token_of_a_run_has_a_randomiser_of_its_own(tiny: Models) -> None:
    """One text twice: only where the randomiser was started again are two of its scores the same."""
    text = Text((3, 17, 9), (9, 41, 2, 6, 30, 8))
    scores = scored(nothing(), tiny, PLAN.process, [text, text], most=12, key=5)
    for pit in scores.pit.values():
        assert len(pit) == 12 and not np.any(np.isclose(pit[:6], pit[6:], rtol=0, atol=1e-9))


def test_plain_logits_are_those_before_every_emitted_token(tiny: Models, tmp_path_factory: Any) -> None:
    """Of texts of different lengths, token by token, for the target and for every kind of drafter."""
    texts = [Text((3, 17, 9), (9, 41, 2, 6)), Text((7, 1), (30,)), Text((5, 1, 30, 22, 8), (44, 6))]
    heads = drafters(tiny.target, tmp_path_factory.mktemp("head"))
    for text, logits in zip(texts, target_logits(tiny.target, texts), strict=True):
        assert logits.shape == (len(text.tokens), VOCAB)
        for place in range(len(text.tokens)):
            alone = tiny.target(torch.tensor([[*text.prompt, *text.tokens[:place]]])).logits[0, -1]
            torch.testing.assert_close(logits[place], alone, atol=1e-5, rtol=1e-5)
    for drafter in heads.values():
        for text, logits in zip(texts, draft_logits(drafter, tiny.target, texts), strict=True):
            for place in range(len(text.tokens)):
                context = torch.tensor([[*text.prompt, *text.tokens[:place]]])
                features = torch.empty(1, 0, 0)
                if drafter.layers:
                    hidden = tiny.target(context[:, :-1], output_hidden_states=True).hidden_states
                    features = torch.cat([hidden[layer] for layer in drafter.layers], -1)
                asked = drafter.start(context, torch.tensor([context.shape[1]]), features).draft(root())
                torch.testing.assert_close(logits[place], asked[0, 0], atol=1e-4, rtol=1e-4)


def root() -> Any:
    from rheo.tree import Frontier

    one = torch.zeros(1, 1, dtype=torch.int64)
    return Frontier(0, one, one, torch.ones(1, 1, dtype=torch.bool), None)


def test_a_draft_with_more_tokens_than_the_target_is_cut_to_it(tiny: Models) -> None:
    from rheo.models.drafters.language_model import LanguageModel

    wide = small_draft()
    wide.resize_token_embeddings(VOCAB + 16, mean_resizing=False)
    (logits,) = draft_logits(LanguageModel(wide), tiny.target, [Text((1,), (2, 3))])
    assert logits.shape == (2, VOCAB)


def test_temperature_zero_leaves_nothing_to_test() -> None:
    with pytest.raises(ValueError, match="at temperature 0 there is no distribution to test"):
        replace(PLAN, config=replace(CONFIG, temperature=0))


def test_a_model_in_half_precision_is_judged_by_its_weights_in_float32() -> None:
    target = tiny_target().to(torch.bfloat16)
    models = judged(target, skipping(target))
    assert models.target.dtype == torch.bfloat16 and models.judge.dtype == torch.float32
    result = checked(PLAN, models, "rheo")
    assert result.tv > MOST_TV  # rounding: a hundred times what float32 leaves


def test_smollm2_is_lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred tokens: they find a Kolmogorov distance of 0.5; the comparison with a full forward finds more."""
    from rheo.models.drafters.loading import load_drafter
    from rheo.models.prompts import chat_ids
    from rheo.models.smollm2 import ModelError, load_target

    try:
        target, tokenizer = load_target()
    except ModelError as error:
        pytest.skip(f"SmolLM2 cannot be had: {error}")
    models = judged(target, load_drafter("skip:2", target))
    plan = replace(
        PLAN,
        config=replace(CONFIG, support=128),
        prompts=tuple(tuple(chat_ids(tokenizer, text)) for text in DEFAULT_PROMPTS),
        limits=Limits(25, eos=eos_tokens(target)),
        tokens=200,
        batch=8,
    )
    scores = collected(plan, models, "rheo", plan.tokens)
    assert scores.impossible == 0 and not [test for test in findings(plan, scores) if test.rejects]
    monkeypatch.setattr(checks, "_REQUESTS", 2)
    monkeypatch.setattr(checks, "_TOKENS", 16)
    assert checked(plan, models, "rheo").exact
    with broken("stale row"):
        assert checked(plan, models, "rheo").tv > 10 * MOST_TV
