"""Two runs beside each other: verdicts, and the paired change of acceptance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from verify.acceptance import CONFIDENCE, Change, Emitted, change

Record = dict[str, Any]

_ORDER = ("lossless", "inconclusive", "lossy")


class ComparisonError(ValueError):
    """Two results that have nothing to compare: one line."""


def compared(old: Record, new: Record, most: float) -> Record:
    """What became of OLD's subjects in NEW. most: the fall of tokens per round that is still accepted.

    "worse" where a verdict is worse, or the whole interval of a change lies below -most; "inconclusive" where only a
    part of it does, or rounds were not offered; else "same or better". ComparisonError where no toy is in both.
    """
    try:
        subjects = [_subject(before, after, most) for before, after in _pairs(old["subjects"], new["subjects"])]
    except ComparisonError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
        raise ComparisonError(
            f"not what `rheo verify --sampler --json` writes: {type(error).__name__}: {error}"
        ) from None
    words = {subject["status"] for subject in subjects}
    verdict = next(word for word in ("worse", "inconclusive", "same or better") if word in words)
    return {"schema": 2, "kind": "comparison", "verdict": verdict, "max_drop": most, "subjects": subjects}


def _pairs(old: list[Record], new: list[Record]) -> Iterator[tuple[Record, Record]]:
    """Subjects by name; a single one on both sides may have been renamed."""
    if len(old) == len(new) == 1:
        yield old[0], new[0]
        return
    named = {subject["subject"]: subject for subject in new}
    common = [subject for subject in old if subject["subject"] in named]
    if not common:
        raise ComparisonError("no sampler is in both")
    yield from ((subject, named[subject["subject"]]) for subject in common)


def _subject(old: Record, new: Record, most: float) -> Record:
    before, after = ({trial["toy"]: trial for trial in subject["trials"]} for subject in (old, new))
    toys = [toy for toy in before if toy in after]
    if not toys:
        raise ComparisonError("no toy is in both")
    pairs = {toy: (_emitted(before[toy]), _emitted(after[toy])) for toy in toys}
    found = change([pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()])
    fell = _ORDER.index(new["verdict"]) > _ORDER.index(old["verdict"])
    return {
        "subject": new["subject"],
        "status": "worse" if fell else _judged(found, most),
        "verdicts": [old["verdict"], new["verdict"]],
        "change": _record(found),
        "trials": [
            {
                "toy": toy,
                "tau": [trial["acceptance"] and trial["acceptance"]["tau"] for trial in (before[toy], after[toy])],
                "change": _record(change([first], [second])),
            }
            for toy, (first, second) in pairs.items()
        ],
    }


def _judged(found: Change | None, most: float) -> str:
    if found is None:
        return "inconclusive"
    return "same or better" if found.low >= -most else "worse" if found.high < -most else "inconclusive"


def _emitted(trial: Record) -> Emitted:
    found = trial["acceptance"]
    if found is None:
        return {}
    rows = zip(found["shards"], found["tokens"], found["rounds"], strict=True)
    return {int(shard): (int(tokens), int(rounds)) for shard, tokens, rounds in rows}


def _record(found: Change | None) -> Record | None:
    if found is None:
        return None
    bounded = found.high < float("inf")
    return {
        "mean": found.change,
        "interval": [found.low, found.high] if bounded else None,
        "confidence": CONFIDENCE,
    }
