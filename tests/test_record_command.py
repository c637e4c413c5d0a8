"""The command writes what `record` returns, and whatever stops it leaves no half-written file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rheo.cli.record import record as command
from rheo.models.layer_skip import skip_last_layers
from tests.recordings import CONFIG, probabilities, tiny_llama, write_model, write_questions
from verify import cases
from verify.record import overlap, record

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


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(model_folder: Path) -> Invoke:
    def run(*arguments: object) -> Result:
        fixed = ["--target", str(model_folder), "--skip-layers", "1", "--vocab", "3"]
        return CliRunner().invoke(command, [*fixed, *map(str, arguments)])

    return run


def test_command_writes_what_record_returns(invoke: Invoke, target: Any, tmp_path: Path) -> None:
    output = tmp_path / "case.json"
    result = invoke("--prompt", "w3 w4", "--temperature", "0.5", "--support", 2, "--scale", 50, "--output", output)
    assert result.exit_code == 0, result.output
    config = CONFIG | {"support": 2, "temperature": "1/2"}
    expected = record(target, skip_last_layers(target, 1), [5, 6], 3, config, scale=50)
    assert json.loads(output.read_text()) == expected
    assert cases.load(output).config.support == 2
    assert result.stdout == f"{output}: 13 contexts of 3 tokens, mean overlap {overlap(expected):.3f} over those\n"
    assert not any(line.startswith("[") for line in result.stderr.splitlines())  # no tokens unless asked for
    assert [path.name for path in tmp_path.iterdir()] == ["case.json"]


def test_command_takes_a_question_and_advances_greedily(
    invoke: Invoke, target: Any, questions: Path, tmp_path: Path
) -> None:
    output = tmp_path / "case.json"
    result = invoke("--suite", questions, "--question", 81, "--advance", 3, "--output", output, "--verbose")
    assert result.exit_code == 0, result.output
    ids = [5, 6, 7]
    for _ in range(3):
        ids.append(int(np.argmax(probabilities(target, ids))))
    expected = record(target, skip_last_layers(target, 1), ids, 3, CONFIG | {"temperature": 1})
    assert json.loads(output.read_text()) == expected
    listed = [line for line in result.stderr.splitlines() if line.startswith("[")]
    assert len(listed) == 13
    assert "='w" in listed[0]


def test_command_does_not_advance_past_the_end_of_the_answer(
    invoke: Invoke, target: Any, tmp_path: Path, model_folder: Path
) -> None:
    stopping = shutil.copytree(model_folder, tmp_path / "stopping")
    ids = [5]
    for _ in range(3):
        ids.append(int(np.argmax(probabilities(target, ids))))
    assert ids[3] not in ids[1:3]
    (stopping / "generation_config.json").write_text(json.dumps({"eos_token_id": ids[3]}))
    for advance, code in ((2, 0), (3, 1), (9, 1)):
        result = invoke(
            "--target",
            stopping,
            "--prompt",
            "w3",
            "--advance",
            advance,
            "--output",
            tmp_path / f"{advance}.json",
        )
        assert result.exit_code == code
        assert (f"--advance {advance}: the target's answer ends with its token 3" in result.output) == bool(code)


def test_command_replaces_a_file_only_when_forced(invoke: Invoke, tmp_path: Path) -> None:
    output = tmp_path / "case.json"
    output.write_text("mine")
    refused = invoke("--prompt", "w3", "--output", output)
    assert refused.exit_code != 0
    assert "exists; --force replaces it" in refused.output
    assert output.read_text() == "mine"
    assert invoke("--prompt", "w3", "--output", output, "--force").exit_code == 0
    cases.load(output)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError("disk full")])
def test_an_interrupted_write_leaves_the_old_file_alone(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Any
) -> None:
    output = tmp_path / "case.json"
    output.write_text("mine")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("os.replace", fail)
    assert invoke("--prompt", "w3", "--output", output, "--force").exit_code != 0
    assert [path.name for path in tmp_path.iterdir()] == ["case.json"]
    assert output.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "either --suite or --prompt"),
        (["--suite", "humaneval", "--prompt", "w3"], "either --suite or --prompt"),
        (["--prompt", "w3", "--question", "1"], "--question needs --suite"),
        (["--prompt", ""], "must not be empty"),
        (["--suite", "nowhere"], "neither a suite"),
        (["--prompt", "w3", "--skip-layers", "4"], "cannot skip 4 of 4 layers"),
        (["--prompt", "w3", "--target", "no/where/at all"], "cannot load"),
        (["--prompt", "w3", "--vocab", "51"], "cannot keep 51 of 50 tokens"),
        (["--prompt", "w3", "--vocab", "30", "--depth", "3"], "more than 20000 contexts"),
        (["--prompt", "w3", "--depth", "100000"], "more than 20000 contexts"),
        (["--prompt", "w3", "--scale", "2"], "scale must be at least"),
        (["--prompt", "w3", "--anchors", "3"], "--anchors: must be less than slots"),
        (["--prompt", "w3", "--budget", "0"], "--budget: must be at least 1"),
        (["--prompt", "w3", "--support", "0"], "--support: must be at least 1"),
        (["--prompt", "w3", "--temperature", "1/0"], "--temperature"),
        (["--prompt", "w3", "--temperature", "warm"], "--temperature"),
        (["--prompt", "w3", "--temperature", "-1"], "--temperature"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    invoke: Invoke, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    result = invoke(*arguments, "--output", tmp_path / "case.json")
    assert result.exit_code != 0
    last = result.output.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert complaint in last
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_only_regular_files_in_existing_folders_are_written(invoke: Invoke, tmp_path: Path, force: list[str]) -> None:
    for output, complaint in (
        (tmp_path, "not a regular file"),
        (tmp_path / "none" / "case.json", "no folder"),
    ):
        result = invoke("--prompt", "w3", "--output", output, *force)
        assert result.exit_code != 0
        assert complaint in result.output
