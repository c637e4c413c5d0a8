"""--tuned: the tree that `rheo tune` found for this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rheo.config import Config, ConfigError

TUNED = click.option(
    "--tuned",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What rheo tune wrote: budget, depth and beam of each method, but for those given here.",
)


def tuned_configs(
    path: Path | None, names: Mapping[str, Any], methods: Sequence[str], config: Config
) -> dict[str, Config]:
    """The configuration of every method; none without a file. What was said on the command line stays as it is.

    A click.ClickException, one line, for a file that is damaged or was made for something else.
    """
    if path is None:
        return {}
    from verify.benchmark.tuning import TREE, TuningError, read_best

    source = click.get_current_context().get_parameter_source
    own = [key for key in TREE if source(key) is not ParameterSource.DEFAULT]
    found = {}
    try:
        for name, tree in read_best(path, names, methods).items():
            changes: dict[str, Any] = {key: value for key, value in tree.items() if key not in own}
            found[name] = replace(config, **changes)
    except ConfigError as error:
        raise click.ClickException(f"{path}: {name}: {error}") from None
    except TuningError as error:
        raise click.ClickException(str(error)) from None
    return found
