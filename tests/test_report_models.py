"""The page of a run on models: every method with what speaks against it, the control, and the verdict in a sentence."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from reports import losslessness
from reports.console_losslessness import losslessness_table
from reports.page import render
from tests.conftest import Rheo
from tests.runs import models_run
from tests.test_report import Page


def test_a_method_stands_with_all_that_speaks_against_it(rheo: Rheo, tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(json.dumps(models_run()), encoding="utf-8")
    assert rheo("report", run) == (0, f"{tmp_path / 'run.html'}\n", "")
    said = Page((tmp_path / "run.html").read_text(encoding="utf-8")).words
    assert "1 of 3 lossless" in said
    assert "Nothing was sampled" not in said
    assert "What topk emits departs from the target" in said
    for fault in (
        "topk: Kolmogorov by p: p-value 1e-14", "topk: 2 tokens of probability 0",
        "topk: at T = 0 a token whose logit is 0.8 below",
        "topk: logits from caches are a total variation of 0.02 away",
    ):  # fmt: skip
        assert fault in said
    assert "rheo: " not in said.replace("under rheo: ", "")
    assert "a stale row under rheo: D = 0.4 by p in" in said and "found, p-value 1e-30" in said


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("lossless", "No departure from the target was found in 0 tokens of each of 3 methods"),
        ("inconclusive", "Neither lossless nor lossy"),
        ("control_passed", "nothing else this run says can be relied on"),
    ],
)
def test_the_sentence_says_what_the_verdict_means(verdict: str, words: str) -> None:
    assert words in Page(render({**models_run(), "verdict": verdict}, "run.json")).words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pilot": None}, "not reached"),
        ({"tokens": None}, "too few to say how many would do"),
        ({"status": "open", "tokens": 9_000}, "miss it with probability <= 1e-6; that many --tokens would do"),
        ({"status": "open"}, "900 others miss it with probability <= 1e-6; stopped before its end"),
        (
            {"status": "not found", "p_value": 0.2},
            "<= 1e-6: NOT FOUND, p-value 0.2",
        ),
    ],
)
def test_the_control_says_how_far_it_came(change: dict[str, Any], words: str) -> None:
    run = models_run()
    run["control"] |= change
    assert words in Page(render(run, "run.json")).words


@pytest.mark.parametrize(("status", "sign"), [("found", "✓"), ("open", "?"), ("not found", "✗")])
def test_the_section_is_no_greener_than_its_control(status: str, sign: str) -> None:
    run = models_run()
    run["methods"], run["control"]["status"] = run["methods"][:1], status
    badge = losslessness.section(run).badge
    assert badge is not None and (badge.sign, badge.text) == (sign, "1 of 1 lossless")


@pytest.mark.parametrize("key", ["most", "methods", "control", "tokens"])
def test_a_run_that_lacks_what_its_verdict_hangs_on_is_refused(key: str, rheo: Rheo, tmp_path: Path) -> None:
    run = models_run()
    del run[key]
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    status, _, err = rheo("report", tmp_path / "run.json")
    assert status == 2 and f"'{key}' is a required property" in err and err.count("\n") == 1


def test_keys_of_other_kinds_are_not_looked_at(rheo: Rheo, tmp_path: Path) -> None:
    run = {**models_run(), "example": {"nodes": [{}]}, "checks": [1], "bad_input": 3, "subjects": [{}], "replay": [0]}
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    assert rheo("report", tmp_path / "run.json") == (0, f"{tmp_path / 'run.html'}\n", "")


def test_a_terminal_of_few_characters_can_print_it(monkeypatch: pytest.MonkeyPatch) -> None:
    poor = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr("sys.stdout", poor)
    losslessness_table(models_run())
    poor.flush()
    said = poor.buffer.getvalue().decode("latin-1")
    assert "p-value 1e-14 of 5,000 tokens" in said


def test_a_dtype_that_rounds_is_not_judged_by_its_caches() -> None:
    run = {**models_run(), "most": None, "dtype": "bfloat16"}
    assert losslessness.faults(run["methods"][1], None) == [
        "Kolmogorov by p: p-value 1e-14 of 5\u202f000 tokens", "2 tokens of probability 0",
    ]  # fmt: skip
    assert "bfloat16 rounds" in Page(render(run, "run.json")).words
