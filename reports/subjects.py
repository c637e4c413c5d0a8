"""The section of samplers judged by sampled sequences alone, a part each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reports import figures
from reports.blocks import (
    Block,
    Cell,
    Figure,
    Remark,
    Section,
    Table,
    badge_of,
    counted,
    number,
    plain,
    status_cell,
)

Json = dict[str, Any]

_LONGEST = 6  # tokens of a sequence written out


def statistical(run: Json) -> Section | None:
    """Samplers judged by sampled sequences alone, a part each."""
    subjects = run.get("subjects", [])
    if not subjects:
        return None
    lead = (
        "Each sampler is asked for sequences and nothing else. Whole sequences are counted as cells and tested against "
        "the target's law; the number of samples is computed from the claim."
    )
    parts = [_subject(subject, f"subject-{i}") for i, subject in enumerate(subjects, start=1)]
    badge = badge_of([subject["verdict"] for subject in subjects])
    return Section("statistical", "Statistical tier", lead, [], badge, parts)


def _subject(subject: Json, key: str) -> Section:
    trials: Sequence[Json] = subject.get("trials", [])
    claims = subject.get("claims")
    blocks: list[Block] = []
    if subject["verdict"] == "lossy":
        blocks += _worst(trials)
    if subject["verdict"] == "inconclusive" and subject.get("seconds_missing"):
        blocks.append(Remark(f"About {plain(subject['seconds_missing'])} s more would settle it.", "warn"))
    if subject.get("guess"):
        blocks.append(Remark(f"Kind of fault, a guess: {subject['guess']}", "warn"))
    if trials:
        blocks.append(_trials_table(trials))
    if any(trial.get("tests") for trial in trials):
        blocks.append(_p_figure(trials, claims["alpha"] if claims else None, key))
    pits = [(trial["toy"], trial["pit"]) for trial in trials if trial.get("pit")]
    if pits:
        blocks.append(_pit_figure(pits, key))
    if any(trial.get("tests") for trial in trials):
        blocks.append(_tests_table(trials))
    return Section(key, subject["subject"], _facts(subject), blocks, status_cell(subject["verdict"]))


def _facts(subject: Json) -> str:
    facts = [subject["spec"]] if subject.get("spec", subject["subject"]) != subject["subject"] else []
    if "claims" in subject:
        tv, alpha, beta = (plain(subject["claims"][key]) for key in ("tv", "alpha", "beta"))
        facts.append(f"deviations of total variation {tv} or more (false-alarm rate {alpha}, miss rate {beta})")
    if "sequences" in subject:
        facts.append(f"{plain(subject['sequences'])} sequences")
    if "seed" in subject:
        facts.append(f"seed {subject['seed']}")
    if "seconds" in subject:
        facts.append(f"{plain(subject['seconds'])} s")
    if subject.get("config"):
        facts.append(", ".join(f"{key} {value}" for key, value in subject["config"].items()))
    return "; ".join(facts)


def _worst(trials: Sequence[Json]) -> Iterator[Remark]:
    """The cell that departs most, of the trial with the smallest p-value."""
    cells = [(trial, trial["worst_cell"]) for trial in trials if trial.get("worst_cell") and trial["status"] == "lossy"]
    if cells:
        trial, cell = min(cells, key=lambda found: found[1].get("p_value", 1.0))
        sequence = ", ".join(map(str, cell["sequence"]))
        p_value = f" (p-value {plain(cell['p_value'])})" if "p_value" in cell else ""
        seen = f"observed {plain(cell['observed'], 4)}, expected {plain(cell['expected'], 4)}"
        yield Remark(f"Worst toy: {trial['toy']}; sequence {sequence}: {seen}{p_value}", "bad")


def _trials_table(trials: Sequence[Json]) -> Table:
    heads = [
        "toy",
        "verdict",
        "length",
        "cells",
        "samples",
        "needed",
        "finds",
        "smallest p",
        "tokens a round",
        "worst cell (expected)",
    ]
    rows = []
    for trial in trials:
        tests = trial.get("tests", [])
        smallest = min((test["p_value"] for test in tests), default=None)
        rows.append([
            Cell(trial["toy"]), status_cell(trial["status"]), number(trial.get("length")), number(trial.get("cells")),
            number(trial.get("samples")), number(trial.get("needed")), number(trial.get("detectable")),
            number(smallest), Cell(_tau(trial.get("acceptance")), number=True), Cell(_cell(trial.get("worst_cell"))),
        ])  # fmt: skip
    return Table("Toys, and the smallest total variation that the samples drawn find (“finds”)", heads, rows)


def _tau(acceptance: Json | None) -> str:
    if acceptance is None:
        return "-"
    interval = acceptance.get("interval")
    return f"{acceptance['tau']:.3f}" + (f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else "")


def _cell(cell: Json | None) -> str:
    if cell is None:
        return "-"
    tokens = ",".join(map(str, cell["sequence"][:_LONGEST])) + ("…" if len(cell["sequence"]) > _LONGEST else "")
    return f"{tokens}: {plain(cell['observed'])} ({plain(cell['expected'])})"


def _tests_table(trials: Sequence[Json]) -> Table:
    rows = [
        [
            Cell(trial["toy"]), Cell(test["family"]), Cell(test["test"]), number(test.get("look")),
            number(test.get("samples")), number(test.get("statistic"), 4), number(test["p_value"]),
            number(test.get("alpha")), Cell("rejected", "bad") if test["rejected"] else Cell("passed", "ok"),
        ]
        for trial in trials for test in trial.get("tests", [])
    ]  # fmt: skip
    heads = ["toy", "family", "test", "look", "samples", "statistic", "p-value", "alpha", "outcome"]
    return Table(f"All tests ({len(rows)})", heads, rows, folded=True)


def _p_figure(trials: Sequence[Json], alpha: float | None, key: str) -> Figure:
    tests = [test for trial in trials for test in trial.get("tests", [])]
    rejected = sum(test["rejected"] for test in tests)
    shown = [trial for trial in trials if trial.get("tests")]
    smallest = plain(min(test["p_value"] for test in tests))
    label = f"p-values of {counted(len(tests), 'test')}: {rejected} rejected, the smallest {smallest}"
    caption = (
        "p-values, a row a toy, on a logarithmic axis. The shaded end lies beyond the alpha of the whole run; each "
        "test has a share of it, so that a test rejects only somewhere inside the shade."
    )
    return Figure(label, caption, figures.p_values(shown, alpha, f"{key}-p"))


def _pit_figure(pits: Sequence[tuple[str, Json]], key: str) -> Figure:
    panels = [bins for _, pit in pits for bins in pit.values() if sum(bins)]
    out = sum(map(figures.outside, panels))
    label = f"Histograms of the randomised PIT for {counted(len(pits), 'toy')}: {out} of {len(panels)} leave their band"
    caption = (
        "Randomised PIT by toy and order of tokens, beside what is expected (the line). A right sampler keeps all bins "
        "of a panel inside the band with probability 99%, so one panel in a hundred leaves it by chance: "
        f"{out} of {len(panels)} do (red)."
    )
    return Figure(label, caption, figures.pit_panels(pits, f"{key}-pit"))
