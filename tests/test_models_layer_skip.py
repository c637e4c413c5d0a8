"""A draft that skips layers is an early exit of its target, which it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

from rheo.models.layer_skip import skip_last_layers
from rheo.models.smollm2 import ModelError
from tests.recordings import PROMPT, SIZES, tiny_llama

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_llama()


def test_no_layer_skipped_is_the_target(target: Any) -> None:
    ids = torch.tensor([PROMPT, PROMPT[::-1]])
    with torch.no_grad():
        assert torch.equal(skip_last_layers(target, 0)(ids).logits, target(ids).logits)


def test_skipping_is_an_early_exit_that_shares_weights_and_leaves_the_target_alone(target: Any) -> None:
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        before = target(ids).logits
        draft = skip_last_layers(target, 3)
        hidden = target.model.embed_tokens(ids)
        positions = target.model.rotary_emb(hidden, torch.arange(len(PROMPT))[None])
        mask = torch.full((len(PROMPT), len(PROMPT)), float("-inf")).triu(1)[None, None]
        first = target.model.layers[0](hidden, attention_mask=mask, position_embeddings=positions)
        expected = target.lm_head(target.model.norm(first))
        torch.testing.assert_close(draft(ids).logits, expected)
        assert not torch.allclose(draft(ids).logits, before)
        assert torch.equal(target(ids).logits, before)
    assert target.config.num_hidden_layers == len(target.model.layers) == 4
    assert {id(p) for p in draft.parameters()} < {id(p) for p in target.parameters()}


def test_skipping_works_where_layers_have_types() -> None:
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=20, num_hidden_layers=3, head_dim=8, **SIZES)).train(False)
    draft = skip_last_layers(model, 1)
    assert len(draft.config.layer_types) == 2
    with torch.no_grad():
        assert draft(torch.tensor([[1, 2]])).logits.shape == (1, 2, 20)


@pytest.mark.parametrize("count", [-1, 4, 9])
def test_at_least_one_layer_must_remain(target: Any, count: int) -> None:
    with pytest.raises(ModelError, match=rf"cannot skip {count} of 4 layers"):
        skip_last_layers(target, count)


def test_an_unknown_architecture_is_named() -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=2, n_head=2))
    with pytest.raises(ModelError, match="cannot skip layers of GPT2LMHeadModel"):
        skip_last_layers(model, 1)
