"""The section of ablations: one setting varied, all else as in the run, a part each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reports.bench import figures
from reports.bench.figures import Series
from reports.bench.words import interval, look, signed
from reports.blocks import Block, Cell, Figure, Section, Table, counted, distinct, fixed, plain

Json = dict[str, Any]

_TITLES = {
    "support": "Support: tokens that truncation keeps",
    "anchors": "Anchors: certain children of a parent",
    "temperature": "Temperature",
    "budget": "Tree size: drafted nodes",
}
_SHARES = {
    "support": ("coverage of p", "coverage of q", "overlap"),
    "anchors": ("probe there", "probe accepted"),
    "temperature": ("overlap", "probe there", "probe accepted"),
    "budget": ("probe there", "probe accepted"),
}
_TIMED = ("support", "budget")


def ablations(run: Json) -> Section | None:
    """All that were asked for."""
    found = {key: rows for key in _TITLES if (rows := run["summary"]["ablations"].get(key))}
    if not found:
        return None
    lead = (
        "Expected tau at the same round starts, all suites weighted alike. Coverage: the mass of the root's support "
        "under the target (p) and under the untruncated draft (q). Overlap: the sum of min(p, q) at the root. Probe "
        "there: nodes with children whose probe is among them; accepted: by p over its law, where it is. The run's own "
        "value is shaded."
    )
    return Section("ablations", "Ablations", lead, [], parts=[_part(run, key, rows) for key, rows in found.items()])


def _part(run: Json, key: str, rows: Sequence[Json]) -> Section:
    ticks = [_value(row) for row in rows]
    own = next((i for i, row in enumerate(rows) if row["base"]), -1)
    blocks: list[Block] = [*_tau(run, key, rows, ticks, own), *_shares(key, rows, ticks, own)]
    if key in _TIMED:
        blocks += _time(key, rows, ticks)
    return Section(f"ablation-{key}", _TITLES[key], "", [*blocks, _in_numbers(key, rows)])


def _tau(run: Json, key: str, rows: Sequence[Json], ticks: Sequence[str], own: int) -> Iterator[Figure]:
    names = distinct(name for row in rows for name in row["methods"])
    if not names:
        return
    found = {name: [row["methods"].get(name) for row in rows] for name in names}
    series = [
        Series(
            name, look(run, name), [each and each["tau"] for each in mine], [each and each["interval"] for each in mine]
        )
        for name, mine in found.items()
    ]
    label = f"Expected tau of {', '.join(names)} at {key} {', '.join(ticks)}, with 99% intervals"
    caption = (
        "Expected tau with 99% intervals. Between values the differences are paired and much surer: see the table."
    )
    if key == "temperature":
        caption = "Expected tau with 99% intervals. Texts, and so round starts, differ with the temperature."
    yield Figure(label, caption, figures.curves(ticks, series, (key, "expected tau"), f"{key}-tau", own))


def _shares(key: str, rows: Sequence[Json], ticks: Sequence[str], own: int) -> Iterator[Figure]:
    measured = [_measured(row) for row in rows]
    series = [Series(name, i, [each[name] for each in measured]) for i, name in enumerate(_SHARES[key])]
    known = [each for each in series if any(value is not None for value in each.values)]
    if known:
        said = "; ".join(f"{each.name} {', '.join(map(plain, each.values))}" for each in known)
        label = f"At {key} {', '.join(ticks)}: {said}"
        caption = f"{', '.join(each.name for each in known)}.".capitalize()
        yield Figure(label, caption, figures.curves(ticks, known, (key, "share"), f"{key}-shares", own))


def _time(key: str, rows: Sequence[Json], ticks: Sequence[str]) -> Iterator[Figure]:
    if any(row["draft_ms"] is None or row["growth_ms"] is None for row in rows):
        return
    parts = [(name, [row[f"{name}_ms"] for row in rows]) for name in ("draft", "growth")]
    known = [f"{tick}: {plain(a + b)} ms" for tick, a, b in zip(ticks, parts[0][1], parts[1][1], strict=True)]
    label = f"Time of drafting by {key}, {', '.join(known)}"
    caption = "Milliseconds of drafting a tree: the drafter's forwards, and growth without them."
    yield Figure(label, caption, figures.stacked(ticks, parts, "ms a round", f"{key}-time"))


def _measured(row: Json) -> dict[str, float | None]:
    probe = row["probe"] or {"survival": None, "acceptance": None}
    return {
        "coverage of p": row["coverage"]["p"],
        "coverage of q": row["coverage"]["q"],
        "overlap": row["overlap"],
        "probe there": probe["survival"],
        "probe accepted": probe["acceptance"],
    }


def _in_numbers(key: str, rows: Sequence[Json]) -> Table:
    names = distinct(name for row in rows for name in row["methods"])
    cells = []
    for row in rows:
        line = [Cell(_value(row) + (" (the run's)" if row["base"] else ""))]
        for name in names:
            found = row["methods"].get(name)
            tau = fixed(found["tau"], 3) if found else fixed(None)
            line += [
                tau,
                interval(found and found["interval"]),
                Cell(signed(found and found["difference"]), number=True),
            ]
        times = (fixed(row["draft_ms"], 1), fixed(row["growth_ms"], 1))
        cells.append([*line, *(fixed(value, 3) for value in _measured(row).values()), *times])
    contexts = counted(max((row["contexts"] for row in rows), default=0), "round start")
    heads = [key, *(f"{name}, {what}" for name in names for what in ("tau", "99%", "less the run's"))]
    heads += [*(_measured(rows[0])), "draft, ms", "growth, ms"]
    return Table(f"In numbers, {contexts} at most; differences are paired", heads, cells, folded=True)


def _value(row: Json) -> str:
    return "full" if row["value"] is None else f"{row['value']:.8g}"
