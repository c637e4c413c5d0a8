"""`rheo verify --target --draft`: verdicts and their statuses, what stops it, and checkpoints that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from reference.methods import PAPER
from reports import schema
from rheo.models import generation
from rheo.models.target import Target
from tests.conftest import Rheo
from tests.tiny_folders import words, write_target
from tests.tiny_models import DRAFT_VOCAB, VOCAB, head_tensors, write_head
from verify.models import record as recording
from verify.models import run as running
from verify.models.checks import MOST_MARGIN, MOST_TV, checked
from verify.models.faults import FAULTS, KeptSibling, ShiftedPosition
from verify.models.run import Progress

pytestmark = pytest.mark.model

SHAPE = ("--slots", 4, "--beam", 3, "--depth", 4, "--budget", 12, "--support", 16)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture
def verify(rheo: Rheo, target: Path, tmp_path: Path) -> Any:
    """The command on the tiny target; its status, its record (None without), and standard error."""

    def run(*arguments: object, draft: object = "skip:5") -> tuple[int, dict[str, Any] | None, str]:
        path = tmp_path / "run.json"
        options = ("--tokens", 2000, "--batch", 128, "--methods", "rheo", "--alpha", 1e-6, *SHAPE, "--json", path)
        status, out, err = rheo("verify", "--target", target, "--draft", draft, *options, *arguments)
        assert out == ""
        return status, json.loads(path.read_text()) if path.exists() else None, err

    return run


def test_every_method_is_lossless_and_the_broken_cache_is_found(verify: Any) -> None:
    status, record, err = verify("--methods", "rheo,rrsw,topk", "--prompt", words(3, 17, 9), "--prompt", words(7))
    assert (status, record["verdict"], record["complete"]) == (0, "lossless", True)
    assert [method["method"] for method in record["methods"]] == list(PAPER)
    for method in record["methods"]:
        assert (method["status"], method["tokens"], method["impossible"]) == ("lossless", 2000, 0)
        assert method["checks"]["differing"] == 0 and method["checks"]["tv"] < MOST_TV
        assert len(method["tests"]) == 12 and sum(test["tokens"] == 2000 for test in method["tests"]) == 4
        assert {test["alpha"] for test in method["tests"]} == {1e-6 / 3 / 12}
    control = record["control"]
    assert control["status"] == "found" and control["tokens"] <= 2000 and control["p_value"] < 1e-6 / 36
    assert "verdict: lossless" in err and "stale row" in err and "found" in err
    assert record.keys() == schema.MODELS["properties"].keys()


@pytest.mark.parametrize("fault", [KeptSibling, ShiftedPosition])
def test_a_broken_sampler_is_lossy(fault: type[Target], verify: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "Target", fault)
    status, record, err = verify()
    assert (status, record["verdict"]) == (1, "lossy")
    assert "away from a full forward's" in err and "Kolmogorov by p: p-value" in err


@pytest.mark.parametrize("fault", [{"tv": 2 * MOST_TV}, {"margin": 2 * MOST_MARGIN}])
def test_caches_that_differ_from_a_full_forward_are_lossy_whatever_the_tokens_say(
    fault: Any, verify: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "checked", lambda *arguments: replace(checked(*arguments), **fault))
    status, record, _ = verify()
    assert (status, record["verdict"], record["methods"][0]["status"]) == (1, "lossy", "lossy")
    assert record["control"]["status"] == "found" and record["methods"][0]["impossible"] == 0


def test_a_control_that_is_not_found_is_said(verify: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is broken here, and a size is stated all the same."""
    monkeypatch.setitem(FAULTS, "stale row", Target)
    for module in (running, recording):
        original = module.sized
        monkeypatch.setattr(module, "sized", lambda plan, pilot, was=original: replace(was(plan, pilot), tokens=300))
    status, record, err = verify()
    assert (status, record["verdict"], record["control"]["status"]) == (4, "control_passed", "not found")
    assert "NOT FOUND" in err


def test_too_few_tokens_for_the_control_conclude_nothing(verify: Any) -> None:
    status, record, err = verify("--tokens", 40)
    assert (status, record["verdict"], record["control"]["status"]) == (3, "inconclusive", "open")
    assert record["methods"][0]["status"] == "lossless" and "would do" in err


def test_half_precision_is_said_to_measure_rounding_too(verify: Any) -> None:
    status, record, err = verify("--dtype", "bfloat16", "--tokens", 1500)
    assert record["methods"][0]["checks"]["tv"] > MOST_TV and record["most"] is None
    assert status in (0, 1) and "the tests see rounding too" in err


