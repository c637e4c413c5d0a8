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
    part of it does, rounds were not offered, or NEW was stopped, claims less or lacks a subject or toy of OLD (then
    "missing" names what); else "same or better". ComparisonError where no toy is in both.
    """
    try:
        pairs = list(_pairs(old["subjects"], new["subjects"]))
        subjects = [_subject(before, after, most) for before, after in pairs]
        missing = [str(before["subject"]) for before in old["subjects"] if all(before is not pair[0] for pair in pairs)]
        missing += [f"{after['subject']}: {toy}" for before, after in pairs for toy in _lost(before, after)]
        missing += [f"{after['subject']}: {claim}" for before, after in pairs for claim in _weaker(before, after)]
        missing += ["NEW was not run to its end"] if new.get("complete") is False else []
    except ComparisonError:
        raise
    except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
        raise ComparisonError(
            f"not what `rheo verify --sampler --json` writes: {type(error).__name__}: {error}"
        ) from None
    words = {subject["status"] for subject in subjects} | ({"inconclusive"} if missing else set())
    verdict = next(word for word in ("worse", "inconclusive", "same or better") if word in words)
    return {
        "schema": 2, "kind": "comparison", "verdict": verdict, "max_drop": most, "subjects": subjects,
        "missing": missing,
    }  # fmt: skip


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


def _lost(old: Record, new: Record) -> list[str]:
    kept = {trial["toy"] for trial in new["trials"]}
    return [str(trial["toy"]) for trial in old["trials"] if trial["toy"] not in kept]


def _weaker(old: Record, new: Record) -> list[str]:
    """What NEW claims less of: a larger deviation may stay unseen, or a miss is likelier."""
    before, after = old.get("claims", {}), new.get("claims", {})
    return [f"{name} {after[name]:g} was {before[name]:g}" for name in ("tv", "beta") if _exceeds(before, after, name)]


def _exceeds(before: Record, after: Record, name: str) -> bool:
    return name in before and name in after and after[name] > before[name]


def _subject(old: Record, new: Record, most: float) -> Record:
    before, after = ({trial["toy"]: trial for trial in subject["trials"]} for subject in (old, new))
    toys = [toy for toy in before if toy in after]
    if not toys:
        raise ComparisonError("no toy is in both")
    pairs = {toy: (_emitted(before[toy]), _emitted(after[toy])) for toy in toys}
    found = change([pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()])
    fell = _ORDER.index(new["verdict"]) > _ORDER.index(old["verdict"])
    return {
        "subject": str(new["subject"]),
        "status": "worse" if fell else _judged(found, most),
        "verdicts": [old["verdict"], new["verdict"]],
        "change": _record(found),
        "trials": [
            {
                "toy": str(toy),
                "tau": [_tau(trial) for trial in (before[toy], after[toy])],
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


def _tau(trial: Record) -> float | None:
    return None if trial["acceptance"] is None else float(trial["acceptance"]["tau"])


def _record(found: Change | None) -> Record | None:
    if found is None:
        return None
    bounded = found.high < float("inf")
    return {
        "mean": found.change,
        "interval": [found.low, found.high] if bounded else None,
        "confidence": CONFIDENCE,
    }
