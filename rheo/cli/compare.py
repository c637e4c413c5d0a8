"""`rheo compare`: what a change did to acceptance and to the verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from rheo.cli.options import Within
from rheo.files import require_writable, write_text


@click.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--max-drop",
    type=Within(0),
    default=0.01,
    show_default=True,
    help="The fall of tokens per round that fails, where its interval leaves no doubt that it is larger than 0.",
)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here.")
def compare(old: Path, new: Path, max_drop: float, json_path: Path | None) -> int:
    """The paired change between two results of `rheo verify --sampler ... --json`, OLD and NEW.

    Ends with 1 if a verdict became worse, or tokens per round fell by more than --max-drop; 3 if the interval is too
    wide to say that they did not, or NEW lacks a sampler or toy of OLD.
    """
    from reports.console_sampler import compare_table
    from verify.comparison import ComparisonError, compared

    if json_path is not None:
        require_writable(json_path)
        if json_path.resolve() in (old.resolve(), new.resolve()):
            raise click.UsageError(f"--json: {json_path} is also read")
    try:
        record = compared(_read(old), _read(new), max_drop)
    except ComparisonError as error:
        raise click.ClickException(f"{old}, {new}: {error}") from None
    if json_path is not None:
        write_text(json_path, json.dumps(record, indent=1) + "\n")
    compare_table(record, on_stderr=json_path is not None)
    return {"same or better": 0, "worse": 1, "inconclusive": 3}[str(record["verdict"])]


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise click.ClickException(f"{path}: broken JSON: {error}") from None
    if not isinstance(record, dict) or record.get("schema") != 2 or not isinstance(record.get("subjects"), list):
        raise click.ClickException(f"{path}: no result of `rheo verify --sampler --json` (schema 2 with subjects)")
    return record
