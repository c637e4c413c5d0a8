"""Case files: a toy, a configuration and, where known, what it must give. Strict: an unknown key is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from reference.methods import METHODS, PAPER
from rheo.calibration import AnyCalibration, from_json, to_json
from rheo.config import CONFIG_KEYS, Config, ConfigError
from rheo.files import write_text
from verify.toys import Table, Tokens, Toy, Weights

_KEYS = {"vocab", "config", "default", "p", "q", "expect"}
_OPTIONAL_CONFIG = {"support", "temperature", "calibration"}
_EXPECT_KEYS = {"tv", "accepted", "classes"}
_PREFIX = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:,(?:0|[1-9][0-9]{0,17}))*")
_RATIONAL = re.compile(r"[0-9]{1,2000}(?:/[0-9]{1,2000})?")
# Powers beyond this make fractions of a length that nothing can be done with; floats then take over.
_LARGEST_POWER = 256


class CaseError(ValueError):
    """A case that cannot be used: one line with the file, the key and the reason."""

    def __init__(self, name: str, key: str, reason: str) -> None:
        where = f"{name}: {key}: " if key else f"{name}: "
        super().__init__(" ".join((where + reason).split()))


@dataclass(frozen=True)
class Case:
    """A named toy with its configuration; `expect` maps method -> {"tv", "accepted", "classes"}."""

    name: str
    toy: Toy
    config: Config
    expect: Mapping[str, Mapping[str, str | int]] = field(default_factory=dict)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that are tried on it where none is named: the paper's, and those it has expectations for."""
        return tuple(dict.fromkeys((*PAPER, *(name for name in self.expect if name in METHODS))))

    @property
    def rational(self) -> bool:
        """Whether everything stays rational at its temperature: T is 0, or 1/T an integer (of at most 256)."""
        temperature = Fraction(self.config.temperature)
        return temperature == 0 or ((1 / temperature).denominator == 1 and 1 / temperature <= _LARGEST_POWER)