def test_an_interrupted_run_says_what_it_did_and_goes_on_to_the_same_result(
    verify: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ("--checkpoint", tmp_path / "state.json", "--batch", 8)
    _, whole, _ = verify("--batch", 8)
    original = running.run

    def interrupted(*arguments: Any) -> Iterator[Progress]:
        for index, progress in enumerate(original(*arguments)):
            yield progress
            if index == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(running, "run", interrupted)
    status, record, err = verify(*state)
    assert (status, record["complete"], record["verdict"]) == (130, False, "inconclusive")
    assert 0 < record["methods"][0]["tokens"] < 2000 and "interrupted" in err
    monkeypatch.setattr(running, "run", original)
    status, resumed, _ = verify(*state)
    assert status == 0
    assert {**resumed, "seconds": 0} == {**whole, "seconds": 0}
    assert verify(*state)[0] == 0  # nothing is left to do


def test_a_checkpoint_of_another_run_is_refused(verify: Any, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert verify("--checkpoint", state, "--tokens", 40)[0] == 3
    status, _, err = verify("--checkpoint", state, "--tokens", 50)
    assert (status, err.count("\n")) == (2, 1) and "of another run: its tokens differ" in err
    state.write_text("{}")
    status, _, err = verify("--checkpoint", state)
    assert (status, err.count("\n")) == (2, 1) and "no checkpoint" in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--temperature", 0), "--temperature 0 leaves nothing to test"),
        (("--methods", "rheo,best"), "'best' is not one of"),
        (("--suite", "mt_bench", "--prompt", "x"), "give either --suite or --prompt"),
        (("--suite", "nowhere"), "neither a suite"),
        (("--slots", 1), "--anchors: must be less than slots"),
        (("--tv", 0.1), "--tv is not for --target and --draft"),
        (("--sampler", "x:y"), "--sampler is not for --target and --draft"),
        (("--prompt", words(*[3] * 600)), "prompt 0 has 600 tokens, and the target's context ends at 512"),
    ],
)
def test_what_cannot_be_verified_is_one_line(arguments: tuple[object, ...], reason: str, verify: Any) -> None:
    status, record, err = verify(*arguments)
    assert (status, record, err.count("\n")) == (2, None, 1) and reason in err


@pytest.mark.parametrize("arguments", [("--tokens", 5), ("--sampler", "x:y", "--tokens", 5)])
def test_options_for_models_are_refused_without_models(arguments: tuple[object, ...], rheo: Rheo) -> None:
    status, _, err = rheo("verify", *arguments)
    assert (status, err) == (2, "rheo: --tokens is for --target and --draft\n")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("draft_vocab", [DRAFT_VOCAB, VOCAB])
def test_a_checkpoint_in_the_official_layout_drafts_losslessly(
    name: str, draft_vocab: int, verify: Any, tmp_path: Path
) -> None:
    head = write_head(tmp_path / "head", head_tensors(draft_vocab), name, draft_vocab_size=draft_vocab)
    status, record, _ = verify(draft=head)
    assert (status, record["verdict"]) == (0, "lossless")


class Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this must never run",)


def without(name: str) -> dict[str, Any]:
    return {key: tensor for key, tensor in head_tensors().items() if key != name}


@pytest.mark.parametrize(
    ("name", "tensors", "reason"),
    [
        ("model.safetensors", without("midlayer.mlp.up_proj.weight"), "tensor midlayer.mlp.up_proj.weight is missing"),
        ("pytorch_model.bin", without("d2t"), "tensor d2t is missing"),
        ("pytorch_model.bin", head_tensors() | {"norm.weight": torch.ones(31)}, "tensor norm.weight is [31]"),
        ("pytorch_model.bin", head_tensors() | {"x": Code()}, "holds pickled code; nothing but tensors is read"),
        ("pytorch_model.bin", {}, "tensor"),
    ],
)
@pytest.mark.parametrize("command", ["verify", "rescore"])
def test_a_broken_checkpoint_is_one_line_at_every_command(
    command: str, name: str, tensors: dict[str, Any], reason: str, rheo: Rheo, target: Path, tmp_path: Path
) -> None:
    head = write_head(tmp_path / "head", tensors, name)
    text = tmp_path / "text.jsonl"
    text.write_text('{"prompt_token_ids": [1, 2], "token_ids": [3]}\n')
    arguments = ("rescore", text, "--output", tmp_path / "trace.npz") if command == "rescore" else ("verify",)
    status, out, err = rheo(*arguments, "--target", target, "--draft", head)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"rheo: {head / name}: ") and reason in err
