"""Where transformers' drafts come from, and whether the q it declares for them is what they were drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor
from transformers import (
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)
from transformers.generation import candidate_generator

from tests.test_engines import as_found
from verify import goodness
from verify.engines.toy_models import seeded
from verify.engines.transformers_assisted import assisted_generation
from verify.joint import count_cells, joint_law
from verify.toys import Table, Toy

pytestmark = pytest.mark.model

ALPHA = 1e-9
EAGER = {"assistant_confidence_threshold": 0.0}  # never cuts a draft short
Q = (1, 2, 3, 10)
TOY = Toy(4, Table((4, 4, 5, 3), {}), Table(Q, {}))  # the same p and q after every prefix


@dataclass
class Round:
    """What a candidate generator proposed in one round: tokens [d], and the q [d, vocab] it declares for them."""

    tokens: list[int]
    q: NDArray[np.float64]


def watch(monkeypatch: pytest.MonkeyPatch, generator: Any, change: Callable[[Tensor, Tensor], Tensor]) -> list[Round]:
    """The rounds of a candidate generator from now on; change(tokens [d], logits [1, d, vocab]) -> logits."""
    rounds: list[Round] = []
    inner = generator.get_candidates

    def get_candidates(self: Any, input_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        ids, logits = inner(self, input_ids, *args, **kwargs)
        if logits is None:
            return ids, logits
        tokens = ids[0, input_ids.shape[1] :]
        rounds.append(Round(tokens.tolist(), logits[0].double().softmax(-1).numpy()))
        return ids, change(tokens, logits)

    monkeypatch.setattr(generator, "get_candidates", get_candidates)
    return rounds


def unchanged(tokens: Tensor, logits: Tensor) -> Tensor:
    return logits


def one_hot(tokens: Tensor, logits: Tensor) -> Tensor:
    """What a greedy draft has to be declared as."""
    return torch.full_like(logits, -torch.inf).scatter(2, tokens[None, :, None], 0.0)


def rounds_of(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], count: int = 30) -> list[Round]:
    rounds = watch(monkeypatch, candidate_generator.AssistedCandidateGenerator, unchanged)
    assisted_generation(settings).sample(TOY, 8, count, seed=1)
    return rounds


def power_of_q(exponent: float) -> NDArray[np.float64]:
    weights = np.array(Q, dtype=np.float64) ** exponent
    return np.asarray(weights / weights.sum())


@as_found
def test_the_assistant_is_tempered_twice_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """At T = 1/2 the draft is q^4, not q^2: what is declared is what was drawn from, only acceptance is lost."""
    rounds = rounds_of(monkeypatch, {"depth": 4, "assistant": EAGER, "temperature": "1/2"}, count=150)
    for found in rounds:
        np.testing.assert_allclose(found.q[:, :4], np.tile(power_of_q(4), (len(found.q), 1)), rtol=1e-5)
    drafted = np.bincount([token for found in rounds for token in found.tokens], minlength=4)
    assert goodness.tv_gate(drafted, power_of_q(4)).p_value > ALPHA
    assert goodness.tv_gate(drafted, power_of_q(2)).p_value < ALPHA


@as_found
def test_the_assistant_is_cut_to_a_nucleus_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of q = (1, 2, 3, 10) / 16 the nucleus of 0.7 keeps (3, 10), of which it keeps 10 alone the second time."""
    rounds = rounds_of(monkeypatch, {"depth": 2, "assistant": EAGER, "generate": {"top_p": 0.7}})
    assert {token for found in rounds for token in found.tokens} == {3}


def test_a_nucleus_and_top_k_keep_the_target_that_they_make() -> None:
    """Of p = (1, 4, 8, 3) / 16 they keep (4, 8); of q = (1, 2, 3, 10) / 16 the last token, whose p is now 0."""
    toy = Toy(4, Table((1, 4, 8, 3), {}), Table(Q, {}))
    law = joint_law(Toy(4, Table((0, 4, 8, 0), {}), Table(Q, {})), 1.0, 3)
    settings = {"assistant": EAGER, "generate": {"top_k": 3, "top_p": 0.6}}
    samples = assisted_generation(settings).sample(toy, 3, 500, seed=2)
    assert goodness.tv_gate(count_cells(samples, 4), law).p_value > ALPHA


def test_an_unsure_draft_is_still_proposed_and_ends_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold looks at tokens that are proposed anyway, never at one that it then leaves out."""
    rounds = rounds_of(monkeypatch, {"depth": 5})
    likely = [[power_of_q(1)[token] >= 0.4 for token in found.tokens] for found in rounds]
    assert all(all(chain[:-1]) for chain in likely)
    assert any(not chain[-1] for chain in likely)
    assert any(len(chain) > 2 for chain in likely)


@as_found
def test_the_number_of_drafts_is_the_assistants_not_an_argument_of_generate(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"depth": 1, "assistant": EAGER, "generate": {"num_assistant_tokens": 3}}
    assert {len(found.tokens) for found in rounds_of(monkeypatch, settings)} == {1}


def test_a_heuristic_schedule_outlives_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """So sequences are not independent in how much they draft; what they say stays the target's."""
    settings = {"depth": 1, "assistant": {**EAGER, "num_assistant_tokens_schedule": "heuristic"}}
    rounds = rounds_of(monkeypatch, settings, count=2)
    lengths = [len(found.tokens) for found in rounds]
    assert lengths[0] == 1
    assert max(lengths) > 1
    single = rounds_of(monkeypatch, settings | {"assistant": EAGER}, count=2)
    assert {len(found.tokens) for found in single} == {1}


SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 2,
    "initializer_range": 0.5,  # wide: the usual one gives nearly uniform distributions
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