def load(path: str | Path) -> Case:
    """The case in a file. CaseError on anything wrong with it, a missing file included."""
    name = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CaseError(name, "", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise CaseError(name, "", f"not UTF-8 text ({error.reason} at byte {error.start})") from None
    return parse(text, name)


def parse(text: str, name: str) -> Case:
    """The case in a JSON text; `name` is used in errors. CaseError on anything wrong with it."""
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except _DuplicateKeyError as error:
        raise CaseError(name, str(error), "appears twice") from None
    except json.JSONDecodeError as error:
        raise CaseError(name, "", f"broken JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise CaseError(name, "", f"broken JSON: {str(error).splitlines()[0]}") from None
    return _Reader(name).case(document)


def dumps(document: Mapping[str, Any]) -> str:
    """A case document as JSON text, one context per line, so that files stay readable and diff well."""
    lines = []
    for key, value in document.items():
        if key in ("p", "q", "expect") and value:
            rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            lines.append(f" {json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def document(case: Case) -> dict[str, Any]:
    """A case as the JSON document that `parse` reads back."""
    config = {key: getattr(case.config, key) for key in CONFIG_KEYS}
    temperature = Fraction(case.config.temperature)
    config["temperature"] = int(temperature) if temperature.denominator == 1 else str(temperature)
    if case.config.calibration is not None:
        config["calibration"] = to_json(case.config.calibration)
    toy = case.toy
    result: dict[str, Any] = {
        "vocab": toy.vocab,
        "config": config,
        "default": {"p": list(toy.target.default), "q": list(toy.draft.default)},
    }
    for key, table in (("p", toy.target), ("q", toy.draft)):
        result[key] = {",".join(map(str, prefix)): list(row) for prefix, row in table.listed.items()}
    if case.expect:
        result["expect"] = {method: dict(values) for method, values in case.expect.items()}
    return result


def save(case: Case, path: str | Path) -> None:
    """Write a case file, whole or not at all."""
    write_text(Path(path), dumps(document(case)))


class _DuplicateKeyError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKeyError(key)
        result[key] = value
    return result


@dataclass(frozen=True)
class _Reader:
    """Checks a document piece by piece; `name` heads every complaint."""

    name: str

    def case(self, document: Any) -> Case:
        self.keys("", document, _KEYS, required={"vocab", "config", "default"})
        vocab = document["vocab"]
        if not _is_integer(vocab) or vocab < 1:
            self.fail("vocab", f"must be a positive integer, got {vocab!r}")
        config = self.config(document["config"])
        default = document["default"]
        self.keys("default", default, {"p", "q"}, required={"p", "q"})
        target = self.table("p", default, document.get("p", {}), vocab)
        draft = self.table("q", default, document.get("q", {}), vocab)
        return Case(self.name, Toy(vocab, target, draft), config, self.expect(document.get("expect", {})))

    def config(self, values: Any) -> Config:
        known = {*CONFIG_KEYS, "calibration"}
        self.keys("config", values, known, required=known - _OPTIONAL_CONFIG)
        try:
            read = {"support": None, **values, "temperature": self.temperature(values.get("temperature", 1))}
            if "calibration" in values:
                read["calibration"] = self.calibration(values["calibration"])
            return Config(**read)
        except ConfigError as error:
            self.fail(f"config.{error.key}", error.reason)

    def temperature(self, value: Any) -> Fraction:
        if _is_integer(value) and value >= 0:
            return Fraction(value)
        if isinstance(value, str) and _RATIONAL.fullmatch(value) and not re.search(r"/0+$", value):
            return Fraction(value)
        self.fail("config.temperature", f'must be an integer >= 0 or a string such as "1/2", got {str(value)[:40]!r}')

    def calibration(self, value: Any) -> AnyCalibration:
        try:
            return from_json(value)
        except ValueError as error:
            self.fail("config.calibration", str(error))

    def table(self, key: str, default: Any, listed: Any, vocab: int) -> Table:
        if not isinstance(listed, dict):
            self.fail(key, "must be an object that maps prefixes to weights")
        rows = {
            self.prefix(key, text, vocab): self.weights(f"{key}[{text!r}]", row, vocab) for text, row in listed.items()
        }
        return Table(self.weights(f"default.{key}", default[key], vocab), rows)

    def prefix(self, key: str, text: str, vocab: int) -> Tokens:
        if text and not _PREFIX.fullmatch(text):
            self.fail(f"{key}[{text!r}]", "a prefix is token ids joined by commas")
        tokens = tuple(int(part) for part in text.split(",")) if text else ()
        for token in tokens:
            if token >= vocab:
                self.fail(f"{key}[{text!r}]", f"token id {token} is out of range for vocab {vocab}")
        return tokens

    def weights(self, key: str, row: Any, vocab: int) -> Weights:
        if not isinstance(row, list):
            self.fail(key, f"must be a list of {vocab} integers")
        if len(row) != vocab:
            self.fail(key, f"has {len(row)} weights, vocab is {vocab}")
        for index, weight in enumerate(row):
            if not _is_integer(weight):
                self.fail(key, f"weight {index} must be an integer, got {weight!r}")
            if weight < 0:
                self.fail(key, f"weight {index} is negative ({weight})")
        if not any(row):
            self.fail(key, "all weights are zero")
        return tuple(row)

    def expect(self, values: Any) -> dict[str, dict[str, str | int]]:
        if not isinstance(values, dict):
            self.fail("expect", "must be an object")
        for method, wanted in values.items():
            key = f"expect.{method}"
            self.keys(key, wanted, _EXPECT_KEYS, required=set())
            for name in ("tv", "accepted"):
                text = wanted.get(name, "0")
                if not isinstance(text, str) or not _RATIONAL.fullmatch(text) or re.search(r"/0+$", text):
                    self.fail(f"{key}.{name}", f'must be a string such as "1851/1849", got {str(text)[:40]!r}')
            classes = wanted.get("classes", 1)
            if not _is_integer(classes) or classes < 1:
                self.fail(f"{key}.classes", f"must be a positive integer, got {classes!r}")
        return values

    def keys(self, key: str, value: Any, known: set[str], required: set[str]) -> None:
        if not isinstance(value, dict):
            self.fail(key, "must be an object")
        prefix = f"{key}." if key else ""
        for name in value:
            if name not in known:
                self.fail(prefix + name, f"unknown key (known: {', '.join(sorted(known))})")
        for name in sorted(required):
            if name not in value:
                self.fail(prefix + name, "is missing")

    def fail(self, key: str, reason: str) -> NoReturn:
        raise CaseError(self.name, key, reason)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
