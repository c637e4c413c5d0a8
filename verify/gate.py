"""The main job: cases through the exact and parity checks of both implementations, and controls that must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reference.growth import TreeGrowth
from reference.growths.static import Static
from reference.methods import METHODS
from rheo.files import unused
from verify.cases import Case, load, save
from verify.classes import invariant_faults, layered_trees, merged
from verify.controls import CONTROLS, judge
from verify.enumeration import InconclusiveError, TooManyOutcomesError
from verify.judgement import Judgement, judge_reference, judge_torch, plain
from verify.laws import classes_of, draft_of
from verify.parity import boundary_rows, toy_disagreements
from verify.precision import PRECISIONS

DATA = Path(__file__).parent / "data"

CLASS_LIMIT = 20_000  # trees enumerated before a check is given up as inconclusive
LAYERED_LIMIT = 2_000  # trees of layered growth, every probe drawn, for the comparison with lazy growth
_RANDOM_ROWS = 24


class Status(IntEnum):
    """Exit statuses, the same for every command."""

    LOSSLESS = 0
    LOSSY = 1
    BAD_INPUT = 2
    INCONCLUSIVE = 3
    CONTROL_PASSED = 4


@dataclass(frozen=True)
class Check:
    """One line of the verdict. detail: what went wrong; empty if nothing.

    unexpected: the law is right, but something else came out than the case or the reference says. That fails too.
    """

    case: str
    method: str
    check: str
    status: Status
    tv: str | float | None = None
    accepted: str | float | None = None
    detail: str = ""
    unexpected: bool = False

    def record(self) -> dict[str, Any]:
        return {**vars(self), "status": "unexpected" if self.unexpected else self.status.name.lower()}


def packaged_cases() -> list[Path]:
    """The cases that come with the project: toys, counterexamples, and recordings of a real pair."""
    return sorted(path for folder in ("toys", "counterexamples", "recorded") for path in (DATA / folder).glob("*.json"))


def check_case(case: Case, methods: Iterable[str] | None = None) -> Iterator[Check]:
    """Every check of every method on one case, as they are done. A check that raises has failed."""
    for method in case.methods if methods is None else methods:
        accepted: float | None = None
        for name, run in checks_of(method).items():
            try:
                check = run(case, method, accepted)
            except InconclusiveError as error:
                check = Check(case.name, method, name, Status.INCONCLUSIVE, detail=str(error))
            except Exception as error:  # whatever a broken sampler raises is a finding about it
                check = Check(case.name, method, name, Status.LOSSY, detail=f"raised {error!r}")
            yield check
            if check.status is Status.INCONCLUSIVE:
                break
            if name == "reference" and check.accepted is not None:
                accepted = float(Fraction(check.accepted))


def check_control(name: str) -> Check:
    """One control on its case: lossy is right."""
    case = load(DATA / "controls" / f"{name}.json")
    finding = judge(CONTROLS[name], case)
    status = Status.LOSSY if finding.tv > 0 else Status.CONTROL_PASSED
    return Check(f"control {name}", "", "reference", status, plain(finding.tv), None, CONTROLS[name].fault)


def overall(checks: Iterable[Check], controls: Iterable[Check]) -> Status:
    """The largest status, where a control counts only if it was not found lossy."""
    passed = [c.status for c in controls if c.status is not Status.LOSSY]
    return max([Status.LOSSLESS, *(c.status for c in checks), *passed])


def verdict(status: Status, checks: Iterable[Check]) -> str:
    """The status in a word, where "lossy" is said of laws alone."""
    failed = [check for check in checks if check.status is Status.LOSSY]
    if status is Status.LOSSY and all(check.unexpected for check in failed):
        return "unexpected"
    return status.name.lower()


def save_failure(case: Case, check: Check, folder: Path) -> Path:
    """A file that replays a failed check: `rheo verify` on it runs the same checks again. No file is replaced."""
    stem = f"{Path(case.name).stem}-{check.method}-{check.check.replace(' ', '-')}"
    path = unused(folder, stem)
    save(case, path)
    return path


def _reference(case: Case, method: str, _: float | None) -> Check:
    judged = judge_reference(case, method, CLASS_LIMIT)
    return _judged("reference", judged, [*judged.faults, *_misshapen(case, method)], _unexpected(judged))


def _torch(case: Case, method: str, accepted: float | None, dtype: str) -> Check:
    """Float32 may rank nodes otherwise than Fractions do, and then accept another number of drafts."""
    judged = judge_torch(case, method, dtype, CLASS_LIMIT)
    off = 0.0 if accepted is None or dtype != "float64" else abs(judged.accepted - accepted)
    wrong = [f"accepts {off:.1e} off the reference"] if off > 1e-6 else []
    return _judged(f"torch {dtype}", judged, judged.faults, wrong)


def _parity(case: Case, method: str, _: float | None, dtype: str) -> Check:
    random = np.random.default_rng(0).random((_RANDOM_ROWS, case.config.decisions))
    numbers = np.concatenate([boundary_rows(case.config), random])
    faults = toy_disagreements(case, method, PRECISIONS[dtype], numbers)
    status = Status.LOSSY if faults else Status.LOSSLESS
    return Check(case.name, method, f"parity {dtype}", status, detail="; ".join(faults[:3]))


CHECKS: dict[str, Callable[[Case, str, float | None], Check]] = {
    "reference": _reference,
    **{f"torch {dtype}": partial(_torch, dtype=dtype) for dtype in PRECISIONS},
    **{f"parity {dtype}": partial(_parity, dtype=dtype) for dtype in PRECISIONS},
}


def checks_of(method: str) -> dict[str, Callable[[Case, str, float | None], Check]]:
    """The checks a method goes through: torch is not driven through trees of fixed shape, but held to the reference."""
    fixed = isinstance(METHODS[method].growth, Static)
    return {name: check for name, check in CHECKS.items() if not (fixed and name.startswith("torch"))}


def _judged(check: str, judgement: Judgement, faults: list[str], unexpected: list[str]) -> Check:
    right = judgement.lossless and not faults
    return Check(
        case=judgement.case.name,
        method=judgement.method,
        check=check,
        status=Status.LOSSLESS if right and not unexpected else Status.LOSSY,
        tv=plain(judgement.tv),
        accepted=plain(judgement.accepted),
        detail="; ".join([*faults, *unexpected][:3]),
        unexpected=right and bool(unexpected),
    )


def _unexpected(judgement: Judgement) -> list[str]:
    """Where the case says what must come out, and something else did."""
    wanted, seen = judgement.case.expect.get(judgement.method, {}), judgement.record()
    tolerance = 0 if judgement.case.rational else 1e-9
    return [
        f"{key} is {seen[key]}, expected {value}"
        for key, value in wanted.items()
        if abs(Fraction(value) - Fraction(seen[key])) > tolerance
    ]


def _misshapen(case: Case, method: str) -> list[str]:
    """Broken trees, and any difference between lazy growth and layered growth where that can be enumerated."""
    config, rules = case.config, METHODS[method]
    if isinstance(rules.growth, TreeGrowth):
        return []  # neither slots that compete, nor a beam; grown in one way alone
    lazy = [(c.mass, c.result) for c in classes_of(draft_of(case), config, rules, CLASS_LIMIT)]
    faults = [fault for _, tree in lazy for fault in invariant_faults(tree, config)]
    try:
        layered = merged(layered_trees(draft_of(case), config, rules, LAYERED_LIMIT))
    except TooManyOutcomesError:
        return faults  # the exact test tier compares the two on cases chosen small enough
    grown = merged(lazy)
    tolerance = 0 if case.rational else 1e-12
    if grown.keys() != layered.keys() or any(abs(grown[k][0] - layered[k][0]) > tolerance for k in grown):
        faults.append("lazy and layered growth differ")
    return faults
