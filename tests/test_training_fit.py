from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from rheo.cli import train_head as command
from rheo.models.drafters.eagle3_files import load_head
from rheo.models.drafters.eagle3_head import Eagle3Head
from rheo.models.prompts import Prompt
from rheo.models.smollm2 import ModelError
from rheo.training.batches import epoch, read
from rheo.training.decoding import Turns, sample_texts
from rheo.training.fit import FitPlan, Progress, Teacher, fit, losses_of
from rheo.training.loss import rejection_loss
from rheo.training.measure import agreement
from rheo.training.start import embedding_pair, feature_scale, new_head, tokens_seen, vocabulary
from rheo.training.text import Shard, save_shard, shard_path
from tests.tiny_models import SIZES, VOCAB, tiny_target

pytestmark = pytest.mark.model
LAYERS = (2, 4, 5)
PLAN = FitPlan(
    seed=1, epochs=2, batch=256, steps=2, alone=0.3, rate=2e-2, weight_decay=0.01, overlap=1.0, share=0.5, opening=0
)


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_target()


@pytest.fixture(scope="module")
def paths(target: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two shards of texts that the target wrote."""
    folder = tmp_path_factory.mktemp("text")
    return [write_shard(target, shard_path(folder, index), index) for index in range(2)]


def write_shard(target: Any, path: Path, seed: int) -> Path:
    starts = [[3 + i % 40] for i in range(30)]
    generator = torch.Generator().manual_seed(seed)
    nothing = Turns(frozenset(), ((), ()))
    texts = sample_texts(target, starts, [True] * 30, [1.0] * 30, 40, nothing, generator, LAYERS)
    shard = Shard(
        torch.cat([text.tokens for text in texts]).int(),
        torch.arange(31) * 41,
        torch.ones(30, dtype=torch.int64),
        torch.cat([text.features for text in texts]),
        torch.cat([text.states for text in texts]),
        dropped=0,
        seconds=0.0,
    )
    save_shard(path, shard)
    return path


def fresh(target: Any, paths: list[Path]) -> tuple[Eagle3Head, Teacher]:
    known = vocabulary(tokens_seen(paths), 30, VOCAB)
    embeddings, matrix = (part.weight.detach() for part in embedding_pair(target))
    scale = feature_scale(paths[0])
    heads = SIZES["num_attention_heads"]
    return new_head(target, known, 48, (heads, heads), scale, 0), Teacher(
        embeddings, matrix[torch.tensor(known)], scale
    )


def overlap(target: Any, head: Eagle3Head, path: Path) -> float:
    embeddings, matrix = (part.weight.detach() for part in embedding_pair(target))
    return agreement(head, embeddings, matrix, read(epoch([path], 256, 0, 0), 0), 2).overlap[0]


def test_a_head_learns_what_texts_it_has_not_seen_need(target: Any, paths: list[Path], tmp_path: Path) -> None:
    head, teacher = fresh(target, paths)
    before = overlap(target, head, paths[1])
    fit(head, teacher, paths[:1], replace(PLAN, epochs=8), tmp_path / "fit.pt", half=False, report=lambda _: None)
    after = overlap(target, head, paths[1])
    assert after > before + 0.04, (before, after)


def test_what_is_learned_is_the_head_that_is_saved(target: Any, paths: list[Path], tmp_path: Path) -> None:
    """Features are scaled while a head learns: neither the law learned nor the head in the end may show it."""
    head, teacher = fresh(target, paths)
    uneven = teacher.scale * torch.logspace(-2, 2, len(teacher.scale))[torch.randperm(len(teacher.scale))]
    before = {name: weight.clone() for name, weight in head.state_dict().items()}
    plan = replace(PLAN, epochs=1, rate=1e-9, alone=1.0)
    texts = next(iter(read(epoch(paths, plan.batch, plan.seed, 0), 0)))
    _, wanted = losses_of(head, teacher, texts, plan, 1, half=False, generator=torch.Generator())
    shown: list[Progress] = []
    fit(head, replace(teacher, scale=uneven), paths, plan, tmp_path / "fit.pt", half=False, report=shown.append)
    assert shown[0].overlaps[0] == pytest.approx(float(wanted[0]), abs=1e-5)
    for name, weight in head.state_dict().items():
        assert torch.allclose(weight, before[name], rtol=1e-5, atol=1e-7), name


@pytest.mark.parametrize("rows", [3, 300])
def test_the_loss_and_its_gradient_are_those_of_the_plain_formula(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    states, output, p_states, p_output = (
        torch.randn(size, 5, generator=generator, dtype=torch.float64) for size in (rows, 11, rows, 11)
    )

    def plain(states: torch.Tensor, output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        p, log_q = (p_states @ p_output.T).softmax(-1), (states @ output.T).log_softmax(-1)
        overlap = torch.minimum(p, log_q.exp()).sum(-1).mean()
        return 0.7 * (1 - overlap) - (p * log_q).sum(-1).mean(), overlap

    def ours(states: torch.Tensor, output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return rejection_loss(states, output, p_states, p_output, 0.7, half=False)

    found = []
    for loss_of in (plain, ours):
        learned = states.clone().requires_grad_(), output.clone().requires_grad_()
        loss, overlap = loss_of(*learned)
        (3 * loss).backward()  # type: ignore[no-untyped-call]
        found.append((loss, overlap, *(each.grad for each in learned)))
    for wanted, value in zip(*found, strict=True):
        assert torch.allclose(wanted, value, rtol=1e-12, atol=1e-14)


def test_a_fit_that_was_stopped_ends_as_one_left_alone(target: Any, paths: list[Path], tmp_path: Path) -> None:
    def run(checkpoint: Path, report: Callable[[Progress], None]) -> dict[str, torch.Tensor]:
        head, teacher = fresh(target, paths)
        fit(head, teacher, paths, PLAN, checkpoint, half=False, report=report)
        return head.state_dict()

    def stop(progress: Progress) -> None:
        if progress.done in (3, 13):
            raise KeyboardInterrupt

    whole = run(tmp_path / "whole.pt", lambda _: None)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "parts.pt", stop)
    parts = run(tmp_path / "parts.pt", lambda _: None)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_checkpoint_of_another_plan_is_refused(target: Any, paths: list[Path], tmp_path: Path) -> None:
    head, teacher = fresh(target, paths)
    fit(head, teacher, paths[:1], PLAN, tmp_path / "fit.pt", half=False, report=lambda _: None)
    learned, start = head, fresh(target, paths)[0]
    for begun, read_too in ((start, paths), (learned, paths[:1])):
        with pytest.raises(ModelError, match="of another plan, head or text"):
            fit(begun, teacher, read_too, PLAN, tmp_path / "fit.pt", half=False, report=lambda _: None)
    (tmp_path / "fit.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ModelError, match="damaged"):
        fit(start, teacher, paths[:1], PLAN, tmp_path / "fit.pt", half=False, report=lambda _: None)


def test_every_text_is_read_once_an_epoch(paths: list[Path]) -> None:
    for number in range(3):
        batches = epoch(paths, 300, 5, number)
        assert sorted((path, i) for path, group in batches for i in group) == [(p, i) for p in paths for i in range(30)]
    assert epoch(paths, 300, 5, 0) != epoch(paths, 300, 5, 1)


@pytest.fixture
def folder(target: Any, tmp_path: Path) -> Path:
    """The target as a folder, with a tokenizer of its own."""
    words = [f"w{i}" for i in range(VOCAB - 1)]
    model = Tokenizer(WordLevel({word: i for i, word in enumerate([*words, "?"])}, unk_token="?"))
    model.pre_tokenizer = Whitespace()
    wrap: Any = PreTrainedTokenizerFast
    wrap(tokenizer_object=model, unk_token="?").save_pretrained(tmp_path / "target")
    target.save_pretrained(tmp_path / "target")
    return tmp_path / "target"


def test_the_command_ends_with_a_head_that_loads_and_its_record(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def suite(name: str) -> list[Prompt]:
        return [Prompt(name, "0", ("w1 w2 w3",)), Prompt(name, "1", ("w4",))]

    monkeypatch.setattr("rheo.models.prompts.load_suite", suite)
    monkeypatch.setattr("rheo.training.prompts.library_functions", lambda: ["w1 w2"] * 10)
    sizes = ["--tokens", "300", "--texts", "6", "--length", "20", "--vocab", "30", "--batch", "128", "--steps", "2"]
    where = ["--output", str(tmp_path / "head"), "--work", str(tmp_path / "work"), "--target", str(folder)]
    result = CliRunner().invoke(command.train_head, [*where, *sizes, "--dtype", "float32"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    head = load_head(str(tmp_path / "head"))
    assert head.shape.draft_vocab == 30
    assert head.shape.hidden == SIZES["hidden_size"]
    record = json.loads((tmp_path / "head" / "record.json").read_text())
    assert record["text"]["tokens"] >= 300
    assert len(record["held_out"]["humaneval"]["overlap"]) == 8
    again = CliRunner().invoke(command.train_head, [*where, *sizes, "--dtype", "float32"], catch_exceptions=False)
    assert again.output == result.output  # nothing is sampled or fitted twice
    shards = sorted((tmp_path / "work").glob("text-*"))
    other = [*where, *sizes, "--dtype", "float32", "--tokens", "100000", "--rate", "0.5"]
    refused = CliRunner().invoke(command.train_head, other)
    assert refused.exit_code == 1 and "of another plan, head or text" in refused.output
    assert sorted((tmp_path / "work").glob("text-*")) == shards  # and nothing was sampled in vain

    further = ["--output", str(tmp_path / "further"), "--work", str(tmp_path / "more"), "--target", str(folder)]
    keep = [option for i, option in enumerate(sizes) if "--vocab" not in sizes[max(0, i - 1) : i + 1]]
    begin = ["--start", str(tmp_path / "head"), "--dtype", "float32", "--rate", "1e-9"]
    result = CliRunner().invoke(command.train_head, [*further, *keep, *begin], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    longer = load_head(str(tmp_path / "further"))
    assert all(torch.allclose(value, longer.state_dict()[name]) for name, value in head.state_dict().items())
    written = [json.loads((tmp_path / name / "record.json").read_text()) for name in ("head", "further")]
    assert written[1]["start"] == written[0]
    refused = CliRunner().invoke(command.train_head, [*further, *sizes, *begin])
    assert refused.exit_code == 1
    assert "--vocab: decided by the head of --start" in refused.output
