"""`rheo verify`: the main job."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from verify.cases import Case
    from verify.gate import Check


@click.command()
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all results here.")
@click.option(
    "--failures",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("rheo-failures"),
    show_default=True,
    help="Where every failed case is saved.",
)
def verify(cases: tuple[str, ...], json_path: Path | None, failures: Path) -> int:
    """Take the packaged cases, or each CASE file, through the exact and parity checks of both implementations.

    Ends in one table and one verdict. The controls are lossy on purpose: if one is not found, the verdict is an error.
    """
    import torch

    if json_path is not None:
        require_writable(json_path)
    from reports.console import progress, verify_table
    from verify import gate
    from verify.cases import CaseError, load
    from verify.controls import CONTROLS
    from verify.exhibits import exhibits

    torch.set_num_threads(1)  # toys are small: more threads only wait for each other
    started = time.monotonic()
    checks: list[Check] = []
    controls: list[Check] = []
    replays: list[tuple[Check, Path]] = []
    bad: list[str] = []
    loaded: list[Case] = []
    for path in cases or gate.packaged_cases():
        try:
            loaded.append(load(path))
        except CaseError as error:
            click.echo(f"rheo: {error}", err=True)
            bad.append(str(error))
    with progress(len(loaded) + len(CONTROLS)) as advance:
        for name in CONTROLS:
            advance(f"control {name}")
            controls.append(gate.check_control(name))
        for case in loaded:
            advance(Path(case.name).stem)
            for check in gate.check_case(case):
                checks.append(check)
                if check.status is gate.Status.LOSSY:
                    try:
                        replays.append((check, gate.save_failure(case, check, failures)))
                    except OSError as error:  # the verdict matters more than its replay
                        click.echo(f"rheo: --failures: {error.filename}: {error.strerror}", err=True)
    status = max(gate.overall(checks, controls), gate.Status.BAD_INPUT if bad else gate.Status.LOSSLESS)
    record = _record(gate.verdict(status, checks), checks, controls, replays, bad, time.monotonic() - started)
    verify_table(record, on_stderr=json_path is not None)
    if json_path is not None:
        write_text(json_path, json.dumps(record | exhibits(loaded), indent=1) + "\n")
    return int(status)


def _record(
    verdict: str,
    checks: list[Check],
    controls: list[Check],
    replays: list[tuple[Check, Path]],
    bad: list[str],
    seconds: float,
) -> dict[str, Any]:
    return {
        "schema": 2,
        "kind": "verify",
        "complete": True,
        "verdict": verdict,
        "seconds": round(seconds, 1),
        "checks": [check.record() for check in checks],
        "controls": [check.record() for check in controls],
        "bad_input": bad,
        "replay": [{**check.record(), "command": f"rheo verify {shlex.quote(str(path))}"} for check, path in replays],
    }
