"""The table of mutants and tiers, made by running them: `python -m verify.mutants_table` renews docs/mutants.md."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from rheo.files import write_text
from verify.mutants import MUTANTS
from verify.mutants.mutant import Mutant
from verify.tiers import TIERS, ask, cheapest

PAGE = Path(__file__).parents[1] / "docs" / "mutants.md"
_START, _END = "<!-- made by `python -m verify.mutants_table` -->", "<!-- end -->"


def record(mutant: Mutant) -> dict[str, Any]:
    """What every tier says of one mutant, as JSON."""
    findings = {tier: ask(tier, mutant) for tier in TIERS}
    return {
        "mutant": mutant.name,
        "symptom": mutant.symptom,
        "fault": mutant.fault,
        "method": mutant.method,
        "tiers": {tier: asdict(finding) for tier, finding in findings.items()},
        "cheapest": cheapest(findings),
    }


def records(mutants: Iterable[Mutant] = tuple(MUTANTS.values())) -> Iterator[dict[str, Any]]:
    """The records of many, as they are done."""
    return map(record, mutants)


def table(records: Iterable[dict[str, Any]]) -> str:
    """Records as a table in Markdown: the rounds after which each tier saw the fault, the fewest in bold."""
    lines = [f"| mutant | breaks | what is wrong | imitates | {' | '.join(TIERS)} |", "|" + "---|" * (4 + len(TIERS))]
    for each in records:
        cells = [f"`{each['mutant']}`", each["method"], each["fault"], each["symptom"]]
        for tier, finding in each["tiers"].items():
            rounds = f"{finding['rounds']:,}" if finding["caught"] else "-"
            cells.append(f"**{rounds}**" if tier == each["cheapest"] else rounds)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def read(page: str) -> dict[str, tuple[set[str], str | None]]:
    """The tiers that catch each mutant, and the cheapest of them, as a page says."""
    found: dict[str, tuple[set[str], str | None]] = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            name, *_, cells = line.strip("| ").split(" | ", 4)
            said = dict(zip(TIERS, cells.split(" | "), strict=True))
            bold = next((tier for tier, cell in said.items() if cell.startswith("**")), None)
            found[name.strip("`")] = {tier for tier, cell in said.items() if cell != "-"}, bold
    return found


def renewed(page: str, table: str) -> str:
    """A page with its table exchanged. ValueError where it has no place for one."""
    before, start, rest = page.partition(_START)
    _, end, after = rest.partition(_END)
    if not (start and end):
        raise ValueError("the page has no place for a table")
    return f"{before}{_START}\n\n{table}\n\n{_END}{after}"


def main() -> None:
    """Run every mutant through every tier and renew the page."""
    torch.set_num_threads(1)  # toys are small: more threads only wait for each other
    done = []
    for each in records():
        done.append(each)
        print(f"{len(done)}/{len(MUTANTS)} {each['mutant']}: {each['cheapest']}", file=sys.stderr)
    write_text(PAGE, renewed(PAGE.read_text(encoding="utf-8"), table(done)))


if __name__ == "__main__":
    main()
