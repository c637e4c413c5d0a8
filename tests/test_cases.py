"""Case files: bad input gets one line that names file, key and reason; good input survives a round trip."""

from __future__ import annotations

import json
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from verify.cases import CaseError, document, dumps, load, parse, save
from verify.gate import packaged_cases
from verify.toys import log_weights

GOOD: dict[str, Any] = {
    "vocab": 3,
    "config": {
        "anchors": 1,
        "slots": 2,
        "beam": 1,
        "depth": 1,
        "budget": 2,
        "support": None,
        "temperature": "1/2",
    },
    "default": {"p": [1, 1, 1], "q": [1, 2, 3]},
    "p": {"": [1, 0, 2], "0,2": [5, 5, 5]},
    "q": {"1": [0, 0, 7]},
    "expect": {"rheo": {"tv": "0", "accepted": "1/2", "classes": 2}},
}

BAD = [
    (["vocab"], 0, "vocab: must be a positive integer"),
    (["vocab"], True, "vocab: must be a positive integer"),
    (["vocab"], "3", "vocab: must be a positive integer"),
    (["p", ""], [1, -1, 2], "p['']: weight 1 is negative"),
    (["p", ""], [1, 0.5, 2], "p['']: weight 1 must be an integer"),
    (["p", ""], [1, 1.0, 2], "p['']: weight 1 must be an integer"),
    (["p", ""], [1, True, 2], "p['']: weight 1 must be an integer"),
    (["p", ""], [1, None, 2], "p['']: weight 1 must be an integer"),
    (["q", "1"], [0, 0, 0], "q['1']: all weights are zero"),
    (["q", "1"], [1, 2], "q['1']: has 2 weights, vocab is 3"),
    (["q", "1"], {"0": 1}, "q['1']: must be a list"),
    (["default", "q"], [1, 2, 3, 4], "default.q: has 4 weights"),
    (["default", "r"], [1], "default.r: unknown key"),
    (["default"], {"p": [1, 1, 1]}, "default.q: is missing"),
    (["default"], None, "default: must be an object"),
    (["p", "3"], [1, 1, 1], "p['3']: token id 3 is out of range"),
    (["p", "0,17"], [1, 1, 1], "p['0,17']: token id 17 is out of range"),
    (["p", "-1"], [1, 1, 1], "p['-1']: a prefix is token ids"),
    (["p", "0, 1"], [1, 1, 1], "p['0, 1']: a prefix is token ids"),
    (["p", "01"], [1, 1, 1], "p['01']: a prefix is token ids"),
    (["p", "0,"], [1, 1, 1], "p['0,']: a prefix is token ids"),
    (["p"], [], "p: must be an object"),
    (["colour"], "red", "colour: unknown key"),
    (["config", "anchor"], 1, "config.anchor: unknown key"),
    (["config", "anchors"], 2, "config.anchors: must be less than slots"),
    (["config", "anchors"], -1, "config.anchors: must be at least 0"),
    (["config", "slots"], 0, "config.slots: must be at least 1"),
    (["config", "budget"], 0, "config.budget: must be at least 1"),
    (["config", "budget"], 1.5, "config.budget: must be an integer"),
    (["config", "beam"], 0, "config.beam: must be at least 1"),
    (["config", "depth"], 0, "config.depth: must be at least 1"),
    (["config", "depth"], 10**9, "config.slots: slots x beam x depth"),
    (["config", "support"], 0, "config.support: must be at least 1"),
    (["config", "temperature"], -1, "config.temperature: must be an integer >= 0 or a string"),
    (["config", "temperature"], "1/0", "config.temperature: must be an integer >= 0 or a string"),
    (["config", "temperature"], 0.5, "config.temperature: must be an integer >= 0 or a string"),
    (["config", "temperature"], "half", "config.temperature: must be an integer >= 0 or a string"),
    (["config"], 5, "config: must be an object"),
    (["expect", "rheo", "tau"], "1", "expect.rheo.tau: unknown key"),
    (["expect", "rheo", "tv"], 0, "expect.rheo.tv: must be a string"),
    (["expect", "rheo", "classes"], "2", "expect.rheo.classes: must be a positive integer"),
]


def with_value(path: list[str], value: Any) -> dict[str, Any]:
    changed = deepcopy(GOOD)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def complaint(text: str) -> str:
    with pytest.raises(CaseError) as caught:
        parse(text, "some/file.json")
    return str(caught.value)


@pytest.mark.parametrize(("path", "value", "reason"), BAD, ids=lambda value: str(value)[:30])
def test_a_bad_value_is_named_in_one_line(path: list[str], value: Any, reason: str) -> None:
    line = complaint(json.dumps(with_value(path, value)))
    assert line.startswith(f"some/file.json: {reason}")
    assert "\n" not in line


@pytest.mark.parametrize("key", ["vocab", "config", "default"])
def test_a_missing_key_is_named(key: str) -> None:
    assert complaint(json.dumps({k: v for k, v in GOOD.items() if k != key})) == f"some/file.json: {key}: is missing"


@pytest.mark.parametrize("key", ["anchors", "slots", "beam", "depth", "budget"])
def test_a_missing_setting_is_named(key: str) -> None:
    config = {k: v for k, v in GOOD["config"].items() if k != key}
    assert complaint(json.dumps({**GOOD, "config": config})) == f"some/file.json: config.{key}: is missing"


def test_support_and_temperature_may_be_left_out() -> None:
    config = {k: v for k, v in GOOD["config"].items() if k not in ("support", "temperature")}
    assert parse(json.dumps({**GOOD, "config": config}), "x").config.temperature == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "broken JSON"),
        ('{"vocab": 3,', "broken JSON"),
        ("[1, 2]", "must be an object"),
        ('{"vocab": 3, "vocab": 4}', "vocab: appears twice"),
        ("[" * 100_000, "broken JSON"),
        ('{"vocab": ' + "9" * 5_000 + "}", "broken JSON"),
    ],
    ids=["empty", "cut off", "a list", "twice", "deep", "a huge number"],
)
def test_text_that_is_no_case_is_one_line(text: str, reason: str) -> None:
    line = complaint(text)
    assert reason in line
    assert "\n" not in line
    assert len(line) < 300


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"vocab": "\xff"}')
    for name, reason in [("missing.json", "No such file"), (".", "directory"), ("latin.json", "not UTF-8")]:
        with pytest.raises(CaseError, match=reason) as caught:
            load(tmp_path / name)
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_case_survives_being_written_and_read(tmp_path: Path) -> None:
    case = parse(json.dumps(GOOD), "x")
    assert case.config.temperature == Fraction(1, 2)
    save(case, tmp_path / "new" / "case.json")
    again = load(tmp_path / "new" / "case.json")
    assert (again.toy.target, again.toy.draft, again.config) == (case.toy.target, case.toy.draft, case.config)
    assert again.expect == case.expect
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["case.json"]


@pytest.mark.parametrize("path", packaged_cases(), ids=lambda path: path.stem)
def test_packaged_files_are_written_as_the_project_writes_them(path: Path) -> None:
    assert dumps(document(load(path))) == path.read_text(encoding="utf-8")


def test_a_prefix_that_is_not_listed_takes_the_default() -> None:
    toy = parse(json.dumps(GOOD), "x").toy
    assert toy.target.weights((2, 2)) == (1, 1, 1)
    assert toy.draft.weights((1,)) == (0, 0, 7)


def test_logits_of_huge_weights_are_finite() -> None:
    assert log_weights((10**400, 1, 0))[1] < -900
    assert log_weights((10**400, 1, 0))[2] == -float("inf")
