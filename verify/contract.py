"""What a sampler under test promises, and the one line that is said when it breaks the promise."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.joint import Toy
from verify.subjects import Factory, Subject

# What a sampler's own code may raise. An interrupt is the user's.
RAISED = (Exception, SystemExit, GeneratorExit)


class SamplerError(Exception):
    """A sampler that cannot be judged: it cannot be loaded, raises, hangs, or returns something else than it must."""


@dataclass(frozen=True)
class Shown:
    """All of a toy that a sampler gets to see."""

    vocab: int
    p: Callable[[NDArray[np.integer]], NDArray[np.float64]]
    q: Callable[[NDArray[np.integer]], NDArray[np.float64]]


def shown(toy: Toy) -> Shown:
    """A toy reduced to the protocol, which refuses prefixes that are none."""

    def guarded(rows: Callable[[NDArray[np.integer]], NDArray[np.float64]]) -> Callable[..., NDArray[np.float64]]:
        def ask(prefixes: NDArray[np.integer]) -> NDArray[np.float64]:
            asked = np.asarray(prefixes)
            if asked.ndim != 2 or not (np.issubdtype(asked.dtype, np.integer) or asked.size == 0):
                raise ValueError(f"prefixes must be integers [n, t], got {asked.dtype} {list(asked.shape)}")
            if asked.size and not 0 <= asked.min() <= asked.max() < toy.vocab:
                raise ValueError(f"prefixes hold ids outside 0..{toy.vocab - 1}")
            return rows(asked.astype(np.int64))

        return ask

    return Shown(toy.vocab, guarded(toy.p), guarded(toy.q))


def load(spec: str) -> Factory:
    """The factory that a spec `package.module:name` or `path/file.py:name` names. SamplerError where there is none."""
    factory: Factory | None = found(spec, "sampler", "factory")
    if not callable(factory):
        raise SamplerError(f"{spec}: {spec.rpartition(':')[0]} has no factory {spec.rpartition(':')[2]}")
    return factory


def found(spec: str, kind: str, what: str) -> Any:
    """Whatever a spec names, None if its module has nothing of that name. SamplerError where there is no module.

    kind, what: how errors call the whole and the name behind the colon.
    """
    where, colon, name = spec.rpartition(":")
    if not (where and colon and name):
        raise SamplerError(f"{spec}: a {kind} is named package.module:{what} or path/file.py:{what}")
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except FileNotFoundError:
        raise SamplerError(f"{spec}: no file {where}") from None
    except RAISED as error:  # importing runs whatever the module holds
        raise SamplerError(f"{spec}: cannot be imported: {said(error)}") from error
    return getattr(module, name, None)


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(path)
    name = f"_sampler_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.resolve().parent))  # a file may import its neighbours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def made(factory: Factory, settings: dict[str, Any], name: str) -> Subject:
    """The subject that a factory makes of settings. SamplerError if it raises or makes something else."""
    try:
        subject = factory(dict(settings))
    except RAISED as error:
        raise SamplerError(f"{name}: the factory raised {said(error)}") from error
    if not callable(getattr(subject, "sample", None)):
        raise SamplerError(f"{name}: the factory returned {type(subject).__name__}, which has no method sample")
    return subject


@dataclass(frozen=True)
class Drawn:
    """samples: int64 [count, length]; emitted: int64 [count, r], tokens of each round, or None if not offered."""

    samples: NDArray[np.int64]
    emitted: NDArray[np.int64] | None


def draw(subject: Subject, toy: Toy, length: int, count: int, seed: int, name: str, with_rounds: bool = True) -> Drawn:
    """Samples of a subject, with those of its rounds where they are wanted and it offers them.

    SamplerError if it breaks the protocol.
    """
    offers = with_rounds and callable(getattr(subject, "rounds", None))
    try:
        answer = (subject.rounds if offers else subject.sample)(shown(toy), length, count, seed)  # type: ignore[attr-defined]
    except RAISED as error:
        raise SamplerError(f"{name}: raised {said(error)}") from error
    if not offers:
        return Drawn(_samples(answer, toy.vocab, length, count, f"{name}: sample"), None)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise SamplerError(f"{name}: rounds must return (samples, emitted), got {type(answer).__name__}")
    samples = _samples(answer[0], toy.vocab, length, count, f"{name}: rounds")
    emitted = _integers(answer[1], f"{name}: emitted")
    if emitted.ndim != 2 or len(emitted) != count or emitted.min(initial=0) < 0:
        raise SamplerError(f"{name}: emitted must be [{count}, r] and not negative, got {list(emitted.shape)}")
    short = emitted.sum(axis=1) < length
    if short.any():
        row = int(short.argmax())
        raise SamplerError(f"{name}: the rounds of row {row} emitted {emitted[row].sum()} tokens, it has {length}")
    return Drawn(samples, emitted)


def _samples(answer: object, vocab: int, length: int, count: int, name: str) -> NDArray[np.int64]:
    samples = _integers(answer, name)
    if samples.shape != (count, length):
        raise SamplerError(f"{name} returned shape {list(samples.shape)}, must be [{count}, {length}]")
    if not 0 <= samples.min(initial=0) <= samples.max(initial=0) < vocab:
        row, column = (int(x[0]) for x in np.nonzero((samples < 0) | (samples >= vocab)))
        raise SamplerError(f"{name} returned id {samples[row, column]} in row {row}, ids are 0..{vocab - 1}")
    return samples


def _integers(answer: object, name: str) -> NDArray[np.int64]:
    try:
        array = np.asarray(answer)
    except Exception as error:  # ragged lists, tensors of other devices
        raise SamplerError(f"{name} returned {type(answer).__name__}, which is no array: {said(error)}") from error
    if array.dtype.kind not in "iu":
        raise SamplerError(f"{name} returned dtype {array.dtype}, must be an integer one")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise SamplerError(f"{name} returned {array.max()}, which does not fit into 64 bits")
    return array.astype(np.int64)


def said(error: BaseException) -> str:
    """An error in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # the message is the sampler's own code too
        text = ""
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
