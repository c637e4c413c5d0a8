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
from rheo.training.fit import FitPlan, Progress, Teacher, fit
from rheo.training.measure import agreement
from rheo.training.start import embedding_pair, feature_scale, new_head, vocabulary
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
    known, _ = vocabulary(paths, 30, VOCAB)
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
    with pytest.raises(ModelError, match="of another plan"):
        fit(head, teacher, paths, PLAN, tmp_path / "fit.pt", half=False, report=lambda _: None)
    (tmp_path / "fit.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ModelError, match="damaged"):
        fit(head, teacher, paths[:1], PLAN, tmp_path / "fit.pt", half=False, report=lambda _: None)


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
