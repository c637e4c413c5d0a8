"""`rheo`: one group, one command a file. Every complaint is one line on standard error, with exit status 2."""

from __future__ import annotations

import importlib
import signal
import sys
from types import FrameType

import click

_COMMANDS = {
    "law": "The exact output law of cases.",
    "verify": "Take cases through every check and give one verdict.",
    "compare": "What a change did to acceptance and verdicts.",
    "audit": "Judge the tokens that an engine emitted, from its traces.",
    "rescore": "Write the probabilities that an audit needs, for emitted text.",
    "nightly": "Judge a sampler by fresh seeds, night after night.",
    "report": "Turn the JSON of a run into one HTML page.",
    "record": "Turn a real target and draft into a case file.",
    "train-head": "Train an EAGLE-3 head for a target.",
    "calibrate": "Fit what drafted slots are worth to a target.",
    "generate": "Generate text, drafted and verified.",
    "bench": "Measure what the sampler costs.",
    "tune": "Find the fastest tree on this machine.",
}
BAD_INPUT, INCONCLUSIVE, INTERRUPTED = 2, 3, 130


class _Lazy(click.Group):
    """Loads a command when it is called, so that `rheo --help` does not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        key = name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"rheo.cli.{key}"), key)
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
    interrupted = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = 0
    except click.ClickException as error:
        status = complain(error.format_message())
    except OSError as error:
        status = complain(f"{error.filename or 'output'}: {error.strerror or error}")
    except (click.Abort, KeyboardInterrupt):
        click.echo("rheo: interrupted", err=True)
        status = INTERRUPTED
    except SystemExit:  # click's own answer to a closed pipe: what was not printed was not concluded
        status = INCONCLUSIVE
    except Exception:
        # An interrupt in the middle of an import surfaces as whatever the half-imported module raises.
        if not interrupted:
            raise
        click.echo("rheo: interrupted", err=True)
        status = INTERRUPTED
    sys.exit(status or 0)


def complain(message: str) -> int:
    """One line on standard error; the status of bad input."""
    click.echo(f"rheo: {' '.join(message.split())}", err=True)
    return BAD_INPUT


if __name__ == "__main__":
    main()
