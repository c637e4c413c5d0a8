"""Which tree is fastest: expected tokens over the time that drafting and verifying it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verify.benchmark.costs import LEVEL, ROOT, TARGET, cost, settled, token
from verify.benchmark.explore import Choice, Found, Search, Sight, explore
from verify.benchmark.plan import Question
from verify.benchmark.texts import Models, Record

TREE = ("budget", "depth", "beam")
# A choice holds for these alone.
FIXED = ("target", "draft", "dtype", "device")
_SHOWN = 8


class TuningError(ValueError):
    """A prompt that cannot be taken up, or a file that does not say what is asked of it; the message is one line."""


def sights(models: Models, search: Search, questions: Sequence[Question]) -> Iterator[tuple[Question, list[Sight]]]:
    """What each question's text shows. TuningError naming the one that the target or the drafter cannot take up."""
    for number, question in enumerate(questions):
        try:
            yield question, list(explore(models, search, question.tokens, number))
        except ValueError as error:
            raise TuningError(f"prompt {question.identifier}: {error}") from error


def tuned(search: Search, seen: Sequence[Sight]) -> Record:
    """The costs, every method's choices from the fastest on, and autoregressive decoding. TuningError for no sight."""
    if not seen:
        raise TuningError("every text ended within its first round: nothing was measured")
    seconds = settled([sight.seconds for sight in seen])
    target, level = cost(seconds, TARGET), cost(seconds, LEVEL)
    slow = token(seconds)
    methods = {}
    for name in search.methods:
        rule = cost(seconds, name)
        rows = []
        for choice in seen[0].found[name]:
            own = [sight.found[name][choice] for sight in seen]
            widths = own[0].widths
            parts = {
                "target": target.at(choice.budget),
                "draft": seconds[ROOT, 1] + sum(level.at(width) for width in widths[1:]),
                "sampling": rule.at(choice.budget) + float(np.median([each.growth for each in own])),
            }
            rows.append(_row(choice, own, parts, slow))
        rows.sort(key=lambda row: (-row["tokens_per_second"], row["budget"], row["depth"], row["beam"]))
        methods[name] = {"best": rows[0], "others": rows[1:]}
    return {
        "contexts": len(seen),
        "autoregressive": {"milliseconds": 1e3 * slow, "tokens_per_second": 1 / slow},
        "milliseconds": {
            "target": _points(seconds, TARGET),
            "draft_root": 1e3 * seconds[ROOT, 1],
            "draft_level": _points(seconds, LEVEL),
        },
        "methods": methods,
    }


def _row(choice: Choice, own: Sequence[Found], parts: Mapping[str, float], slow: float) -> Record:
    tau = float(np.mean([each.tau for each in own]))
    rate = tau / sum(parts.values())
    return {
        **{key: getattr(choice, key) for key in TREE},
        "tau": tau,
        "tokens_per_second": rate,
        "speedup": rate * slow,
        "milliseconds": {part: 1e3 * value for part, value in parts.items()},
    }


def _points(seconds: Mapping[tuple[str, int], float], what: str) -> list[list[float]]:
    """[count, milliseconds] as the curve has it."""
    curve = cost(seconds, what)
    return [[count, 1e3 * value] for count, value in zip(curve.counts, curve.seconds, strict=True)]


def read_best(path: Path, names: Mapping[str, Any], methods: Sequence[str]) -> dict[str, dict[str, int]]:
    """Budget, depth and beam of every method in a file of `rheo tune`.

    names: target, draft, dtype, device. TuningError for a file that is none, or was made for other names or methods.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["kind"] != "tune":
            raise TuningError(f"{path}: no result of rheo tune")
        for key in FIXED:
            own = found["settings"][key]
            if own != names[key]:
                raise TuningError(f"{path}: tuned for {key} {own}, not {names[key]}")
        for name in methods:
            if name not in found["methods"]:
                raise TuningError(f"{path}: not tuned for {name}, but for {', '.join(found['methods'])}")
        return {name: {key: found["methods"][name]["best"][key] for key in TREE} for name in methods}
    except TuningError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TuningError(f"{path}: no result of rheo tune: {type(error).__name__}: {error}") from None
