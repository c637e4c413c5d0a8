"""Carrying out a plan unit by unit, and the document that holds all of it: settings, machine, results, figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rheo.config import TREE_KEYS, Config
from verify.benchmark.contexts import compare
from verify.benchmark.conversation import answers, prompt_of
from verify.benchmark.floor import numeric_floor
from verify.benchmark.plan import Plan, Unit, answers_unit, units
from verify.benchmark.shapes import of_record
from verify.benchmark.shaping import measure
from verify.benchmark.summary import summary
from verify.benchmark.texts import Models, Record, text

_WARM_UP = 8  # tokens
# What a result depends on beside its key; the machine, since a speed-up compares times.
_SAME = ("target", "draft", "dtype", "device", "max_new_tokens", "config", "tuned", "calibration")
_SAME_MACHINE = ("processor", "cores", "threads", "gpu")


class BenchError(ValueError):
    """A question that cannot be answered, or a document that cannot be gone on with; the message is one line."""


def run(models: Models, plan: Plan, records: Mapping[str, Record]) -> Iterator[tuple[Unit, Record]]:
    """The units of a plan that have no record yet, each with its own, after a warm-up that is not counted.

    BenchError naming the question that the target or the drafter cannot take up.
    """
    known = dict(records)
    todo = [unit for unit in units(plan) if unit.key not in known]
    # Of the run's first question, whichever is next: a later turn may have no tokens yet.
    first = next(iter(plan.suites.values()))[0].tokens
    for unit in [unit for unit in todo if unit.kind != "shapes"][:1]:
        for method in plan.methods:
            _checked(unit, lambda method=method: text(models, plan, method, first, 0, _WARM_UP))
    shaped = with_shapes(plan, known)
    for unit in todo:
        known[unit.key] = _checked(unit, lambda unit=unit, shaped=shaped: _carried_out(models, shaped, unit, known))
        yield unit, known[unit.key]
        if unit.kind == "shapes":
            shaped = with_shapes(plan, known)


def with_shapes(plan: Plan, records: Mapping[str, Record]) -> Plan:
    """The plan with the shapes that have been measured."""
    measured = [unit for unit in units(plan) if unit.kind == "shapes" and unit.key in records]
    return replace(plan, shapes={unit.temperature: of_record(records[unit.key]) for unit in measured})


def _carried_out(models: Models, plan: Plan, unit: Unit, known: Mapping[str, Record]) -> Record:
    if unit.kind == "answers":
        return answers(models, plan, unit.question, unit.stream)
    prompt = unit.question.tokens
    if unit.question.turn > 1:
        prompt = prompt_of(models, unit.question, known[answers_unit(plan, unit.suite, unit.question).key])
    if unit.kind == "text":
        return text(models, plan, unit.method, prompt, unit.stream)
    if unit.kind == "shapes":
        return measure(models, plan, unit.temperature, unit.stream)
    if unit.kind == "floor":
        return numeric_floor(models, plan, unit.method, prompt, unit.stream)
    return compare(models, plan, prompt, unit.temperature, unit.stream)


def _checked(unit: Unit, work: Any) -> Record:
    try:
        record: Record = work()
    except ValueError as error:
        raise BenchError(f"{unit.suite}, question {unit.question.name}: {error}") from error
    return record


def settings(plan: Plan, names: Mapping[str, Any]) -> Record:
    """What was asked for. names: target, draft, dtype, device, limit, turns."""
    return {
        **names,
        "suites": list(plan.suites),
        "methods": list(plan.methods),
        "temperature": float(plan.config.temperature),
        "max_new_tokens": plan.max_new_tokens,
        "seeds": plan.seeds,
        "contexts": plan.contexts,
        "ablations": list(plan.ablations),
        "config": _tree(plan.config),
        "calibration": str(plan.config.calibration),
        **({"tuned": {name: _tree(config) for name, config in plan.tuned.items()}} if plan.tuned else {}),
    }


def _tree(config: Config) -> Record:
    return {key: getattr(config, key) for key in TREE_KEYS}


def document(plan: Plan, head: Record, records: Mapping[str, Record], seconds: float, complete: bool) -> Record:
    """The whole as JSON. head: settings, versions, machine."""
    return {
        "schema": 2,
        "kind": "bench",
        "complete": complete,
        "seconds": seconds,
        **head,
        "summary": summary(plan, records, head["settings"]["dtype"]),
        "units": dict(records),
    }


def earlier(path: Path, head: Record) -> tuple[dict[str, Record], float]:
    """The records in a document of the same models and machine, and the seconds it took. BenchError for any other."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["kind"] != "bench":
            raise BenchError(f"{path}: no result of rheo bench")
        if "grid" not in found["summary"] or any("excess" not in row for row in found["summary"]["expected"]):
            raise BenchError(f"{path}: of an older version, whose results lack what is wanted now")
        for part, keys in (("settings", _SAME), ("machine", _SAME_MACHINE)):
            other = [key for key in keys if found[part].get(key) != head[part].get(key)]
            if other:
                raise BenchError(f"{path}: of another run: its {', '.join(other)} differ")
        return dict(found["units"]), float(found["seconds"])
    except BenchError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BenchError(f"{path}: no result of rheo bench: {type(error).__name__}: {error}") from None
