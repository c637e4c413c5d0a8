"""`model.generate(custom_generate=...)` of transformers: its arguments mean what they mean there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)
from transformers.generation.streamers import BaseStreamer

from rheo.methods import METHODS
from rheo.models import custom_generate
from rheo.models.custom_generate import rheo_decoding
from rheo.processors import chain, temperature
from tests.tiny_models import CONFIG, PROMPTS, VOCAB, full_logits, skipping, tiny_target
from verify.pit import ORDERS, kolmogorov, pit_of
from verify.power import ks_detectable, ks_samples

pytestmark = pytest.mark.model

SHORT = 4  # layers, where only arguments are looked at


def padded(prompts: Sequence[list[int]]) -> dict[str, Tensor]:
    """A batch as a tokenizer gives it, padded on the left."""
    width = max(map(len, prompts))
    ids = [[0] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def decoded(model: Any, inputs: dict[str, Tensor], method: str = "rheo", **options: Any) -> Any:
    return model.generate(
        **inputs, custom_generate=rheo_decoding(skipping(model), CONFIG, method), **{"pad_token_id": 0} | options
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"eos_token_id": [17, 30]},
        {"eos_token_id": 17, "min_new_tokens": 12, "repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
    ],
    ids=["plain", "eos", "processors"],
)
def test_without_sampling_a_padded_batch_is_what_transformers_makes_of_it(method: str, options: dict[str, Any]) -> None:
    model, inputs = tiny_target(), padded(PROMPTS)
    wanted = model.generate(**inputs, do_sample=False, max_new_tokens=30, pad_token_id=0, **options)
    assert torch.equal(decoded(model, inputs, method, do_sample=False, max_new_tokens=30, **options), wanted)


REQUESTS, LENGTH, TEMPERATURE, TOP = 120, 30, 0.5, 12  # 3,600 tokens
ALPHA, BETA = 1e-6, 1e-6


def p_value() -> float:
    """Of Kolmogorov's test, in the order of p, of tokens that `generate` sampled."""
    model = tiny_target()
    rng = np.random.default_rng(3)
    prompts = [rng.integers(VOCAB, size=1 + index % 9).tolist() for index in range(REQUESTS)]
    inputs = padded(prompts)
    options: dict[str, Any] = {"temperature": TEMPERATURE, "top_k": TOP, "max_new_tokens": LENGTH, "seed": 7}
    rows = decoded(model, inputs, do_sample=True, **options)
    start = inputs["input_ids"].shape[1]
    texts = rows[:, start:].numpy()
    assert texts.shape == (REQUESTS, LENGTH)
    whole = full_logits(model, [prompt + text.tolist() for prompt, text in zip(prompts, texts, strict=True)])
    logits = torch.cat([row[len(prompt) - 1 : -1] for row, prompt in zip(whole, prompts, strict=True)]).double()
    edge = logits.topk(TOP).values[:, -1:]
    p = torch.softmax(logits.masked_fill(logits < edge, -torch.inf) / TEMPERATURE, -1).numpy()
    tokens = texts.reshape(-1)
    pit = pit_of(p, p, tokens, ORDERS["p"], np.random.default_rng(11))
    return kolmogorov(pit, p[np.arange(len(tokens)), tokens]).p_value


def test_sampled_tokens_follow_the_law_that_temperature_and_top_k_leave() -> None:
    """At alpha 1e-6; a Kolmogorov distance of 0.09 is missed once in 10^6 times."""
    assert ks_detectable(REQUESTS * LENGTH, ALPHA, BETA) < 0.09
    assert p_value() >= ALPHA


