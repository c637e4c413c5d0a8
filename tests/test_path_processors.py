"""Processors that look at the tokens before: every node by its own prefix, and those that cannot be are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    ClassifierFreeGuidanceLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
)

from rheo.decoding import Sampler
from rheo.growth import grow
from rheo.methods import METHODS
from rheo.models import generation
from rheo.models.generation import RESIDUAL, Limits, generate
from rheo.models.path_processors import PathProcessors, path_processors, process_trees
from rheo.tree import Tree
from rheo.uniforms import draw_uniforms
from tests.tiny_models import CONFIG, PROMPTS, VOCAB, full_logits, node_paths, skipping, tiny_target
from verify.pit import ORDERS, kolmogorov, pit_of
from verify.power import ks_detectable, ks_samples

GREEDY = Sampler(replace(CONFIG, temperature=0), METHODS["rheo"])
SEEDS = [1, 2, 3]
EOS = 19


def neighbours(prefixes: Tensor, scores: Tensor) -> Tensor:
    """A grammar: odd tokens follow even ones, even ones odd ones."""
    return scores.masked_fill((torch.arange(scores.shape[1]) + prefixes[:, -1:]) % 2 == 0, -torch.inf)


def recorded(processor: Callable[..., Tensor], seen: list[list[int]]) -> Callable[[Tensor, Tensor], Tensor]:
    """The processor, noting the prefixes it is asked for."""

    def process(prefixes: Tensor, scores: Tensor) -> Tensor:
        seen.extend(prefixes.tolist())
        answer: Tensor = processor(prefixes, scores)
        return answer

    return process


def drafted() -> tuple[Tree, Tensor]:
    """Random trees for the prompts, and random target logits for their rows."""
    torch.manual_seed(5)
    uniforms = draw_uniforms(CONFIG, SEEDS)
    tree = grow(lambda f: torch.randn(*f.tokens.shape, VOCAB), uniforms.probe, CONFIG, METHODS["rheo"].growth)
    return tree, torch.randn(len(PROMPTS), CONFIG.budget + 1, VOCAB)


def test_every_node_is_processed_as_if_it_were_the_end_of_a_text_of_its_own() -> None:
    tree, logits = drafted()
    processors: Any = LogitsProcessorList(
        [RepetitionPenaltyLogitsProcessor(1.7), NoBadWordsLogitsProcessor([[3, 4], [8]]), neighbours]
    )
    seen: list[list[int]] = []
    chain = [*processors[:-1], recorded(neighbours, seen)]
    got = process_trees([chain] * 3, PROMPTS, [99] * 3, [[EOS]] * 3, tree, logits)
    asked = 0
    for request, prompt in enumerate(PROMPTS):
        possible = {0}
        for row, path in node_paths(tree, request).items():
            above = 0 if row == 0 else int(tree.parents[request, row - 1])
            if row and above in possible and path[-1] != EOS and got[request, above, path[-1]] > -torch.inf:
                possible.add(row)
            alone = processors(torch.tensor([prompt + path]), logits[request, row : row + 1].clone())[0]
            assert torch.equal(got[request, row], alone if row in possible else logits[request, row])
        asked += len(possible)
    assert len(seen) == asked + len(PROMPTS)  # the roots once more, to see whether they are answered as before
    assert 3 < asked < sum(len(node_paths(tree, request)) for request in range(3))


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_no_processor_is_asked_about_text_that_will_not_be_emitted(wanted: int) -> None:
    tree, logits = drafted()
    seen: list[list[int]] = []
    process_trees([[recorded(lambda _, scores: scores, seen)]] * 3, PROMPTS, [wanted] * 3, [[]] * 3, tree, logits)
    new = [len(row) - len(next(p for p in PROMPTS if row[: len(p)] == p)) for row in seen]
    assert set(new) == set(range(wanted))


def test_rows_of_a_batch_that_a_processor_tells_apart_stay_apart() -> None:
    tree, logits = drafted()
    ignored = torch.tensor([0, 1, 4])
    allowed = {0: [1, 3, 9], 1: [4, 5, 7], 2: [1, 5, 44]}
    processors: list[Any] = [
        RepetitionPenaltyLogitsProcessor(2.0, prompt_ignore_length=ignored),
        PrefixConstrainedLogitsProcessor(lambda batch, prefix: allowed[batch], num_beams=1),
    ]
    paths = path_processors(processors, PROMPTS)
    got = process_trees([each.processors for each in paths], PROMPTS, [99] * 3, [[]] * 3, tree, logits)
    for request, prompt in enumerate(PROMPTS):
        alone = RepetitionPenaltyLogitsProcessor(2.0, prompt_ignore_length=int(ignored[request]))
        root = alone(torch.tensor([prompt]), logits[request, :1])[0]
        kept = allowed[request]
        assert torch.equal(got[request, 0, kept], root[kept])
        assert (got[request, 0] > -torch.inf).nonzero().squeeze(-1).tolist() == kept
    assert processors[0].prompt_ignore_length is ignored  # the caller's own is left alone


class Counts:
    """Forbids the first token on its second call."""

    calls = 0

    def __call__(self, prefixes: Tensor, scores: Tensor) -> Tensor:
        self.calls += 1
        return scores.index_fill(1, torch.tensor([0]), -torch.inf) if self.calls > 1 else scores


class Gathers:
    """Forbids every token that was ever the last of a prefix: right along one text, wrong on a tree."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def __call__(self, prefixes: Tensor, scores: Tensor) -> Tensor:
        self.seen |= set(prefixes[:, -1].tolist())
        return scores.index_fill(1, torch.tensor(sorted(self.seen)), -torch.inf)


