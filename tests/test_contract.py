"""Samplers that break their promises: every kind of malformed answer ends in one line and the status of bad input."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.conftest import Rheo

from . import samplers

pytestmark = pytest.mark.stat


def answers(seed: int) -> Iterator[tuple[str, Any]]:
    """Things that a malformed sampler may return in place of [count, length] ids."""
    rng = random.Random(seed)
    for i in range(36):
        count, length = rng.choice((0, 1, 511, 513)), rng.choice((0, 1, 2, 4))
        dtype = rng.choice(("float64", "bool", "U1", "object", "complex128", "datetime64[s]", "int64"))
        yield f"array-{i}", lambda c, t, s=(count, length), d=dtype: np.zeros(s, d)
    yield from {
        "none": lambda c, t: None,
        "text": lambda c, t: "tokens",
        "scalar": lambda c, t: 3,
        "ragged": lambda c, t: [[0] * t] * (c - 1) + [[0]],
        "flat": lambda c, t: np.zeros(c * t, int),
        "three-dimensional": lambda c, t: np.zeros((c, t, 1), int),
        "transposed": lambda c, t: np.zeros((t, c), int),
        "negative": lambda c, t: np.full((c, t), -1),
        "too-large": lambda c, t: np.full((c, t), 99),
        "one-too-large": lambda c, t: np.pad([[8]], ((0, c - 1), (0, t - 1))),
        "unsigned-overflow": lambda c, t: np.full((c, t), 2**64 - 1, dtype=np.uint64),
        "floats-of-integers": lambda c, t: np.zeros((c, t)),
        "nan": lambda c, t: np.full((c, t), np.nan),
        "masked": lambda c, t: {"tokens": 1},
        "generator": lambda c, t: (x for x in range(3)),
        "class": lambda c, t: int,
        "bytes": lambda c, t: b"\0" * c,
        "tuple": lambda c, t: (np.zeros((c, t), int), None),
        "set": lambda c, t: {1, 2},
    }.items()


def emitted_answers() -> Iterator[tuple[str, Any]]:
    """And in place of (samples, emitted)."""
    yield from {
        "only-samples": lambda c, t: np.zeros((c, t), int),
        "three": lambda c, t: (np.zeros((c, t), int), np.ones((c, t), int), 1),
        "no-emitted": lambda c, t: (np.zeros((c, t), int), None),
        "short-rounds": lambda c, t: (np.zeros((c, t), int), np.zeros((c, t), int)),
        "negative-rounds": lambda c, t: (np.zeros((c, t), int), np.full((c, t), -1)),
        "fewer-rows": lambda c, t: (np.zeros((c, t), int), np.ones((c - 1, t), int)),
        "float-rounds": lambda c, t: (np.zeros((c, t), int), np.ones((c, t))),
        "flat-rounds": lambda c, t: (np.zeros((c, t), int), np.ones(c, int)),
    }.items()


def asks(toy: Any, how: str) -> Any:
    """Ways to ask a toy for what it does not have."""
    ways: dict[str, Callable[[], Any]] = {
        "ids": lambda: toy.p(np.array([[99]])),
        "negative": lambda: toy.q(np.array([[-1]])),
        "flat": lambda: toy.p(np.array([0])),
        "floats": lambda: toy.p(np.array([[0.5]])),
        "ragged": lambda: toy.p([[0], [0, 1]]),
        "attribute": lambda: toy.target,
        "write": lambda: setattr(toy, "vocab", 2),
    }
    return ways[how]()


MALFORMED = [
    *[(f"sample-{name}", "sample", make) for name, make in answers(0)],
    *[(f"rounds-{name}", "rounds", make) for name, make in emitted_answers()],
    *[(f"asks-{how}", "asks", how) for how in ("ids", "negative", "flat", "floats", "ragged", "attribute", "write")],
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("method", "make"), [m[1:] for m in MALFORMED], ids=[m[0] for m in MALFORMED])
def test_a_malformed_sampler_is_bad_input_in_one_line(
    rheo: Rheo, monkeypatch: pytest.MonkeyPatch, method: str, make: Any
) -> None:
    class Malformed:
        def sample(self, toy: Any, length: int, count: int, seed: int) -> Any:
            return asks(toy, make) if method == "asks" else make(count, length)

    if method == "rounds":
        Malformed.rounds = Malformed.sample  # type: ignore[attr-defined]
    monkeypatch.setattr(samplers, "malformed", lambda settings: Malformed(), raising=False)
    status, out, err = rheo("verify", "--sampler", "tests.samplers:malformed")
    assert (status, out, err.count("\n")) == (2, "", 1), (status, err)


class UnsayableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("gone"), GeneratorExit(), UnsayableError()], ids=repr)
@pytest.mark.parametrize("where", ["factory", "sample"])
def test_whatever_a_samplers_own_code_raises_is_bad_input_in_one_line(
    rheo: Rheo, monkeypatch: pytest.MonkeyPatch, error: BaseException, where: str
) -> None:
    class Raising:
        def __init__(self, settings: dict[str, Any]) -> None:
            if where == "factory":
                raise error

        def sample(self, toy: Any, length: int, count: int, seed: int) -> Any:
            raise error

    name = f"raising_{where}_{type(error).__name__}_{'_'.join(map(str, error.args))}"  # a process makes each once
    monkeypatch.setattr(samplers, name, Raising, raising=False)
    status, out, err = rheo("verify", "--sampler", f"tests.samplers:{name}")
    assert (status, out, err.count("\n")) == (2, "", 1), (status, err)
    assert type(error).__name__ in err
