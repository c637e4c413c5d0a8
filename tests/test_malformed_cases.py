"""Case files with one thing wrong, made by machine: each ends in one line and the status of bad input."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Rheo

ROOT = Path(__file__).parents[1]
GOOD = (ROOT / "verify" / "data" / "toys" / "ties.json").read_text()

# What no part of a case may be.
JUNK: list[Any] = [None, True, -1, 1.5, "x", [], [[]], {"a": 1}, 10**400, "1/0", "-1/2", float("nan"), float("inf")]


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document."""
    items: Any = ()
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def replaced(path: tuple[Any, ...], value: Any) -> str:
    document = json.loads(GOOD)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(document)


def junk(rng: random.Random) -> str:
    """A part replaced by what it may not be. Some parts may be null or a fraction; those are passed over."""
    chosen: tuple[Any, ...] = ()
    while not chosen or "expect" in chosen or chosen[-1] in ("support", "temperature"):
        chosen = rng.choice(list(places(json.loads(GOOD))))
    return replaced(chosen, rng.choice([x for x in JUNK if x not in (10**400, {"a": 1})]))


def cut(rng: random.Random) -> str:
    return GOOD[: rng.randrange(len(GOOD) - 3)]


def dropped(rng: random.Random) -> str:
    """A part that is needed, left out."""
    document = json.loads(GOOD)
    key = rng.choice(["vocab", "config", "default", "config.slots", "config.depth", "default.p", "default.q", "row"])
    if key == "row":
        document["default"]["p"].pop()
    elif "." in key:
        del document[key.split(".")[0]][key.split(".")[1]]
    else:
        del document[key]
    return json.dumps(document)


def added(rng: random.Random) -> str:
    """A part that nobody knows, or a prefix that cannot be."""
    document = json.loads(GOOD)
    where = rng.choice([document, document["config"], document["default"], document["p"], document["q"]])
    where[rng.choice(["extra", "-1", "00", "0,", ",", "0,99", "0;1", "0,x"])] = [1] * document["vocab"]
    return json.dumps(document)


def twice(rng: random.Random) -> str:
    key = rng.choice(["vocab", "config", "default", "p", "q"])
    return GOOD.rstrip().removesuffix("}") + f', "{key}": {json.dumps(json.loads(GOOD)[key])}}}'


WAYS: list[Callable[[random.Random], str]] = [junk, junk, junk, cut, dropped, added, twice]
MALFORMED = [(f"{WAYS[i % 7].__name__}-{i}", WAYS[i % 7](random.Random(i))) for i in range(91)]


@pytest.mark.parametrize("command", ["law", "verify"])
def test_the_file_they_are_made_from_is_good(rheo: Rheo, tmp_path: Path, command: str) -> None:
    path = tmp_path / "good.json"
    path.write_text(GOOD)
    assert rheo(command, path)[0] == 0


@pytest.mark.parametrize("text", [text for _, text in MALFORMED], ids=[name for name, _ in MALFORMED])
def test_a_malformed_case_is_bad_input_in_one_line(rheo: Rheo, tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    status, out, err = rheo("law", path, "--json")
    assert (status, out, err.count("\n")) == (2, "", 1), (status, out, err)
    assert str(path) in err
