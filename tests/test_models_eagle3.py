"""EAGLE-3 checkpoints: read strictly, and run as their layout says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models.drafters.eagle3 import Eagle3, Eagle3Drafting
from rheo.models.drafters.eagle3_files import load_head
from rheo.models.drafters.loading import SHIPPED
from rheo.models.generation import Limits, generate
from rheo.models.smollm2 import ModelError
from rheo.tree import Frontier
from tests.tiny_models import (
    CONFIG,
    DRAFT_VOCAB,
    LONGER,
    VOCAB,
    head_tensors,
    tiny_target,
    write_head,
)

pytestmark = pytest.mark.model

SAMPLER = Sampler(replace(CONFIG, slots=8, budget=16), METHODS["rheo"])
LAYERS = (2, 4, 5)


def normed(states: Tensor, weight: Tensor) -> Tensor:
    return states / (states.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight


def rotated(states: Tensor) -> Tensor:
    """Rotary positions 0, 1, ... on [length, heads, 8], as complex numbers."""
    length, _, size = states.shape
    turn = torch.outer(torch.arange(length), 10_000.0 ** (-torch.arange(size // 2) / (size // 2)))
    both = (
        torch.complex(states[..., : size // 2], states[..., size // 2 :])
        * torch.polar(torch.ones_like(turn), turn)[:, None]
    )
    return torch.cat([both.real, both.imag], -1)


def plain_head(tensors: dict[str, Tensor], embedded: Tensor, before: Tensor) -> Tensor:
    """States [length, d] of a chain of pairs, written from the layout alone: no cache, no tree."""
    layer = {name.removeprefix("midlayer.").removesuffix(".weight"): tensor for name, tensor in tensors.items()}
    both = torch.cat([normed(embedded, layer["input_layernorm"]), normed(before, layer["hidden_norm"])], -1)
    q, k, v = ((both @ layer[f"self_attn.{name}_proj"].T).view(len(both), -1, 8) for name in "qkv")
    q, k = rotated(q), rotated(k).repeat_interleave(2, 1)
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(8)
    weights = scores.masked_fill(torch.ones(len(both), len(both)).triu(1).bool(), -torch.inf).softmax(-1)
    mixed = torch.einsum("hij,jhd->ihd", weights, v.repeat_interleave(2, 1)).flatten(1)
    state = before + mixed @ layer["self_attn.o_proj"].T
    inner = normed(state, layer["post_attention_layernorm"])
    return (
        state + (silu(inner @ layer["mlp.gate_proj"].T) * (inner @ layer["mlp.up_proj"].T)) @ layer["mlp.down_proj"].T
    )


@torch.inference_mode()
def plain_draft(target: Any, tensors: dict[str, Tensor], context: list[int], path: list[int]) -> Tensor:
    """Logits [draft vocabulary] after a context and a drafted path: true features, then the head's own states."""
    hidden = target(torch.tensor([context]), output_hidden_states=True).hidden_states
    before = torch.cat([hidden[layer][0] for layer in LAYERS], -1)[:-1] @ tensors["fc.weight"].T
    for step in range(len(path) + 1):
        tokens = torch.tensor(context[1:] + path[:step])
        states = plain_head(tensors, target.get_input_embeddings()(tokens), before)
        before = torch.cat([before, states[-1:]])
    return normed(states[-1], tensors["norm.weight"]) @ tensors["lm_head.weight"].T


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("draft_vocab", [DRAFT_VOCAB, VOCAB])
def test_a_head_drafts_over_trees_and_rounds_what_its_layout_says_of_each_chain(
    name: str, draft_vocab: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, tensors = tiny_target(), head_tensors(draft_vocab)
    head = load_head(str(write_head(tmp_path, tensors, name, draft_vocab_size=draft_vocab)))
    known = torch.arange(draft_vocab) + tensors.get("d2t", 0)
    drafted: list[tuple[Frontier, Tensor]] = []
    original = Eagle3Drafting.draft

    def draft(self: Eagle3Drafting, frontier: Frontier) -> Tensor:
        drafted.append((frontier, original(self, frontier)))
        return drafted[-1][1]

    monkeypatch.setattr(Eagle3Drafting, "draft", draft)
    texts = [list(prompt) for prompt in LONGER]
    accepted, sizes = 0, set()
    for done in generate(target, Eagle3(head, target), SAMPLER, LONGER, [1, 2, 3], Limits(12)):
        for frontier, logits in drafted:
            for row, request in enumerate(done.requests):
                for node in frontier.occupied[row].nonzero().flatten().tolist():
                    wanted = plain_draft(target, tensors, texts[request], frontier.paths[row, node].tolist())
                    torch.testing.assert_close(logits[row, node, known], wanted, atol=1e-4, rtol=1e-4)
                    assert int((logits[row, node] == -torch.inf).sum()) == VOCAB - draft_vocab
        drafted.clear()
        for request, tokens in zip(done.requests, done.tokens, strict=True):
            texts[request] += tokens
        accepted += int((done.path.lengths - 1).sum())
        sizes.add(len(done.requests))
    assert accepted > 0  # rounds of one token would show little of the cache
    assert len(sizes) > 1  # nor would a batch that stays whole show what becomes of its rows


def test_a_head_in_half_precision_serves_a_target_in_half_precision(tmp_path: Path) -> None:
    target = tiny_target().to(torch.bfloat16)
    head = load_head(str(write_head(tmp_path, head_tensors())), torch.bfloat16)
    assert head.lm_head.weight.dtype == torch.bfloat16 and head.d2t.dtype == torch.int64
    rounds = list(generate(target, Eagle3(head, target), SAMPLER, LONGER, [1, 2, 3], Limits(6)))
    assert sum(len(tokens) for done in rounds for tokens in done.tokens) == 18


def test_a_head_may_bring_embeddings_of_its_own(tmp_path: Path) -> None:
    target, tensors = tiny_target(), head_tensors()
    tensors["embed_tokens.weight"] = torch.randn(VOCAB, 32)
    drafter = Eagle3(load_head(str(write_head(tmp_path, tensors))), target)
    assert torch.equal(drafter.embeddings, tensors["embed_tokens.weight"])


def without(name: str) -> dict[str, Tensor]:
    return {key: tensor for key, tensor in head_tensors().items() if key != name}


class Code:
    """What a pickle may hold beside tensors."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this must never run",)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        (without("midlayer.self_attn.v_proj.weight"), r"tensor midlayer\.self_attn\.v_proj\.weight is missing"),
        (without("d2t"), "tensor d2t is missing"),
        (head_tensors() | {"fc.weight": torch.zeros(32, 64)}, r"tensor fc\.weight is \[32, 64\], expected \[32, 96\]"),
        (head_tensors() | {"d2t": torch.zeros(DRAFT_VOCAB)}, "tensor d2t holds torch.float32, expected torch.int64"),
        (head_tensors() | {"d2t": torch.zeros(DRAFT_VOCAB, dtype=torch.int64)}, "do not name the same 30 tokens"),
        (head_tensors() | {"extra": torch.zeros(1)}, "unknown tensor extra"),
    ],
)
def test_a_checkpoint_with_a_fault_is_refused_with_one_line_that_names_it(
    tensors: dict[str, Tensor], reason: str, name: str, tmp_path: Path
) -> None:
    folder = write_head(tmp_path, tensors, name)
    with pytest.raises(ModelError, match=rf"^{folder / name}: .*{reason}") as error:
        load_head(str(folder))
    assert "\n" not in str(error.value)


def test_pickled_code_is_refused_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_head(tmp_path, {**head_tensors(), "fc.bias": Code()})
    with pytest.raises(ModelError, match=r"pytorch_model\.bin: damaged, or holds pickled code; nothing but tensors"):
        load_head(str(folder))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pytorch_model.bin", b""),
        ("pytorch_model.bin", b"no weights"),
        ("pytorch_model.bin", [1, 2]),
        ("pytorch_model.bin", {"fc.weight": 3}),
        ("model.safetensors", b""),
        ("model.safetensors", b"no weights"),
    ],
)
def test_a_file_without_weights_is_refused_with_one_line(name: str, content: Any, tmp_path: Path) -> None:
    folder = write_head(tmp_path, head_tensors(), name)
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        torch.save(content, folder / name)
    with pytest.raises(ModelError, match=rf"^{folder / name}: ") as error:
        load_head(str(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hidden_size": None}, "hidden_size must be a positive integer, got None"),
        ({"num_hidden_layers": 2}, "one layer with silu"),
        ({"hidden_act": "gelu"}, "one layer with silu"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "positions of type dynamic are not supported"),
    ],
)
def test_a_configuration_that_is_no_head_is_refused(settings: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=rf"config\.json: .*{reason}"):
        load_head(str(write_head(tmp_path, head_tensors(), **settings)))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_head(str(tmp_path))
    (write_head(tmp_path, head_tensors()) / "pytorch_model.bin").unlink()
    with pytest.raises(ModelError, match=r"neither model\.safetensors nor pytorch_model\.bin"):
        load_head(str(tmp_path))


def test_a_head_and_a_target_that_do_not_fit_are_told_so(tmp_path: Path) -> None:
    target = tiny_target()
    head = load_head(str(write_head(tmp_path / "good", head_tensors())))
    with pytest.raises(ModelError, match="a target of 6 layers is too shallow"):
        Eagle3(head, tiny_target(layers=6))
    wide = head_tensors() | {"fc.weight": torch.zeros(32, 192)}
    with pytest.raises(ModelError, match="features of size 64, the target has 32"):
        Eagle3(load_head(str(write_head(tmp_path / "wide", wide, target_hidden_size=64))), target)
    target.resize_token_embeddings(VOCAB + 8, mean_resizing=False)
    with pytest.raises(ModelError, match="a vocabulary of size 48, the target has 56"):
        Eagle3(head, target)


def test_a_prompt_of_one_token_has_no_pair_for_a_head(tmp_path: Path) -> None:
    target = tiny_target()
    head = load_head(str(write_head(tmp_path, head_tensors())))
    with pytest.raises(ValueError, match="prompts of at least two tokens"):
        list(generate(target, Eagle3(head, target), SAMPLER, [[5]], [1], Limits(5)))


def test_the_shipped_head_loads_is_small_and_has_its_record() -> None:
    folder = SHIPPED / "smollm2"
    head = load_head(str(folder))
    assert (head.shape.hidden, head.shape.vocab) == (576, 49_152)
    assert (folder / "model.safetensors").stat().st_size <= 35e6
    record = json.loads((folder / "record.json").read_text())
    for suite in ("humaneval", "mt_bench"):
        measured = record["held_out"][suite]
        assert len(measured["overlap"]) == len(measured["top1"]) == 8
        assert measured["overlap"][0] <= measured["covered"]
    for figure in ("overlap", "top1"):
        assert sum(measured[figure][0] for measured in record["held_out"].values()) / 2 >= 0.55