@dataclass(frozen=True)
class Spoken:
    """What a model says after a prompt, each prefix run in full and alone, without any cache."""

    model: Any
    vocab: int

    def p(self, prefixes: NDArray[np.integer]) -> NDArray[np.float64]:
        with torch.inference_mode():
            ids = [torch.tensor([[*PROMPT, *prefix]]) for prefix in prefixes.tolist()]
            return np.stack([self.model(x, use_cache=False).logits[0, -1].double().softmax(-1) for x in ids])

    q = p


PROMPT = [1, 2]


def generated(model: Any, count: int, length: int, **arguments: Any) -> NDArray[np.int64]:
    """Sequences that follow the prompt, int [count, length]."""
    ids = torch.tensor([PROMPT])
    with seeded(3):
        rows = [
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                max_new_tokens=length,
                pad_token_id=0,
                **arguments,
            )
            for _ in range(count)
        ]
    return torch.cat(rows)[:, len(PROMPT) :].numpy()


def llama(vocab: int, seed: int) -> Any:
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=vocab, **SIZES)).train(False)
    model.generation_config.num_assistant_tokens = 2
    model.generation_config.assistant_confidence_threshold = 0.0
    return model


def test_a_llama_pair_with_real_caches_keeps_the_target() -> None:
    target = llama(3, 0)
    samples = generated(target, 500, 4, assistant_model=llama(3, 1))[:, :3]
    assert goodness.tv_gate(count_cells(samples, 3), joint_law(Spoken(target, 3), 1.0, 3)).p_value > ALPHA


def gemma4() -> tuple[Any, Any]:
    """A target and its assistant, which has no cache of its own, of transformers' own classes."""
    sizes = SIZES | {"initializer_range": 0.3, "vocab_size": 4, "head_dim": 8, "global_head_dim": 8}
    sizes |= {"layer_types": ["sliding_attention", "full_attention"], "hidden_size_per_layer_input": 0}
    sizes |= {"vocab_size_per_layer_input": 0}
    torch.manual_seed(0)
    target = Gemma4ForCausalLM(Gemma4TextConfig(**sizes)).train(False)
    text = Gemma4TextConfig(num_kv_shared_layers=2, **sizes)
    assistant: Any = Gemma4AssistantForCausalLM
    model = assistant(Gemma4AssistantConfig(text_config=text, backbone_hidden_size=16)).train(False)
    model.generation_config.num_assistant_tokens = 1
    return target, model


@as_found
@pytest.mark.parametrize(("declared", "lossy"), [(unchanged, True), (one_hot, False)])
def test_a_gemma4_assistant_drafts_greedily_but_declares_q_and_loses_the_target(
    monkeypatch: pytest.MonkeyPatch, declared: Callable[[Tensor, Tensor], Tensor], lossy: bool
) -> None:
    """Declared as the one token that it is, the same draft is lossless: that is the fault, and all of it."""
    rounds = watch(monkeypatch, candidate_generator.SinglePositionMultiTokenCandidateGenerator, declared)
    target, assistant = gemma4()
    samples = generated(target, 400, 3, assistant_model=assistant)[:, :2]
    assert all(found.tokens == found.q.argmax(-1).tolist() for found in rounds)
    assert max(found.q.max() for found in rounds) < 0.99
    found = goodness.tv_gate(count_cells(samples, 4), joint_law(Spoken(target, 4), 1.0, 2))
    assert (found.p_value < ALPHA) == lossy


WORDS = [f"w{i}" for i in range(6)]


def tokenizer(words: list[str], sign: int = 1) -> Any:
    """A tokenizer that lists its vocabulary by ascending or descending id."""
    model = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    model.pre_tokenizer = Whitespace()
    wrap: Any = PreTrainedTokenizerFast
    result = wrap(tokenizer_object=model, unk_token=words[0])
    listed = dict(sorted(result.get_vocab().items(), key=lambda item: sign * item[1]))
    result.get_vocab = lambda: dict(listed)
    return result


@as_found
@pytest.mark.parametrize(("sign", "lossy"), [(1, False), (-1, True)])
def test_with_two_tokenizers_q_is_declared_in_the_order_that_a_vocabulary_is_listed_in(sign: int, lossy: bool) -> None:
    """Where the assistant has a word that the target lacks: right if its tokenizer lists it by ascending id."""
    target, assistant = llama(6, 0), llama(7, 1)
    tokenizers = {"tokenizer": tokenizer(WORDS), "assistant_tokenizer": tokenizer([*WORDS, "other"], sign)}
    first = generated(target, 400, 2, assistant_model=assistant, **tokenizers)[:, :1]
    found = goodness.tv_gate(count_cells(first, 6), joint_law(Spoken(target, 6), 1.0, 1))
    assert (found.p_value < ALPHA) == lossy


def test_a_tokenizer_as_shipped_lists_its_vocabulary_in_no_order() -> None:
    words = {f"w{i}": i for i in range(40)}
    wrap: Any = PreTrainedTokenizerFast
    listed = list(wrap(tokenizer_object=Tokenizer(WordLevel(words, unk_token="w0"))).get_vocab().values())
    assert sorted(listed) == list(range(40))
    assert listed != sorted(listed)


@as_found
def test_with_two_tokenizers_an_assistant_that_knows_fewer_words_raises() -> None:
    tokenizers = {"tokenizer": tokenizer(WORDS), "assistant_tokenizer": tokenizer(WORDS[:-1])}
    with pytest.raises(AttributeError, match="assistant_overlap_token_ids"):
        generated(llama(6, 0), 1, 2, assistant_model=llama(5, 2), **tokenizers)
