"""The sections of what is decided without a sample: exact tier, parity tier, controls; and mutants by tier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from reports.blocks import Cell, Remark, Section, Table, Tone, counted, distinct, plain, stem, tidy, tone_of
from reports.console import decimal, short, value_of

Json = dict[str, Any]


def exact(run: Json) -> Section | None:
    """Output laws in rational arithmetic, and those of the torch sampler driven through every cell."""
    checks = [check for check in run.get("checks", []) if not check["check"].startswith("parity")]
    if not checks:
        return None
    lead = (
        "The law of a round's output, computed instead of sampled. The reference is exact in rational numbers; the "
        "torch sampler is driven through every tree and both ends of every cell of its uniforms. Accepted: expected "
        "accepted drafts of a round. Distance: the largest total variation from the target's law."
    )
    methods = distinct(check["method"] for check in checks)
    heads = ["case", *(f"accepted, {method}" for method in methods), *_names(checks), "distance"]
    rows = []
    for case, of_case in _by_case(checks).items():
        accepted = {c["method"]: c["accepted"] for c in reversed(of_case) if c.get("accepted") is not None}
        numbers = [Cell(decimal(accepted[m]) if m in accepted else "-", number=True) for m in methods]
        rows.append([Cell(stem(case)), *numbers, *_marks(checks, of_case, methods), _largest(of_case)])
    table = Table("Exact tier: every case, all methods", heads, rows)
    return Section("exact", "Exact tier", lead, [table, *_complaints(checks)], _badge(checks))


def parity(run: Json) -> Section | None:
    """Both implementations fed the same uniforms."""
    checks = [check for check in run.get("checks", []) if check["check"].startswith("parity")]
    if not checks:
        return None
    methods = distinct(check["method"] for check in checks)
    rows = [[Cell(stem(case)), *_marks(checks, of_case, methods)] for case, of_case in _by_case(checks).items()]
    table = Table("Parity tier: every case, all methods", ["case", *_names(checks)], rows)
    lead = "The torch sampler and the reference take the same path under the same uniforms, boundaries included."
    return Section("parity", "Parity tier", lead, [table, *_complaints(checks)], _badge(checks))


def controls(run: Json) -> Section | None:
    """Samplers that are wrong on purpose."""
    found = run.get("controls", [])
    if not found:
        return None
    rows = []
    for control in found:
        mark = Cell("found lossy", "ok") if control["status"] == "lossy" else Cell("not found", "bad")
        tv = Cell(tidy(short(control.get("tv"))), number=True)
        rows.append([Cell(control["case"].removeprefix("control ")), Cell(control.get("detail", "")), tv, mark])
    table = Table("Controls that must be found lossy", ["control", "fault", "total variation", "found"], rows)
    caught = sum(control["status"] == "lossy" for control in found)
    lead = "Samplers that are wrong on purpose. A harness that does not find them proves nothing."
    badge = Cell(f"{caught} of {len(found)} found", "ok" if caught == len(found) else "bad")
    return Section("controls", "Controls", lead, [table], badge)


def mutants(run: Json) -> Section | None:
    """Which tier catches which mutant."""
    found = run.get("mutants", [])
    if not found:
        return None
    tiers = distinct(tier for mutant in found for tier in mutant["tiers"])
    rows = []
    for mutant in found:
        marks = [_catch(mutant["tiers"].get(tier), tier == mutant.get("cheapest")) for tier in tiers]
        rows.append([Cell(mutant["mutant"]), Cell(mutant.get("symptom", "")), *marks])
    caught = sum(any(tier["caught"] for tier in mutant["tiers"].values()) for mutant in found)
    badge = Cell(f"{caught} of {len(found)} caught", "ok" if caught == len(found) else "bad")
    lead = "Broken samplers, each after a fault met in public. “Cheapest” marks the quickest tier that catches it."
    table = Table("Mutants and the tiers that catch them", ["mutant", "symptom", *tiers], rows)
    return Section("mutants", "Mutants", lead, [table], badge)


def _catch(tier: Json | None, cheapest: bool) -> Cell:
    if tier is None or tier["caught"] is None:
        return Cell("-")
    seconds = f" in {plain(tier['seconds'], 2)} s" if tier.get("seconds") is not None else ""
    if not tier["caught"]:
        return Cell(f"not seen{seconds}")
    return Cell(f"{'cheapest' if cheapest else 'caught'}{seconds}", "ok", strong=cheapest)


def _by_case(checks: Sequence[Json]) -> dict[str, list[Json]]:
    cases: dict[str, list[Json]] = defaultdict(list)
    for check in checks:
        cases[check["case"]].append(check)
    return cases


def _names(checks: Sequence[Json]) -> list[str]:
    return distinct(check["check"] for check in checks)


def _marks(checks: Sequence[Json], of_case: Sequence[Json], methods: Sequence[str]) -> list[Cell]:
    """One cell a check: ok where every method is lossless, else what is not; a dash where a check was not reached."""
    cells = []
    for name in _names(checks):
        done = {check["method"]: check["status"] for check in of_case if check["check"] == name}
        wrong = [f"{done[m].replace('_', ' ')} {m}".strip() for m in methods if m in done and done[m] != "lossless"]
        missing = [f"- {method}" for method in methods if method not in done]
        tones = {tone_of(status) for status in done.values()}
        if not wrong and not missing:
            cells.append(Cell("ok", "ok"))
        else:
            cells.append(Cell(", ".join(wrong + missing), "bad" if "bad" in tones else "warn"))
    return cells


def _largest(of_case: Sequence[Json]) -> Cell:
    distances = [check["tv"] for check in of_case if check.get("tv") is not None]
    return Cell(tidy(short(max(distances, key=value_of))) if distances else "-", number=True)


def _badge(checks: Sequence[Json]) -> Cell:
    wrong = [check for check in checks if check["status"] != "lossless"]
    if not wrong:
        return Cell(f"{counted(len(checks), 'check')} passed", "ok")
    tone: Tone = "bad" if any(tone_of(check["status"]) == "bad" for check in wrong) else "warn"
    return Cell(f"{len(wrong)} of {counted(len(checks), 'check')} not passed", tone)


def _complaints(checks: Sequence[Json]) -> Iterator[Remark]:
    """A line for every check that did not pass."""
    for check in checks:
        if check["status"] != "lossless":
            what = f"{stem(check['case'])}, {check['method']}, {check['check']}: {check['status'].replace('_', ' ')}"
            yield Remark(": ".join(filter(None, (what, check.get("detail")))), tone_of(check["status"]))
