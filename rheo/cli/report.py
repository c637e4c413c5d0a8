"""`rheo report`: the JSON of a run as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from rheo.files import require_writable, write_text


@click.command()
@click.argument("run", type=click.Path(dir_okay=False, path_type=Path), metavar="RUN.json")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="The page.  [default: RUN.html beside it]"
)
def report(run: Path, output: Path | None) -> None:
    """Draw the JSON that `rheo verify`, `rheo audit` or `rheo bench` wrote as one self-contained HTML page."""
    try:
        from reports.page import render
        from reports.schema import RunError, load
    except ModuleNotFoundError as error:
        message = f"report: {error.name} is missing; pip install 'rheosampling[report]'"
        raise click.ClickException(message) from None
    output = output or run.with_suffix(".html")
    if output.resolve() == run.resolve():
        raise click.UsageError(f"--output: {output} is the run itself")
    require_writable(output)
    try:
        page = render(load(run), run.name)
    except RunError as error:
        raise click.ClickException(str(error)) from None
    write_text(output, page)
    click.echo(str(output))
