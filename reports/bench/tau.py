"""The sections of sampled tau and speed-up, and of expected tau with its paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reports.bench import figures
from reports.bench.figures import Series
from reports.bench.words import AR, AVERAGE, interval, look, signed
from reports.blocks import Block, Cell, Figure, Section, Table, counted, distinct, fixed, number, plain

Json = dict[str, Any]


def table(run: Json) -> Section | None:
    """The paper's table, and the same as figures."""
    rows = run["summary"]["table"]
    if not rows:
        return None
    lead = (
        f"tau counts the tokens emitted a forward of the target; {AR} emits one. Speed-up compares tokens a second on "
        "the same prompts and seeds, in one process that takes the methods in turn; the first round of a text, which "
        f"reads the prompt, is not counted. {AVERAGE} is the mean over suites."
    )
    return Section("table", "tau and speed-up", lead, [_paper(run, rows), *_by_suite(run, rows), _in_full(rows)])


def _paper(run: Json, rows: Sequence[Json]) -> Table:
    suites = distinct(row["suite"] for row in rows)
    at = {(row["suite"], row["method"]): row for row in rows}
    best = {suite: max(row["tau"] for row in rows if row["suite"] == suite) for suite in suites}
    cells = []
    for name in distinct(row["method"] for row in rows):
        line = [Cell(name)]
        for suite in suites:
            row = at.get((suite, name))
            line += _pair(row, best[suite]) if row else [fixed(None), fixed(None)]
        cells.append(line)
    heads = ["method", *(f"{suite}, {what}" for suite in suites for what in ("tau", "speed-up"))]
    caption = f"tau ± its standard deviation over {counted(run['settings']['seeds'], 'seed')}, and speed-up over {AR}"
    return Table(caption, heads, cells)


def _pair(row: Json, best: float) -> list[Cell]:
    spread = "" if row["spread"] is None else f" ± {row['spread']:.2f}"
    tau = Cell(f"{row['tau']:.2f}{spread}", number=True, strong=row["tau"] == best)
    return [tau, fixed(row["speedup"], 2)]


def _by_suite(run: Json, rows: Sequence[Json]) -> Iterator[Figure]:
    suites = distinct(row["suite"] for row in rows)
    at = {(row["suite"], row["method"]): row for row in rows if row["method"] != AR}
    names = distinct(name for _, name in at)
    for key, around, title, says, line in (
        ("tau", "interval", "tau", "tokens a forward of the target", None),
        ("speedup", "speedup_interval", "Speed-up", f"tokens a second over those of {AR}", 1.0),
    ):
        found = {name: [at.get((suite, name), {}) for suite in suites] for name in names}
        series = [
            Series(name, look(run, name), [row.get(key) for row in mine], [row.get(around) for row in mine])
            for name, mine in found.items()
        ]
        known = [f"{each.name} {plain(each.values[-1])}" for each in series if each.values[-1] is not None]
        if known:
            label = f"{title} by suite and method, with 99% intervals; {suites[-1]}: {', '.join(known)}"
            caption = f"{title} by suite, with 99% intervals over prompts (none where a suite has a single prompt)."
            yield Figure(label, caption, figures.dots(suites, series, says, key, line))


def _in_full(rows: Sequence[Json]) -> Table:
    cells = [
        [
            Cell(row["suite"]), Cell(row["method"]), number(row["prompts"]), number(row["rounds"]),
            number(row["tokens"]), fixed(row["tau"], 3), interval(row["interval"]), fixed(row["spread"], 3),
            Cell(", ".join(f"{tau:.2f}" for tau in row["by_seed"]), number=True), fixed(row["expected"], 3),
            fixed(row["tokens_per_second"], 1), fixed(row["speedup"], 3), interval(row["speedup_interval"]),
        ]
        for row in rows
    ]  # fmt: skip
    heads = [
        "suite", "method", "prompts", "rounds", "tokens", "tau", "99%", "spread", "by seed", "expected, these rounds",
        "tokens/s", "speed-up", "99%",
    ]  # fmt: skip
    return Table("The table in full", heads, cells, folded=True)


def expected(run: Json) -> Section | None:
    """Expected tau at shared round starts, and the paired differences."""
    rows = run["summary"]["expected"]
    if not rows:
        return None
    others = sorted({other for row in rows for other in row["differences"]}, key=lambda name: (look(run, name), name))
    cells = [
        [
            Cell(row["suite"]), Cell(row["method"]), number(row["prompts"]), number(row["contexts"]),
            fixed(row["tau"], 3), interval(row["interval"]),
            *(Cell(signed(row["differences"].get(other)), number=True) for other in others),
            fixed(row.get("sampled"), 3), Cell(signed(row.get("excess")), number=True),
        ]
        for row in rows
    ]  # fmt: skip
    less = [f"less {other}" for other in others]
    heads = ["suite", "method", "prompts", "contexts", "expected tau", "99%", *less, "sampled", "less expected"]
    lead = (
        "Given a tree and the target's probabilities on it, the expected number of emitted tokens is a finite sum: no "
        "luck of the draw is in it. All methods draft at the same round starts, so their differences are paired. "
        "Sampled are the tokens that a method emitted on these same trees, once each: the mean must agree. "
        "Intervals count prompts, since the round starts of one prompt depend on each other."
    )
    blocks: list[Block] = [
        *_forests(run, rows, others),
        Table("Expected tau in numbers, with 99% intervals", heads, cells),
    ]
    return Section("expected", "Expected tau", lead, blocks)


def _forests(run: Json, rows: Sequence[Json], others: Sequence[str]) -> Iterator[Figure]:
    """The differences to each baseline; one that is drawn is not drawn again the other way round."""
    suites = distinct(row["suite"] for row in rows)
    for i, other in enumerate(others):
        at = {(row["suite"], row["method"]): row["differences"].get(other) for row in rows}
        series = []
        for name in distinct(name for _, name in at if name not in others[: i + 1]):
            found = [at.get((suite, name)) for suite in suites]
            means, around = ([each and each[key] for each in found] for key in ("mean", "interval"))
            if any(found):
                series.append(Series(name, look(run, name), means, around))
        if series:
            known = [f"{each.name} {plain(each.values[-1])}" for each in series]
            says = f"Expected tau less that of {other}, paired by round start, with 99% intervals"
            label = f"{says}; {suites[-1]}: {', '.join(known)}"
            yield Figure(
                label, f"{says}.", figures.dots(suites, series, "difference, tokens a forward", f"less-{i}", 0.0)
            )
