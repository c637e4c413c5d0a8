from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rheo.models.drafters.eagle3 import Eagle3
from rheo.models.drafters.eagle3_files import load_head
from rheo.models.drafters.eagle3_head import Eagle3Head
from rheo.training.decoding import Turns, sample_texts, use_grouped_attention
from rheo.training.prompts import library_functions, shares_words, word_runs
from rheo.training.unrolled import Texts, unrolled
from tests.tiny_models import PROMPTS, VOCAB, full_logits, head_tensors, tiny_target, write_head

pytestmark = pytest.mark.model
LAYERS = (2, 4, 5)


@pytest.fixture(scope="module")
def grouped() -> Any:
    model = tiny_target()
    use_grouped_attention(model)
    return model


NO_TURNS = Turns(frozenset(), ((), ()))


@pytest.mark.parametrize("length", [3, 40])
def test_sampled_texts_carry_the_states_of_a_plain_forward(grouped: Any, length: int) -> None:
    generator = torch.Generator().manual_seed(0)
    texts = sample_texts(grouped, PROMPTS, [True] * 3, [1.0, 0.7, 1.0], length, NO_TURNS, generator, LAYERS)
    plain = tiny_target()
    for prompt, text in zip(PROMPTS, texts, strict=True):
        assert text.tokens[: text.given].tolist() == prompt
        assert len(text.tokens) == len(prompt) + length
        with torch.no_grad():
            states = plain(text.tokens[None], output_hidden_states=True).hidden_states
        torch.testing.assert_close(text.features, torch.cat([states[k][0] for k in LAYERS], -1), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(text.states, states[-1][0], rtol=1e-4, atol=1e-4)


def test_cold_answers_are_greedy_decoding_and_a_turn_s_end_begins_the_next(grouped: Any) -> None:
    plain = tiny_target()

    def greedy(row: list[int], count: int) -> list[int]:
        for _ in range(count):
            row = [*row, int(full_logits(plain, [row])[0][-1].argmax())]
        return row

    free = greedy(PROMPTS[0], 30)
    eos = free[len(PROMPTS[0]) + 9]
    end = free.index(eos, len(PROMPTS[0]))
    turns = Turns(frozenset([eos]), ((40, 41, 42), (43, 44)))
    text = sample_texts(grouped, PROMPTS, [True] * 3, [1e-6] * 3, 30, turns, torch.Generator().manual_seed(1), LAYERS)[
        0
    ]
    made = text.tokens.tolist()
    assert made[: end + 1] == free[: end + 1]
    assert made[end + 1 : end + 3] == [43, 44]  # behind an answer; the user's turn is sampled at 1
    written = {tuple(made[i + 1 : i + 3]) for i in range(len(made) - 3) if made[i] == eos}
    assert written <= {(43, 44), (40, 41)}


def test_unrolled_steps_are_what_the_drafter_computes(tmp_path: Path) -> None:
    target = tiny_target()
    head = load_head(str(write_head(tmp_path, head_tensors())))
    embeddings = Eagle3(head, target).embeddings
    tokens = torch.randint(VOCAB, (2, 9), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        hidden = target(tokens, output_hidden_states=True).hidden_states
        features = torch.cat([hidden[k] for k in LAYERS], -1)
        texts = Texts(tokens, tokens >= 0, features, hidden[-1])
        for states, offset in unrolled(head, embeddings, texts, 4):
            # The state after token t of step k: the features reach to token t - k, and the rest is drafted.
            for last in range(offset, 9):
                drafted = _drafted(head, embeddings, tokens[:, : last + 1], features[:, : last + 1 - offset])
                torch.testing.assert_close(states[:, last - offset], drafted, rtol=1e-4, atol=1e-4)


def _drafted(head: Eagle3Head, embeddings: Tensor, tokens: Tensor, features: Tensor) -> Tensor:
    """The state after the last token, by one pair after the other with a cache."""
    from transformers import DynamicCache

    cache, state = DynamicCache(), features[:, :1]
    for pair in range(1, tokens.shape[1]):
        known = pair - 1 < features.shape[1]
        before = head.fc(features[:, pair - 1 : pair]) if known else state
        mask = torch.zeros(len(tokens), 1, 1, pair)
        state = head(embeddings[tokens[:, pair : pair + 1]], before, torch.full((2, 1), pair - 1), mask, cache)
    return state[:, 0]


def test_a_text_that_shares_words_in_a_row_with_a_benchmark_is_known() -> None:
    forbidden = word_runs("Write a function that returns the sum of a list of numbers, please.")
    assert shares_words("Return, please: a FUNCTION that returns the sum of a list!", forbidden)
    assert not shares_words("Write a function about the sum of a list of numbers", forbidden)


def test_library_functions_are_heads_with_docstrings() -> None:
    heads = library_functions()
    assert len(heads) > 1000
    for head in heads[::50]:
        (function,) = ast.parse(head).body
        assert isinstance(function, ast.FunctionDef)
        assert ast.get_docstring(function)
