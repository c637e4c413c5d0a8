"""`rheo report`: the JSON of a run as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from rheo.files import require_writable, write_text


@click.command()
@click.argument("run", type=click.Path(dir_okay=False, path_type=Path), metavar="RUN.json", required=False)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page.  [default: RUN.html beside it; explained.html]",
)
@click.option("--explain", is_flag=True, help="No run: calibrated growth and transport, step by step on a small case.")
def report(run: Path | None, output: Path | None, explain: bool) -> None:
    """Draw the JSON that `rheo verify`, `rheo audit` or `rheo bench` wrote as one self-contained HTML page."""
    if explain == (run is not None):
        raise click.UsageError("give either RUN.json or --explain")
    try:
        from reports.page import explain as explained
        from reports.page import render
        from reports.schema import RunError, load
    except ModuleNotFoundError as error:
        message = f"report: {error.name} is missing; pip install 'rheosampling[report]'"
        raise click.ClickException(message) from None
    if run is None:
        from verify.explanation import explanation

        output = output or Path("explained.html")
        require_writable(output)
        write_text(output, explained(explanation()))
        click.echo(str(output))
        return
    output = output or run.with_suffix(".html")
    if output.resolve() == run.resolve():
        raise click.UsageError(f"--output: {output} is the run itself")
    require_writable(output)
    try:
        drawn = render(load(run), run.name)
    except RunError as error:
        raise click.ClickException(str(error)) from None
    write_text(output, drawn)
    click.echo(str(output))
