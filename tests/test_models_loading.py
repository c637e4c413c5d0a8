"""Suites, models and tokenizers are loaded from folders and packages, and what cannot be loaded is one line."""

from __future__ import annotations

import gzip
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import click
import pytest
import torch

from rheo.models import prompts, smollm2
from rheo.models.prompts import Prompt, PromptError, chat_ids, find_prompt, load_suite
from rheo.models.smollm2 import ModelError, load_target
from tests.recordings import PROMPT, tiny_llama, write_model, write_questions

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_llama()


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, target: Any) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), target)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "questions")


def test_a_question_folder_is_parsed(questions: Path) -> None:
    assert load_suite(str(questions)) == [
        Prompt("questions", "81", ("w3 w4 w5", "again")),
        Prompt("questions", "b/7", ("w6\u2028w7",)),
    ]


def test_questions_are_found_by_identifier_before_index() -> None:
    named = [Prompt("s", name, (name,)) for name in ("2", "1", "0", "x")]
    assert find_prompt(named, "2").identifier == "2"
    assert find_prompt(named, "3").identifier == "x"
    for key in ("4", "-1", "y", "\u00b2"):
        with pytest.raises(PromptError, match="neither an identifier nor an index below 4"):
            find_prompt(named, key)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no questions"),
        (b"{", "line 1: broken JSON"),
        (b'{"question_id": 1, "turns": ["a"]}\n[1]', "line 2: not an object"),
        (b'{"turns": ["a"]}', "line 1: no question_id"),
        (b'{"question_id": 1, "turns": []}', "line 1: turns must be"),
        (b'{"question_id": 1, "turns": "a"}', "line 1: turns must be"),
        (b'{"question_id": 1}', "line 1: turns must be"),
        (b"\xff", "decode"),
    ],
)
def test_a_broken_question_file_is_one_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "question.jsonl").write_bytes(content)
    with pytest.raises(PromptError, match=complaint) as caught:
        load_suite(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_an_unknown_suite_names_the_known_ones() -> None:
    with pytest.raises(PromptError, match=r"neither a suite \(humaneval, mt_bench\) nor a folder"):
        load_suite("nowhere")


def test_a_failed_download_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RHEO_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelError, match="cannot download no-such-package==1") as caught:
        smollm2.package_file("no-such-package", "1", "data.txt")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_is_fetched_once_and_its_file_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheels, cache = tmp_path / "wheels", tmp_path / "cache"
    wheels.mkdir()
    info = "no_such_package-1.dist-info"
    with zipfile.ZipFile(wheels / "no_such_package-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("no_such_package/data/some.txt", "data")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: no-such-package\nVersion: 1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("RHEO_CACHE", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    with pytest.raises(ModelError, match=r"no-such-package 1 holds no other\.txt"):
        smollm2.package_file("no-such-package", "1", "other.txt")
    path = smollm2.package_file("no-such-package", "1", "no_such_package/data/some.txt")
    assert path.read_text() == "data"
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))  # nothing to download any more
    assert smollm2.package_file("no-such-package", "1", "no_such_package/data/some.txt") == path
    assert [p for p in cache.rglob("*") if p.is_file()] == [path]


def test_a_compressed_suite_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = tmp_path / "HumanEval.jsonl.gz"
    data.write_bytes(gzip.compress(b'{"task_id": "HumanEval/0", "prompt": "def f():", "test": ""}\n'))
    monkeypatch.setattr(prompts, "package_file", lambda *_: data)
    assert load_suite("humaneval") == [Prompt("humaneval", "HumanEval/0", ("def f():",))]


def test_the_default_target_is_loaded_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model_folder: Path, target: Any
) -> None:
    monkeypatch.setenv("RHEO_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "package_file", lambda *_: pytest.fail("fetched again"))
    shutil.copytree(model_folder, tmp_path / "smollm2-135m-instruct")
    model, _ = load_target()
    assert model.dtype == torch.float32
    assert not model.training
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, target(ids).logits)
    assert load_target(dtype=torch.bfloat16)[0].dtype == torch.bfloat16


def test_a_file_of_an_installed_package_is_read_in_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RHEO_CACHE", str(tmp_path))
    path = smollm2.package_file("click", "any version", "click/core.py")
    assert path.samefile(click.core.__file__)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None if name == "gguf" else object())
    with pytest.raises(ModelError, match=r'gguf not installed; .* extra "models"'):
        load_target("smollm2")


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load") as caught:
        load_target(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_model_is_put_on_the_device_that_was_asked_for(model_folder: Path) -> None:
    assert load_target(str(model_folder))[0].device.type == "cpu"
    assert load_target(str(model_folder), device="meta")[0].device.type == "meta"


def test_a_chat_template_wraps_the_message(model_folder: Path) -> None:
    _, tokenizer = load_target(str(model_folder))
    assert chat_ids(tokenizer, "w3 w4") == [5, 6]
    tokenizer.chat_template = "w0 {{ messages[0]['content'] }}{% if add_generation_prompt %} w1{% endif %}"
    assert chat_ids(tokenizer, "w3 w4") == [2, 5, 6, 3]