def noise(prefixes: Tensor, scores: Tensor) -> Tensor:
    return scores + torch.randn_like(scores)


@pytest.mark.parametrize("processor", [Counts(), Gathers(), noise], ids=["Counts", "Gathers", "noise"])
def test_a_processor_that_remembers_or_draws_is_found_out_and_named(processor: Any) -> None:
    tree, logits = drafted()
    name = getattr(processor, "__name__", type(processor).__name__)
    with pytest.raises(ValueError, match=f"^{name} cannot be evaluated on a tree: it answers the same prefix diff"):
        process_trees([[neighbours, processor]], PROMPTS[:1], [9], [[]], tree, logits)


guidance: Any = ClassifierFreeGuidanceLogitsProcessor
encoder: Any = EncoderRepetitionPenaltyLogitsProcessor


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (guidance(1.5), "ClassifierFreeGuidanceLogitsProcessor cannot .* mixes the rows"),
        (
            SynthIDTextWatermarkLogitsProcessor(5, [1, 2], 1024, 0, 1024, device=torch.device("cpu")),
            "SynthIDTextWatermarkLogitsProcessor cannot .* remembers",
        ),
        (encoder(1.5, torch.tensor([[1, 2]])), "EncoderRepetitionPenaltyLogitsProcessor cannot .* holds the rows"),
        (lambda prefixes, scores, cur_len: scores, "<lambda> is not called with prefixes and scores alone"),
        (lambda scores: scores, "<lambda> is not called with prefixes and scores alone"),
    ],
)
def test_what_cannot_be_evaluated_on_a_tree_is_refused_by_name(processor: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        path_processors([neighbours, processor], PROMPTS)


def greedy(model: Any, prompt: list[int], processors: Sequence[Any]) -> tuple[list[int], int]:
    """The text that is generated without temperature, and how many of its tokens were drafted."""
    paths = path_processors(processors, [prompt])
    rounds = list(generate(model, skipping(model), GREEDY, [prompt], [1], Limits(25, eos=[EOS]), paths))
    drafted = sum(origin < RESIDUAL for done in rounds for origin in done.origins[0])
    return [token for done in rounds for token in done.tokens[0]], drafted


CHAINS: dict[str, Callable[[int], list[Any]]] = {
    "penalty": lambda length: [RepetitionPenaltyLogitsProcessor(1.3)],
    "ngrams": lambda length: [NoRepeatNGramLogitsProcessor(2)],
    "least": lambda length: [MinNewTokensLengthLogitsProcessor(length, 23, EOS)],
    "words": lambda length: [NoBadWordsLogitsProcessor([[9], [3, 17], [41, 2, 5]])],
    "grammar": lambda length: [neighbours],
    "allowed": lambda length: [PrefixConstrainedLogitsProcessor(lambda _, x: list(range(int(x[-1]) % 3, VOCAB, 3)), 1)],
    "several": lambda length: [RepetitionPenaltyLogitsProcessor(1.2), NoRepeatNGramLogitsProcessor(3), neighbours],
}


@pytest.mark.model
@pytest.mark.parametrize("name", CHAINS)
def test_without_temperature_text_under_processors_is_that_of_transformers(name: str) -> None:
    model = tiny_target()
    changed, drafted = False, 0
    for prompt in PROMPTS:
        processors = CHAINS[name](len(prompt))
        options: dict[str, Any] = {"do_sample": False, "max_new_tokens": 25, "eos_token_id": EOS, "pad_token_id": 0}
        wanted = model.generate(torch.tensor([prompt]), logits_processor=LogitsProcessorList(processors), **options)
        got, accepted = greedy(model, prompt, processors)
        assert got == wanted[0, len(prompt) :].tolist()
        changed |= got != greedy(model, prompt, [])[0]
        drafted += accepted
    assert changed
    assert drafted > 0  # single steps would prove nothing


REQUESTS, LENGTH, PENALTY = 300, 16, 3.0  # 4,800 tokens; in longer texts every token has been seen before
ALPHA, BETA = 1e-6, 1e-6


def repeating_target() -> Any:
    """One that likes to say the last token again, so that a penalty on it shows."""
    model = tiny_target(layers=5)
    with torch.no_grad():
        model.lm_head.weight += 5 * model.model.embed_tokens.weight
    return model


def penalised(logits: NDArray[np.float64], context: Sequence[int], first: int) -> NDArray[np.float64]:
    """The law of every token from `first` on: what stands before it anywhere is made less likely."""
    rows = []
    for index in range(first, len(context)):
        row = logits[index - 1].copy()
        seen = list(set(context[:index]))
        row[seen] = np.where(row[seen] < 0, row[seen] * PENALTY, row[seen] / PENALTY)
        rows.append(np.exp(row - row.max()))
    law = np.stack(rows)
    return np.asarray(law / law.sum(1, keepdims=True))


def recent(context: Sequence[int], first: int) -> NDArray[np.float64]:
    """For every token from `first` on: 1 for those among the few before it, else 0."""
    marks = np.zeros((len(context) - first, VOCAB))
    for row, index in enumerate(range(first, len(context))):
        marks[row, list(context[max(0, index - CONFIG.depth) : index])] = 1.0
    return marks


def p_values(seed: int) -> dict[str, float]:
    """By order of tokens, of Kolmogorov's test of text sampled under a repetition penalty."""
    model = repeating_target()
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(VOCAB, size=1 + index % 4).tolist() for index in range(REQUESTS)]
    texts: list[list[int]] = [[*prompt] for prompt in prompts]
    paths = path_processors([RepetitionPenaltyLogitsProcessor(PENALTY)], prompts)
    sampler, seeds = Sampler(CONFIG, METHODS["rheo"]), [seed * REQUESTS + index for index in range(REQUESTS)]
    for done in generate(model, skipping(model), sampler, prompts, seeds, Limits(LENGTH), paths):
        for request, new in zip(done.requests, done.tokens, strict=True):
            texts[request] += new
    starts = [len(prompt) for prompt in prompts]
    logits = [row.double().numpy() for row in full_logits(model, texts)]
    p = np.concatenate([penalised(*each) for each in zip(logits, texts, starts, strict=True)])
    before = np.concatenate([recent(*each) for each in zip(texts, starts, strict=True)])
    tokens = np.concatenate([text[start:] for text, start in zip(texts, starts, strict=True)])
    assert len(tokens) == REQUESTS * LENGTH
    own = p[np.arange(len(tokens)), tokens]
    randomiser = np.random.default_rng(10_000 + seed)
    pits = {
        "p": pit_of(p, p, tokens, ORDERS["p"], randomiser),
        "recent first": pit_of(p, p, tokens, lambda p, q: before, randomiser),
    }
    return {name: kolmogorov(pit, own).p_value for name, pit in pits.items()}


