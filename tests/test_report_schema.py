"""What is read as the JSON of a run, and what is refused, always in one line that names the place."""

from __future__ import annotations

import copy
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reports import schema
from reports.page import render
from tests.conftest import Rheo
from tests.runs import HEAD, Json, full_run, small_run
from tests.test_cli import ROOT, TOYS


def generated(spec: Json, filled: bool) -> Any:
    """A value that a schema allows: every key it knows, null wherever allowed; or the required keys alone."""
    if "const" in spec or "enum" in spec:
        return spec.get("const", spec.get("enum", [None])[0])
    types = spec["type"] if isinstance(spec["type"], list) else [spec["type"]]
    if filled and "null" in types:
        return None
    kind = types[0]
    if kind == "object":
        known = {key: generated(value, filled) for key, value in spec.get("properties", {}).items()}
        chosen = {key: value for key, value in known.items() if filled or key in spec.get("required", [])}
        if isinstance(spec.get("additionalProperties"), dict):
            chosen["any"] = generated(spec["additionalProperties"], filled)
        return chosen
    if kind == "array":
        return [generated(spec["items"], filled)] * spec.get("minItems", 1)
    return {"string": "text", "boolean": False, "integer": spec.get("minimum", 0), "number": 0.5}[kind]


@pytest.mark.parametrize("filled", [False, True], ids=["required keys", "nulls"])
def test_whatever_the_schema_lets_be_missing_or_null_is_not_needed(filled: bool, tmp_path: Path) -> None:
    for kind, spec in (*((kind, schema.RUN) for kind in ("verify", "sampler", "audit")), ("models", schema.MODELS)):
        run = {key: generated(value, filled) for key, value in spec["properties"].items()}
        path = tmp_path / "run.json"
        path.write_text(json.dumps({**run, "kind": kind}))
        assert "text" in render(schema.load(path), "x")


def trial(run: Json) -> Any:
    return run["subjects"][1]["trials"][2]


def node(run: Json) -> Any:
    return run["example"]["nodes"][2]


def broken(change: Callable[[Json], object]) -> str:
    run = full_run()
    change(run)
    return json.dumps(run)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "broken JSON"),
        ("[]", "$: "),
        ("{}", "$: 'schema'"),
        ('{"schema": 1, "verdict": "lossless"}', "$.schema: version 1"),
        ('{"schema": NaN}', "no usable number: NaN"),
        ('{"schema": 2, "kind": "verify", "verdict": "lossless", "seconds": 1e999}', "no usable number: 1e999"),
        ('{"seconds": ' + "9" * 5_000 + "}", "no usable number"),
        ("[" * 100_000, "broken JSON"),
        ('{"schema": 2, "kind": "verify", "verdict": "\\ud800"}', "UTF-8"),
        (broken(lambda run: run.update(kind="song")), "$.kind: 'song'"),
        (broken(lambda run: run.pop("verdict")), "$: 'verdict'"),
        (broken(lambda run: run["mutants"][9]["tiers"]["exact"].update(caught=2)), "$.mutants[9].tiers.exact.caught: "),
        (broken(lambda run: trial(run)["tests"][0].update(p_value="1")), "$.subjects[1].trials[2].tests[0].p_value: "),
        (broken(lambda run: trial(run)["pit"].update(q=[1, -1])), "$.subjects[1].trials[2].pit.q[1]: "),
        (broken(lambda run: run["checks"][3].update(tv="1/0")), "$.checks[3].tv: "),
        (broken(lambda run: run["power"][0]["points"][1].append(1)), "$.power[0].points[1]: "),
        (broken(lambda run: node(run).update(parent=7)), "$.example.nodes[2].parent: no earlier row 7"),
        (broken(lambda run: node(run).update(row=1)), "$.example.nodes[2].row: row 1 appears twice"),
    ],
    ids=lambda value: value[-24:] if value.startswith("$") else "",
)
def test_anything_but_a_run_is_one_line_that_names_the_place(rheo: Rheo, tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    status, out, err = rheo("report", path)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"rheo: {path}: ")
    assert place in err
    assert len(err) < 600
    assert not (tmp_path / "run.html").exists()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def damaged(whole: Json, junk: list[Any], times: int, path: Path) -> tuple[int, set[str]]:
    """Put junk anywhere into a run, so many times: how many were drawn, and the lines that refused the others."""
    rng, where, refused, drawn = random.Random(0), list(places(whole))[1:], set[str](), 0
    for _ in range(times):
        run = copy.deepcopy(whole)
        *parents, last = rng.choice(where)
        target: Any = run
        for key in parents:
            target = target[key]
        target[last] = rng.choice(junk)
        path.write_text(json.dumps(run))
        try:
            loaded = schema.load(path)
        except schema.RunError as error:
            refused.add(str(error))
        else:
            drawn += 1
            assert drawn > 12 or render(loaded, "x")  # drawing takes longer than refusing
    return drawn, refused


