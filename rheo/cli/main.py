"""`rheo`: one group, one command a file. Every complaint is one line on standard error, with exit status 2."""

from __future__ import annotations

import importlib
import sys

import click

_COMMANDS = {
    "law": "The exact output law of cases.",
    "verify": "Take cases through every check and give one verdict.",
    "record": "Turn a real target and draft into a case file.",
    "bench": "Measure what the sampler costs.",
}
INTERRUPTED = 130


class _Lazy(click.Group):
    """Loads a command when it is called, so that `rheo --help` does not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"rheo.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rheosampling")
def cli() -> None:
    """RheoSampling: lossless tree speculative decoding, and the harness that proves a sampler lossless.

    Exit status: 0 lossless or done, 1 lossy, 2 bad input, 3 inconclusive, 4 a control that had to fail did not,
    130 interrupted.
    """


def main() -> None:
    """Entry point: run, and turn every expected failure into one line and its exit status."""
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = 0
    except click.ClickException as error:
        click.echo(f"rheo: {' '.join(error.format_message().split())}", err=True)
        status = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("rheo: interrupted", err=True)
        status = INTERRUPTED
    except BrokenPipeError:
        status = 0
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
