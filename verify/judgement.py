"""One case, one method, one backend: its law, and whether that is the target's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from reference.distributions import Number
from reference.methods import METHODS, Method
from verify.cases import Case
from verify.classes import Weighted, posterior_faults
from verify.enumeration import InconclusiveError
from verify.laws import Law, exact_law, sequences, target_of, total_variation
from verify.precision import PRECISIONS
from verify.torch_law import measure


@dataclass(frozen=True)
class Judgement:
    """What is known of a sampler on a case. Numbers are Fractions where the reference stays rational.

    tv: total variation between the law of the first depth + 1 tokens and the target's. accepted: expected accepted
    drafts of a round. posterior_ok: surviving probes follow q~; None where nothing is drawn. faults: a line each.
    """

    case: Case
    method: str
    backend: str
    tv: Number
    accepted: Number
    classes: int
    posterior_ok: bool | None
    tolerance: float
    law: Law
    faults: list[str] = field(default_factory=list)

    @property
    def lossless(self) -> bool:
        return self.tv <= self.tolerance and self.posterior_ok is not False and not self.faults

    def record(self, with_law: bool = False) -> dict[str, Any]:
        """The line that `rheo law` prints."""
        record: dict[str, Any] = {
            "case": self.case.name,
            "method": self.method,
            "backend": self.backend,
            "tv": plain(self.tv),
            "accepted": plain(self.accepted),
            "tau": plain(self.accepted + 1),
            "classes": self.classes,
            "lossless": self.lossless,
            "posterior_ok": self.posterior_ok,
        }
        if with_law:
            config, toy = self.case.config, self.case.toy
            law = sequences(self.law, target_of(self.case), config.depth + 1, toy.vocab)
            exact = isinstance(self.tv, Fraction)
            record["law"] = {",".join(map(str, s)): plain(m if exact else float(m)) for s, m in law}
        return record


def plain(number: Number | int) -> str | float:
    """A Fraction as a string such as "3/4", anything else as a float."""
    return str(Fraction(number)) if isinstance(number, Fraction | int) else float(number)


def judge_reference(case: Case, name: str, limit: int | None = None, method: Method | None = None) -> Judgement:
    """In Fractions, zero tolerance; in float64 where the temperature makes laws irrational.

    method: what goes by that name; the project's own where none is given.
    """
    law, classes = exact_law(case, METHODS[name] if method is None else method, limit)
    return judge_law(case, name, law, [(c.mass, c.result) for c in classes])


def judge_law(case: Case, name: str, law: Law, trees: Sequence[Weighted]) -> Judgement:
    """What a law of the reference, and the trees it was summed over, say."""
    tolerance = 0.0 if case.rational else PRECISIONS["float64"].lossless
    tv, accepted = total_variation(law, target_of(case), case.config.depth + 1), law.accepted
    if case.rational:
        tv, accepted = Fraction(tv), Fraction(accepted)
    faults = posterior_faults(trees, tolerance)
    return Judgement(
        case, name, "reference", tv, accepted, len(trees), None if faults is None else not faults,
        tolerance, law, faults or [],
    )  # fmt: skip


def judge_torch(case: Case, method: str, dtype: str = "float64", limit: int | None = None) -> Judgement:
    """The torch sampler, driven through every class and cell; dtype: a key of PRECISIONS.

    InconclusiveError where more than the tolerance lies behind cells too narrow to be driven through.
    """
    precision = PRECISIONS[dtype]
    measured = measure(case, method, precision, limit)
    if measured.assumed > precision.lossless:
        raise InconclusiveError(f"a mass of {measured.assumed:.1e} lies behind cells too narrow for {dtype}")
    tv = float(total_variation(measured.law, target_of(case), case.config.depth + 1))
    return Judgement(
        case, method, "torch", tv, float(measured.law.accepted), measured.classes, measured.posterior_ok,
        precision.lossless, measured.law, measured.faults,
    )  # fmt: skip
