"""Losslessness on models at T = 1: the randomised PIT of every emitted token under an independent full forward.

Its order of tokens depends on the emitted prefix alone, and the number of tokens is fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models import target as target_module
from rheo.models.generation import Limits, generate
from tests.tiny_models import CONFIG, VOCAB, full_logits, keep_a_stale_row, skipping, tiny_target
from verify.pit import ORDERS, kolmogorov, pit_of
from verify.power import ks_detectable, ks_samples

pytestmark = pytest.mark.model

REQUESTS, LENGTH = 64, 320  # 20,480 tokens
ORDERS_USED = ("p", "p/q")
ALPHA, BETA = 1e-6, 1e-6


def generated(method: str, seed: int) -> tuple[list[list[int]], list[list[int]], Any, Any]:
    """Prompts of different lengths, what was generated behind them, and the two models."""
    target = tiny_target()
    drafter = skipping(target)
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(VOCAB, size=1 + index % 9).tolist() for index in range(REQUESTS)]
    texts: list[list[int]] = [[] for _ in prompts]
    seeds = [seed * REQUESTS + index for index in range(REQUESTS)]
    for done in generate(target, drafter, Sampler(CONFIG, METHODS[method]), prompts, seeds, Limits(LENGTH)):
        for request, tokens in zip(done.requests, done.tokens, strict=True):
            texts[request] += tokens
    return prompts, texts, target, drafter.model


def laws(model: Any, prompts: Sequence[list[int]], texts: Sequence[list[int]]) -> NDArray[np.float64]:
    """The model's law [REQUESTS * LENGTH, V] of every generated token, from a forward over the whole text."""
    whole = full_logits(model, [prompt + text for prompt, text in zip(prompts, texts, strict=True)])
    rows = [torch.softmax(logits.double(), -1)[len(p) - 1 : -1] for logits, p in zip(whole, prompts, strict=True)]
    return np.asarray(torch.cat(rows).numpy())


def p_values(method: str, seed: int) -> dict[str, float]:
    """By order of tokens, of Kolmogorov's test."""
    prompts, texts, target, draft = generated(method, seed)
    p, q = laws(target, prompts, texts), laws(draft, prompts, texts)
    tokens = np.concatenate([np.array(text) for text in texts])
    assert len(tokens) == REQUESTS * LENGTH
    own = p[np.arange(len(tokens)), tokens]
    randomiser = np.random.default_rng(10_000 + seed)
    return {name: kolmogorov(pit_of(p, q, tokens, ORDERS[name], randomiser), own).p_value for name in ORDERS_USED}


@pytest.mark.parametrize("method", ["rheo", "topk"])
def test_emitted_tokens_follow_the_law_of_an_independent_forward(method: str) -> None:
    """At alpha 1e-6 over both orders; a Kolmogorov distance of 0.038 is missed once in 10^6 times."""
    assert ks_detectable(REQUESTS * LENGTH, ALPHA / len(ORDERS_USED), BETA) < 0.038
    assert min(p_values(method, seed=1).values()) >= ALPHA / len(ORDERS_USED)


def test_a_cache_with_a_stale_row_is_found_by_the_same_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its distance was measured once, as 0.29 by p and 0.13 by p/q: a tenth of the tokens would do."""
    assert 10 * ks_samples(0.13, ALPHA / len(ORDERS_USED), BETA) < REQUESTS * LENGTH
    monkeypatch.setattr(target_module, "keep", keep_a_stale_row)
    assert min(p_values("rheo", seed=1).values()) < ALPHA / len(ORDERS_USED)
