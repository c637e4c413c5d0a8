"""One forward over a tree says what token-by-token forwards say, for every row and after any number of rounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models import target as target_module
from rheo.models.causal import context_limit, require_tree_attention, windows
from rheo.models.drafters import Drafter
from rheo.models.drafters.language_model import LanguageModel, LanguageModelDrafting
from rheo.models.generation import Limits, generate
from rheo.models.smollm2 import ModelError
from rheo.models.target import Target
from rheo.tree import Frontier, Tree
from tests.tiny_models import (
    CONFIG,
    PROMPTS,
    SIZES,
    drafters,
    full_logits,
    keep_a_stale_row,
    node_paths,
    skipping,
    tiny_target,
)

pytestmark = pytest.mark.model

SAMPLER = Sampler(CONFIG, METHODS["rheo"])
TOLERANCE = 1e-4
GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8, "pad_token_id": 0}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Qwen2": {},
    "Qwen3": {"head_dim": 8},
    "Qwen2 with windows": {"use_sliding_window": True, "sliding_window": 6, "layer_types": MIXED},
    "Gemma": {"head_dim": 8, "pad_token_id": 0},
    "Gemma2": {**GEMMA, "sliding_window": 6, "layer_types": MIXED},
    "Gemma3": {**GEMMA, "sliding_window": 6, "layer_types": MIXED},
    "Mistral": {"sliding_window": None},
    "Mistral with windows": {"sliding_window": 7},
    "GPT2": {"n_positions": 512, "n_embd": 32, "n_layer": 3, "n_head": 4},
}


def build(name: str, **settings: Any) -> Any:
    kind = name.split()[0]
    configs: Any = transformers
    config = getattr(configs, kind + ("TextConfig" if kind == "Gemma3" else "Config"))
    sizes = {"vocab_size": 48, "initializer_range": 0.3} if kind == "GPT2" else SIZES
    torch.manual_seed(0)
    name = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    model = getattr(configs, name)(config(**{"num_hidden_layers": 3, **sizes, **settings}))
    return model.train(False)


def worst_difference(
    monkeypatch: pytest.MonkeyPatch, model: Any, drafter: Drafter, tokens: int = 24, sampler: Sampler = SAMPLER
) -> tuple[float, int]:
    """Over all rounds, requests and rows: how far a row's logits are from a full forward's; and rejected nodes."""
    seen: list[Tensor] = []
    original = Target.logits

    def logits(self: Target, tree: Tree) -> Tensor:
        seen.append(original(self, tree))
        return seen[-1]

    monkeypatch.setattr(Target, "logits", logits)
    texts = [list(prompt) for prompt in PROMPTS]
    worst, rejected = 0.0, 0
    for done in generate(model, drafter, sampler, PROMPTS, [1, 2, 3], Limits(tokens)):
        for row, request in enumerate(done.requests):
            paths = node_paths(done.tree, row)
            whole = full_logits(model, [texts[request] + path for path in paths.values()])
            there = torch.stack([logits[-1] for logits in whole])
            worst = max(worst, float((seen[-1][row, list(paths)] - there).abs().max()))
            rejected += len(paths) - int(done.path.lengths[row])
            texts[request] += done.tokens[row]
    return worst, rejected


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_forward_over_a_tree_equals_a_full_forward_at_every_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(name, **ARCHITECTURES[name])
    worst, rejected = worst_difference(monkeypatch, model, LanguageModel(model))
    assert worst < TOLERANCE
    assert rejected > 100


@pytest.mark.parametrize("name", ["Llama", "Gemma2"])
def test_eager_attention_reads_trees_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(name, **ARCHITECTURES[name], attn_implementation="eager")
    assert worst_difference(monkeypatch, model, LanguageModel(model))[0] < TOLERANCE


@pytest.mark.parametrize("kind", ["model", "layers"])
def test_a_cache_that_lost_one_row_fails_the_same_test(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tiny_target()
    drafter = drafters(target, tmp_path)[kind]
    assert worst_difference(monkeypatch, target, drafter, tokens=60)[0] < TOLERANCE
    monkeypatch.setattr(target_module, "keep", keep_a_stale_row)
    assert worst_difference(monkeypatch, target, drafter, tokens=60)[0] > 100 * TOLERANCE


@pytest.mark.parametrize("kind", ["model", "layers"])
def test_a_drafter_with_a_cache_drafts_what_a_full_forward_drafts(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tiny_target()
    drafter = drafters(target, tmp_path)[kind]
    assert isinstance(drafter, LanguageModel)
    drafted: list[tuple[Tensor, Tensor, Tensor]] = []
    original = LanguageModelDrafting.draft

    def draft(self: LanguageModelDrafting, frontier: Frontier) -> Tensor:
        drafted.append((frontier.paths, frontier.occupied, original(self, frontier)))
        return drafted[-1][2]

    monkeypatch.setattr(LanguageModelDrafting, "draft", draft)
    texts, worst = [list(prompt) for prompt in PROMPTS], 0.0
    for done in generate(target, drafter, SAMPLER, PROMPTS, [1, 2, 3], Limits(40)):
        for paths, occupied, logits in drafted:
            for row, request in enumerate(done.requests):
                nodes = occupied[row].nonzero().flatten().tolist()
                whole = full_logits(drafter.model, [texts[request] + paths[row, node].tolist() for node in nodes])
                there = torch.stack([full[-1] for full in whole])
                worst = max(worst, float((logits[row, nodes] - there).abs().max()))
        drafted.clear()
        for request, tokens in zip(done.requests, done.tokens, strict=True):
            texts[request] += tokens
    assert worst < TOLERANCE


def test_the_features_of_the_accepted_path_are_the_inputs_of_the_named_layers() -> None:
    target, layers = tiny_target(), (2, 4, 5)
    seen: list[tuple[Tensor, Tensor]] = []

    class Listening(LanguageModel):
        def start(self, contexts: Tensor, lengths: Tensor, features: Tensor) -> Any:
            seen.append((features, lengths - 1))
            state = super().start(contexts, lengths, features)
            original = state.accept

            def accept(tree: Any, path: Any, features: Tensor) -> None:
                seen.append((features, path.lengths))
                original(tree, path, features)

            state.accept = accept  # type: ignore[method-assign]
            return state

    drafter = Listening(skipping(target).model)
    drafter.layers = layers
    texts = [list(prompt) for prompt in PROMPTS]
    for done in islice(generate(target, drafter, SAMPLER, PROMPTS, [1, 2, 3], Limits(100)), 6):
        for request, tokens in zip(done.requests, done.path.tokens.tolist(), strict=True):
            texts[request] += [token for token in tokens if token >= 0]
    for request, text in enumerate(texts):
        with torch.inference_mode():
            states = target(torch.tensor([text]), output_hidden_states=True).hidden_states
        wanted = torch.cat([states[layer][0] for layer in layers], -1)
        rows = [features[request, len(features[request]) - int(count[request]) :] for features, count in seen]
        given = torch.cat(rows)[: len(text) - 1]
        assert len(given) > 10
        torch.testing.assert_close(given, wanted[: len(given)], atol=TOLERANCE, rtol=TOLERANCE)


def test_half_precision_generates_on_the_same_code() -> None:
    target = tiny_target().to(torch.bfloat16)
    rounds = list(generate(target, skipping(target), SAMPLER, PROMPTS, [1, 2, 3], Limits(8)))
    assert sum(len(tokens) for done in rounds for tokens in done.tokens) == 24


def test_windows_are_read_from_the_configuration() -> None:
    assert windows(build("Llama").config) == {"full_attention": None}
    assert windows(build("Mistral", sliding_window=7).config) == {"sliding_attention": 7}
    mixed = build("Gemma3", **ARCHITECTURES["Gemma3"]).config
    assert windows(mixed) == {"full_attention": None, "sliding_attention": 6}
    assert context_limit(build("GPT2", n_positions=64)) == 64


@pytest.mark.parametrize(
    ("build_it", "reason"),
    [
        (lambda: build("Bloom", hidden_size=32, n_layer=2, n_head=4), "takes no position_ids"),
        (lambda: build("Falcon", alibi=True, hidden_size=32), "ALiBi"),
        (lambda: build("Llama", rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}), "dynamic"),
        (lambda: build("Llama", attn_implementation="flex_attention"), "flex_attention takes no tree mask"),
        (lambda: build("Mamba", hidden_size=32, state_size=4), "position_ids|rolled back"),
    ],
)
def test_models_that_would_misread_a_tree_are_refused_by_name(build_it: Any, reason: str) -> None:
    with pytest.raises(ModelError, match=rf"cannot verify trees: .*({reason})"):
        require_tree_attention(build_it())


def test_a_deeper_tree_than_the_support_allows_is_read_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("Llama")
    narrow = Sampler(replace(CONFIG, slots=2, beam=1, depth=8, support=1, anchors=0), METHODS["topk"])
    assert worst_difference(monkeypatch, model, LanguageModel(model), sampler=narrow)[0] < TOLERANCE
