"""The page of a run: its JSON in, one self-contained HTML document out. No script, and nothing to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports import exhibits, explanation, losslessness, subjects, summary, tiers
from reports.bench import ablations, bound, grid, rounds, setting, shapes, tau
from reports.bench import summary as bench_summary
from reports.blocks import Cell, Remark, Section, status_cell, stem

Json = dict[str, Any]

_SECTIONS = (
    tiers.exact,
    tiers.parity,
    tiers.controls,
    subjects.statistical,
    exhibits.audit,
    tiers.mutants,
    exhibits.acceptance,
    exhibits.power,
    exhibits.example,
)
_BENCH = (
    tau.table,
    tau.expected,
    grid.grid,
    rounds.acceptance,
    bound.depth_one,
    rounds.time,
    ablations.ablations,
    shapes.shapes,
    setting.setting,
)
_TITLES = {
    "verify": "rheo verify",
    "sampler": "rheo verify --sampler",
    "models": "rheo verify --target",
    "audit": "rheo audit",
    "bench": "rheo bench",
}


def render(run: Json, source: str) -> str:
    """A run that `schema.load` accepted as HTML; `source` is the name of its file."""
    benched = run["kind"] == "bench"
    makers: Sequence[Callable[[Json], Section | None]] = (_failures, *_SECTIONS)
    told: ModuleType = summary
    if benched:
        makers, told = _BENCH, bench_summary
    elif run["kind"] == "models":
        makers, told = (losslessness.section,), losslessness
    sections = [section for section in (make(run) for make in makers) if section is not None]
    page = _environment().get_template("page.html.j2")
    return page.render(
        title=_TITLES[run["kind"]],
        source=source,
        version=run["schema"],
        complete=run.get("complete", True),
        verdict=bench_summary.headline(run) if benched else status_cell(run["verdict"]),
        sentence=told.sentence(run),
        facts=told.facts(run),
        sections=sections,
    )


def explain(found: Json) -> str:
    """The two ideas on one case, of `verify.explanation`, as HTML."""
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title="rheo report --explain",
            source=f"the case {stem(found['case'])}",
            version=found["schema"],
            complete=True,
            verdict=Cell("Calibrated growth and tree-wide transport"),
            sentence="Here both accept more drafts than the paper's sampler. Neither changes the law of the output.",
            facts=explanation.facts(found),
            sections=explanation.sections(found),
        )
    )


def _failures(run: Json) -> Section | None:
    """Input that could not be used, and how to see failures again."""
    remarks = [Remark(line, "warn") for line in run.get("bad_input", [])]
    for replay in run.get("replay", []):
        what = ", ".join(filter(None, (stem(replay["case"]), replay.get("method"), replay.get("check"))))
        what += f": {replay.get('detail') or replay.get('status', 'lossy')}"
        remarks.append(Remark(what, "bad", replay["command"]))
    return Section("failures", "What went wrong", "", remarks) if remarks else None


def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("reports"), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.globals["kind"] = lambda block: type(block).__name__
    return environment
