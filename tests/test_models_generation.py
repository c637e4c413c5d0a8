"""The decoding loop: greedy at T = 0, repeatable, and it ends where it should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, RepetitionPenaltyLogitsProcessor

from rheo.decoding import Pair, Sampler, play_round
from rheo.methods import METHODS
from rheo.models import generation
from rheo.models.drafters import Drafter
from rheo.models.drafters.language_model import LanguageModel
from rheo.models.generation import BONUS, RESIDUAL, Limits, Round, generate, stop_strings
from rheo.models.layer_skip import skip_last_layers
from rheo.processors import top_k
from rheo.tree import ANCHOR, FILLER, PROBE, Path, Tree
from rheo.uniforms import Uniforms
from tests.tiny_models import CONFIG, LONGER, PROMPTS, VOCAB, drafters, skipping, small_draft, tiny_target

pytestmark = pytest.mark.model

GREEDY = replace(CONFIG, temperature=0)
SAMPLER = Sampler(CONFIG, METHODS["rheo"])
KINDS = ("model", "layers", "eagle3")
SEEDS = [1, 2, 3]


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_target()


@pytest.fixture(scope="module")
def every_drafter(target: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drafter]:
    return drafters(target, tmp_path_factory.mktemp("head"))


def texts(rounds: Iterator[Round], prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """What was generated behind each prompt."""
    generated: list[list[int]] = [[] for _ in prompts]
    for done in rounds:
        for request, tokens in zip(done.requests, done.tokens, strict=True):
            generated[request] += tokens
    return generated


def greedy(model: Any, prompt: Sequence[int], count: int, **options: Any) -> list[int]:
    """What transformers generates by argmax."""
    out = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=count, pad_token_id=0, **options)
    return list(out[0, len(prompt) :].tolist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_without_temperature_every_method_with_every_drafter_is_greedy_decoding(
    method: str, kind: str, target: Any, every_drafter: dict[str, Drafter]
) -> None:
    rounds = list(generate(target, every_drafter[kind], Sampler(GREEDY, METHODS[method]), LONGER, SEEDS, Limits(50)))
    assert texts(iter(rounds), LONGER) == [greedy(target, prompt, 50) for prompt in LONGER]
    drafted = sum(origin < RESIDUAL for done in rounds for origins in done.origins for origin in origins)
    assert drafted > 0  # greedy decoding in single steps would prove nothing


def test_a_prompt_of_one_token_is_read_by_the_first_round(target: Any, every_drafter: dict[str, Drafter]) -> None:
    sampler = Sampler(GREEDY, METHODS["rheo"])
    for prompts in ([[7]], PROMPTS):
        got = texts(
            generate(target, every_drafter["layers"], sampler, prompts, SEEDS[: len(prompts)], Limits(9)), prompts
        )
        assert got == [greedy(target, prompt, 9) for prompt in prompts]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_what_is_generated(kind: str, target: Any, every_drafter: dict[str, Drafter]) -> None:
    def run(seeds: list[int]) -> list[list[int]]:
        return texts(generate(target, every_drafter[kind], SAMPLER, LONGER, seeds, Limits(30)), LONGER)

    assert run(SEEDS) == run(SEEDS)
    assert all(map(list.__ne__, run(SEEDS), run([4, 5, 6])))


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_does_not_depend_on_the_others_in_its_batch(
    kind: str, target: Any, every_drafter: dict[str, Drafter]
) -> None:
    together = texts(generate(target, every_drafter[kind], SAMPLER, LONGER, SEEDS, Limits(40)), LONGER)
    for prompt, seed, text in zip(LONGER, SEEDS, together, strict=True):
        assert texts(generate(target, every_drafter[kind], SAMPLER, [prompt], [seed], Limits(40)), [prompt]) == [text]


def test_a_batch_goes_on_without_those_that_ended(target: Any, every_drafter: dict[str, Drafter]) -> None:
    eos = {texts(generate(target, every_drafter["layers"], SAMPLER, [PROMPTS[0]], [1], Limits(20)), [[]])[0][9]}
    rounds = list(generate(target, every_drafter["layers"], SAMPLER, PROMPTS, SEEDS, Limits(40, eos=eos)))
    assert len({len(done.requests) for done in rounds}) > 1
    for request, (prompt, seed) in enumerate(zip(PROMPTS, SEEDS, strict=True)):
        alone = texts(generate(target, every_drafter["layers"], SAMPLER, [prompt], [seed], Limits(40, eos=eos)), [[]])
        assert alone[0] == texts(iter(rounds), PROMPTS)[request]


def test_what_a_round_emitted_behind_the_end_is_dropped(target: Any, every_drafter: dict[str, Drafter]) -> None:
    def play(limits: Limits) -> list[Round]:
        return list(
            generate(target, every_drafter["layers"], Sampler(GREEDY, METHODS["topk"]), [PROMPTS[0]], [1], limits)
        )

    long = next(done for done in play(Limits(60)) if len(done.tokens[0]) >= 3)
    text = texts(iter(play(Limits(60))), [[]])[0]
    middle = long.tokens[0][1]
    end = text.index(middle) + 1
    for limits, reason in (
        (Limits(60, eos={middle}), "eos"),
        (Limits(60, stop=lambda tokens: tokens[-1] == middle), "stop"),
        (Limits(end), "length"),
    ):
        rounds = play(limits)
        assert texts(iter(rounds), [[]])[0] == text[:end]
        assert [done.ends[0] for done in rounds] == [None] * (len(rounds) - 1) + [reason]
        assert len(rounds[-1].origins[0]) == len(rounds[-1].tokens[0])
    assert any(len(play(Limits(n))[-1].tokens[0]) < int(play(Limits(n))[-1].path.lengths[0]) for n in range(1, 6))


def test_greedy_decoding_stops_at_the_same_end_of_sequence_as_transformers(target: Any) -> None:
    text = greedy(target, PROMPTS[2], 30)
    for eos in {text[0], text[4], text[11]}:
        rounds = generate(
            target, skipping(target), Sampler(GREEDY, METHODS["rheo"]), [PROMPTS[2]], [1], Limits(30, eos=[eos])
        )
        assert texts(rounds, [[]])[0] == greedy(target, PROMPTS[2], 30, eos_token_id=eos)


@pytest.mark.parametrize("learned", [False, True])  # positions: beyond learned ones there is nothing to look up
def test_the_context_limit_ends_a_request_with_its_last_position_filled(learned: bool) -> None:
    model = tiny_gpt2(positions=24) if learned else tiny_target()
    model.config.max_position_embeddings = 24
    rounds = list(generate(model, LanguageModel(model), Sampler(GREEDY, METHODS["rheo"]), PROMPTS, SEEDS, Limits(1000)))
    generated = texts(iter(rounds), PROMPTS)
    assert [len(prompt) + len(text) for prompt, text in zip(PROMPTS, generated, strict=True)] == [24] * 3
    assert generated == [greedy(model, prompt, 24 - len(prompt)) for prompt in PROMPTS]
    assert {end for done in rounds for end in done.ends} == {None, "context"}


def tiny_gpt2(positions: int) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3}
    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None}
    return GPT2LMHeadModel(GPT2Config(n_positions=positions, **sizes, **ends)).train(False)


@pytest.mark.parametrize(
    ("prompts", "seeds", "limits", "message"),
    [
        ([], [], Limits(5), "there are no prompts"),
        ([[1], []], [1, 2], Limits(5), "prompt 1 is empty"),
        ([[1, -1]], [1], Limits(5), "prompt 0 holds tokens outside 0..47"),
        ([[48]], [1], Limits(5), "prompt 0 holds tokens outside 0..47"),
        ([[1] * 512], [1], Limits(5), "prompt 0 has 512 tokens, and the target's context ends at 512"),
        ([[1]], [1, 2], Limits(5), "1 prompts need as many seeds, got 2"),
        ([[1]], [1], Limits(0), "max_new_tokens must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_generated_is_refused_before_anything_is_read(
    prompts: list[list[int]], seeds: list[int], limits: Limits, message: str, target: Any
) -> None:
    with pytest.raises(ValueError, match=message):
        generate(target, skipping(target), SAMPLER, prompts, seeds, limits)


def test_a_processor_that_needs_the_path_is_refused_by_name(target: Any) -> None:
    penalty: Any = RepetitionPenaltyLogitsProcessor(1.2)
    with pytest.raises(ValueError, match="RepetitionPenaltyLogitsProcessor needs the path to each node"):
        generate(target, skipping(target), replace(SAMPLER, process=penalty), PROMPTS, SEEDS, Limits(5))
    only_best = replace(SAMPLER, process=top_k(1))
    assert texts(generate(target, skipping(target), only_best, PROMPTS, SEEDS, Limits(9)), PROMPTS) == [
        greedy(target, prompt, 9) for prompt in PROMPTS
    ]


def test_origins_tell_anchors_probes_and_fillers_from_residuals_and_bonuses(
    target: Any, every_drafter: dict[str, Drafter]
) -> None:
    counts = [0] * 5
    for done in generate(target, every_drafter["layers"], SAMPLER, PROMPTS, SEEDS, Limits(200)):
        for row in range(len(done.requests)):
            rows, tree = done.path.rows[row].tolist(), done.tree
            at = 0
            for origin, token, node in zip(done.origins[row], done.tokens[row], rows, strict=False):
                children = {
                    int(t)
                    for t, p, o in zip(tree.tokens[row], tree.parents[row], tree.occupied[row], strict=True)
                    if o and p == at
                }
                assert (token in children) == (origin in (ANCHOR, PROBE, FILLER)) == (node > 0)
                assert (origin == BONUS) == (not children)
                if node > 0:
                    slot = int(tree.slots[row, node - 1])
                    assert origin == (ANCHOR if slot < 1 else PROBE if slot == 1 else FILLER)
                counts[origin] += 1
                at = node
    assert counts[ANCHOR] and counts[PROBE] and counts[RESIDUAL] and counts[BONUS]


def test_stop_strings_are_found_across_tokens_and_not_before_they_are_complete() -> None:
    words = {0: "a st", 1: "op", 2: " it", 3: "x"}
    tokenizer: Any = SimpleNamespace(decode=lambda ids: "".join(words[i] for i in ids))
    stop = stop_strings(tokenizer, ["stop", "zz"])
    assert [stop(tokens) for tokens in ([0], [0, 3], [0, 1], [3] * 100 + [0, 1], [2])] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_draft_with_other_vocabulary_padding_stays_greedy(target: Any) -> None:
    wide = small_draft()
    wide.resize_token_embeddings(VOCAB + 16, mean_resizing=False)
    narrow = small_draft()
    narrow.resize_token_embeddings(VOCAB - 8)
    for draft in (wide, narrow):
        rounds = generate(target, LanguageModel(draft), Sampler(GREEDY, METHODS["rheo"]), PROMPTS, SEEDS, Limits(40))
        assert texts(rounds, PROMPTS) == [greedy(target, prompt, 40) for prompt in PROMPTS]


def test_a_target_that_drafts_for_itself_is_accepted_whenever_it_is_asked(target: Any) -> None:
    chain = Sampler(replace(GREEDY, anchors=0, slots=1, beam=1, budget=4), METHODS["topk"])
    whole = LanguageModel(skip_last_layers(target, 0))
    rounds = list(generate(target, whole, chain, PROMPTS, SEEDS, Limits(30)))
    assert all(int(length) == CONFIG.depth + 1 for done in rounds for length in done.path.lengths)


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_can_be_played_again_from_where_it_started(
    kind: str, target: Any, every_drafter: dict[str, Drafter], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[list[int]]:
        return texts(generate(target, every_drafter[kind], SAMPLER, LONGER, SEEDS, Limits(30)), LONGER)

    def twice(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        play_round(replace(sampler, method=METHODS["topk"]), pair, uniforms)
        return play_round(sampler, pair, uniforms)

    once = run()
    monkeypatch.setattr(generation, "play_round", twice)
    assert run() == once