@pytest.mark.model
def test_sampled_tokens_follow_the_law_of_an_independent_forward_with_the_penalty_applied() -> None:
    """At alpha 1e-6 over both orders; a Kolmogorov distance of 0.08 is missed once in 10^6 times."""
    assert ks_detectable(REQUESTS * LENGTH, ALPHA / 2, BETA) < 0.08
    assert min(p_values(seed=1).values()) >= ALPHA / 2


@pytest.mark.model
def test_a_penalty_by_the_prefix_of_the_root_is_found_by_the_same_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens drafted above a node are forgotten. Its distance was measured once, as 0.093 in both orders."""
    assert ks_samples(0.093, ALPHA / 2, BETA) < REQUESTS * LENGTH

    def by_root(chains: Any, prefixes: Any, wanted: Any, eos: Any, tree: Tree, logits: Tensor) -> Tensor:
        rows = []
        for (process,), prefix, scores in zip(chains, prefixes, logits, strict=True):
            rows.append(process(torch.tensor([prefix]).expand(len(scores), -1), scores))
        return torch.stack(rows)

    monkeypatch.setattr(generation, "process_trees", by_root)
    assert min(p_values(seed=1).values()) < ALPHA / 2


@pytest.mark.model
def test_paths_that_do_not_match_the_prompts_are_refused() -> None:
    model = tiny_target(3)
    for count in (1, 4):
        paths = [PathProcessors((neighbours,), (1,))] * count
        with pytest.raises(ValueError, match=f"3 prompts need as many chains of processors, got {count}"):
            generate(model, skipping(model), GREEDY, PROMPTS, SEEDS, Limits(5), paths)