def test_a_temperature_that_is_left_out_is_found_by_the_same_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its distance was measured once, as 0.24: a fifth of the tokens would do."""
    assert 5 * ks_samples(0.24, ALPHA, BETA) < REQUESTS * LENGTH
    split = custom_generate._split
    monkeypatch.setattr(custom_generate, "_split", lambda processors: (split(processors)[0], 1.0, split(processors)[2]))
    assert p_value() < ALPHA


def test_what_acts_behind_the_temperature_leaves_the_law_that_transformers_leaves() -> None:
    torch.manual_seed(3)
    scores, ids = torch.randn(50, VOCAB) * 3, torch.randint(VOCAB, (50, 4))
    penalty, heat = RepetitionPenaltyLogitsProcessor(1.5), TemperatureLogitsWarper(0.7)
    tops = [TopKLogitsWarper(20), TopPLogitsWarper(0.8), MinPLogitsWarper(0.05), TypicalLogitsWarper(0.9)]
    for processors, before, heated in (
        ([penalty, heat, *tops], 1, 0.7),
        ([heat, penalty, *tops], 2, 1.0),  # a penalty behind the temperature: all by the path but what is behind it
        ([tops[0], heat, *tops[1:]], 1, 0.7),
        ([penalty, *tops], 1, 1.0),
        ([penalty], 1, 1.0),
        ([], 0, 1.0),
    ):
        by_path, taken, process = custom_generate._split(processors)
        assert (len(by_path), taken) == (before, heated)
        got = scores
        for each in by_path:
            got = each(ids, got)
        got = chain(temperature(taken), *([process] if process else []))(got)
        every: Any = LogitsProcessorList(processors)
        torch.testing.assert_close(got.softmax(-1), every(ids, scores).softmax(-1))


class Recorder(BaseStreamer):
    """Notes what it is given."""

    def __init__(self) -> None:
        self.tokens: list[list[int]] = []
        self.ends = 0

    def put(self, value: Tensor) -> None:
        assert self.ends == 0
        self.tokens.append(value.flatten().tolist())

    def end(self) -> None:
        self.ends += 1


def test_a_streamer_gets_the_prompt_and_then_every_token_once_in_order() -> None:
    model, streamer = tiny_target(), Recorder()
    rows = decoded(model, padded(PROMPTS[:1]), do_sample=True, max_new_tokens=30, seed=1, streamer=streamer)
    assert streamer.tokens[0] == PROMPTS[0]
    assert [len(each) for each in streamer.tokens[1:]] == [1] * 30
    assert [token for each in streamer.tokens for token in each] == rows[0].tolist()
    assert streamer.ends == 1


def test_rows_end_with_their_own_end_of_sequence_or_at_the_length_and_are_padded_behind_it() -> None:
    model = tiny_target(SHORT)
    rows = decoded(model, padded(PROMPTS), do_sample=True, max_new_tokens=25, seed=1, eos_token_id=[5, 9, 13, 40])
    texts = [row[max(map(len, PROMPTS)) :].tolist() for row in rows]
    ends = [next((i for i, token in enumerate(text) if token in (5, 9, 13, 40)), 24) for text in texts]
    assert min(ends) < max(ends) <= 24
    assert len(texts[0]) == max(ends) + 1
    assert all(set(text[end + 1 :]) <= {0} for text, end in zip(texts, ends, strict=True))


def test_criteria_of_the_caller_are_asked_after_every_token_of_a_row() -> None:
    model, asked = tiny_target(SHORT), []

    def even(input_ids: Tensor, scores: Any) -> Tensor:
        asked.append(input_ids[0].tolist())
        return input_ids[:, -1] % 8 == 0

    row = decoded(model, padded(PROMPTS[:1]), max_new_tokens=40, do_sample=True, seed=2, stopping_criteria=[even])[0]
    new = row[len(PROMPTS[0]) :].tolist()
    assert [token % 8 == 0 for token in new] == [False] * (len(new) - 1) + [True]
    assert asked == [row[: len(PROMPTS[0]) + i + 1].tolist() for i in range(len(new))]


def test_a_seed_a_generator_or_the_global_one_decides_what_is_sampled() -> None:
    model, inputs = tiny_target(SHORT), padded(PROMPTS)

    def run(**randomness: Any) -> list[list[int]]:
        rows: list[list[int]] = decoded(model, inputs, do_sample=True, max_new_tokens=12, **randomness).tolist()
        return rows

    def seeded(seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        return run()

    assert run(seed=1) == run(seed=1) != run(seed=2)
    generator = torch.Generator().manual_seed(1)
    assert run(generator=torch.Generator().manual_seed(1)) == run(generator=generator) != run(generator=generator)
    assert seeded(1) == seeded(1) != seeded(2)
    with pytest.raises(ValueError, match="give a generator or a seed, not both"):
        run(seed=1, generator=generator)


def test_several_sequences_of_one_prompt_differ_and_keep_its_constraint() -> None:
    model = tiny_target(SHORT)
    allowed = {0: list(range(20)), 1: list(range(20, 48))}
    options: dict[str, Any] = {"num_return_sequences": 3, "max_new_tokens": 10, "seed": 1, "do_sample": True}
    found = decoded(
        model,
        padded(PROMPTS[:2]),
        prefix_allowed_tokens_fn=lambda batch, ids: allowed[batch],
        return_dict_in_generate=True,
        **options,
    )
    rows = found.sequences[:, 5:].tolist()
    assert len({tuple(row) for row in rows}) == 6
    assert all(set(row) <= set(allowed[index // 3]) for index, row in enumerate(rows))


RIGHT = {"input_ids": torch.tensor([[1, 2, 0], [1, 2, 3]]), "attention_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (padded(PROMPTS), {"num_beams": 2}, "beam_sample is not decoded with trees"),
        (padded(PROMPTS), {"prompt_lookup_num_tokens": 3}, "assisted_generation is not decoded with trees"),
        (padded(PROMPTS), {"return_dict_in_generate": True, "output_scores": True}, "output_scores cannot be given"),
        (padded(PROMPTS), {"streamer": Recorder()}, "a streamer takes one row, not 3"),
        (padded(PROMPTS), {"pad_token_id": None}, "several rows need a pad_token_id"),
        (
            padded(PROMPTS),
            {"guidance_scale": 1.5},
            "UnbatchedClassifierFreeGuidanceLogitsProcessor cannot be evaluated",
        ),
        (RIGHT, {}, "attention_mask: padding must stand on the left"),
        (padded(PROMPTS[:1]), {"position_ids": torch.tensor([[0, 2, 3, 4, 5]])}, "position_ids must count"),
        (padded(PROMPTS[:1]), {"labels": torch.tensor([[1]])}, "labels does not reach the model"),
        (padded([[1] * 512]), {}, "prompt 0 has 512 tokens, and the target's context ends at 512"),
    ],
)
def test_what_trees_cannot_give_is_refused_by_name(
    inputs: dict[str, Tensor], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        decoded(tiny_target(SHORT), inputs, **{"do_sample": True, "max_new_tokens": 4} | options)


def test_a_cache_of_the_caller_and_an_unknown_method_are_refused() -> None:
    from transformers import DynamicCache

    model: Any = tiny_target(SHORT)
    with pytest.raises(ValueError, match=r"a cache of the caller's is neither read nor filled"):
        decoded(model, padded(PROMPTS[:1]), max_new_tokens=4, cache=DynamicCache())
    with pytest.raises(ValueError, match="no method best; there are rheo, rrsw, topk"):
        rheo_decoding(skipping(model), CONFIG, "best")