def test_a_run_damaged_anywhere_is_drawn_or_refused_in_one_line(tmp_path: Path) -> None:
    whole = small_run()
    whole["subjects"] = whole["subjects"][1:2]
    junk: list[Any] = [
        None,
        "",
        "x",
        -1,
        0,
        1,
        1e290,
        0.5,
        [],
        {},
        True,
        [[]],
        {"a": 1},
        "9" * 999 + "/7",
        [0],
        10**200,
    ]
    drawn, refused = damaged(whole, junk, 200, tmp_path / "run.json")
    assert drawn > 30
    assert len(refused) > 100
    assert {len(line.splitlines()) for line in refused} == {1}


def test_files_and_libraries_that_are_missing_are_one_line(
    rheo: Rheo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run.json"
    assert rheo("report", run)[:2] == (2, "")
    run.write_bytes(b"\xff\xfe{}")
    assert "not text in UTF-8" in rheo("report", run)[2]
    run.write_text(json.dumps(HEAD))
    assert "the run itself" in rheo("report", run, "--output", run)[2]
    assert "no such folder" in rheo("report", run, "--output", tmp_path / "no" / "page.html")[2]
    assert rheo("report", run, "--output", tmp_path / "page.html")[0] == 0
    monkeypatch.delitem(sys.modules, "reports.page")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    status, _, err = rheo("report", run)
    assert (status, err) == (2, "rheo: report: jinja2 is missing; pip install 'rheosampling[report]'\n")


def test_the_documentation_names_every_key_of_the_schema_and_no_other() -> None:
    def keys(spec: Any) -> Iterator[str]:
        if isinstance(spec, dict):
            yield from spec.get("properties", ())
            for value in spec.values():
                yield from keys(value)

    lines = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| ")]
    titles = [line for line in lines if line.startswith("## ")]
    named = {name for text in (*titles, *(row[1] for row in rows)) for name in re.findall(r"`(\w+)`", text)}
    explained = named | {name for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    known = {*keys(schema.RUN), *keys(schema.MODELS)}
    assert named - known == set()
    assert known - explained == set()


def unknown(value: Any, spec: Json, place: str = "$") -> Iterator[str]:
    """Where a document has keys that the schema does not name; not inside free objects."""
    if isinstance(value, dict) and "properties" in spec:
        for key, item in value.items():
            if key in spec["properties"]:
                yield from unknown(item, spec["properties"][key], f"{place}.{key}")
            else:
                yield f"{place}.{key}"
    elif isinstance(value, dict) and "additionalProperties" in spec:
        for key, item in value.items():
            yield from unknown(item, spec["additionalProperties"], f"{place}.{key}")
    elif isinstance(value, list) and "items" in spec:
        for item in value:
            yield from unknown(item, spec["items"], f"{place}[]")


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", TOYS / "ties.json", TOYS / "two-anchors.json"],
        ["verify", "--sampler", "verify.subjects:torch_sampler", "--toy", "ties", "--tv", "0.1"],
    ],
    ids=["cases", "sampler"],
)
def test_what_the_commands_write_is_in_the_schema_to_the_last_key(
    rheo: Rheo, tmp_path: Path, arguments: list[object]
) -> None:
    path = tmp_path / "run.json"
    assert rheo(*arguments, "--json", path)[0] == 0
    assert set(unknown(schema.load(path), schema.RUN)) == set()
