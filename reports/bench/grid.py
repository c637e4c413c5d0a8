"""The section of expected tau at every temperature and tree size together, less that of a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reports.bench import figures
from reports.bench.figures import Series
from reports.bench.words import interval, look, signed
from reports.blocks import Block, Cell, Figure, Section, Table, distinct, fixed, number, plain

Json = dict[str, Any]

_BASELINE = "rheo"


def grid(run: Json) -> Section | None:
    """All methods, a setting after the other."""
    rows: Sequence[Json] = run["summary"]["grid"]
    if not rows:
        return None
    lead = (
        "All methods at the same round starts of a temperature, all suites weighted alike. Differences are paired by "
        "round start; of two temperatures the texts differ, so only rows of one temperature compare."
    )
    blocks: list[Block] = [*_drawn(run, rows), _table(rows), _in_full(run, rows)]
    return Section("grid", "Expected tau by temperature and tree size", lead, blocks)


def _drawn(run: Json, rows: Sequence[Json]) -> Iterator[Figure]:
    for i, temperature in enumerate(distinct(row["temperature"] for row in rows)):
        here = [row for row in rows if row["temperature"] == temperature]
        budgets = distinct(row["budget"] for row in here)
        at = {(row["budget"], row["method"]): row["differences"].get(_BASELINE) for row in here}
        series = []
        for name in distinct(name for _, name in at if name != _BASELINE):
            found = [at.get((budget, name)) for budget in budgets]
            if any(found):
                means, around = ([each and each[key] for each in found] for key in ("mean", "interval"))
                series.append(Series(name, look(run, name), means, around))
        if series:
            known = [f"{each.name} {', '.join(plain(value) for value in each.values)}" for each in series]
            says = f"Expected tau at T = {plain(temperature)} less that of {_BASELINE}, by drafted nodes"
            names = [f"{budget} nodes" for budget in budgets]
            drawn = figures.dots(names, series, "difference, tokens a forward", f"grid-{i}", 0.0)
            yield Figure(f"{says} {', '.join(map(str, budgets))}: {'; '.join(known)}", f"{says}; 99% intervals.", drawn)


def _table(rows: Sequence[Json]) -> Table:
    settings = distinct((row["temperature"], row["budget"]) for row in rows)
    at = {(row["temperature"], row["budget"], row["method"]): row["tau"] for row in rows}
    best = {setting: max(row["tau"] for row in rows if _setting(row) == setting) for setting in settings}
    cells = []
    for name in distinct(row["method"] for row in rows):
        line = [Cell(name)]
        for setting in settings:
            tau = at.get((*setting, name))
            said = "-" if tau is None else f"{tau:.2f}"
            line.append(Cell(said, number=True, strong=tau == best[setting]))
        cells.append(line)
    heads = ["method", *(f"T = {plain(temperature)}, {budget}" for temperature, budget in settings)]
    return Table("Expected tau by temperature and drafted nodes", heads, cells)


def _in_full(run: Json, rows: Sequence[Json]) -> Table:
    others = sorted({other for row in rows for other in row["differences"]}, key=lambda name: (look(run, name), name))
    cells = [
        [
            Cell(plain(row["temperature"])), number(row["budget"]), Cell(row["method"]), number(row["prompts"]),
            number(row["contexts"]), fixed(row["tau"], 3), interval(row["interval"]),
            *(Cell(signed(row["differences"].get(other)), number=True) for other in others),
        ]
        for row in rows
    ]  # fmt: skip
    heads = [
        "temperature", "nodes", "method", "prompts", "contexts", "expected tau", "99%",
        *(f"less {other}" for other in others),
    ]  # fmt: skip
    return Table("In full", heads, cells, folded=True)


def _setting(row: Json) -> tuple[float, int]:
    return row["temperature"], row["budget"]
