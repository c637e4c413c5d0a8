"""Options and loading that every command on full models shares."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reference.methods import METHODS  # rheo.methods has the same, and waits for torch
from rheo import calibration
from rheo.cli.options import Within
from rheo.config import LEAST_TEMPERATURE, TREE_KEYS, Config, ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from rheo.models.drafters import Drafter

DTYPES = ("float32", "bfloat16", "float16")
TEMPERATURE = Within(0, 1 / LEAST_TEMPERATURE)
METHOD = click.Choice(tuple(METHODS))
DEFAULT_METHOD = "  [default: adaptive-transport where slots are calibrated, else rheo-transport]"


@dataclass(frozen=True)
class Loaded:
    """A target, its tokenizer, and a drafter for it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    drafter: Drafter


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--target, --draft, --dtype, --device."""
    options = (
        click.option("--target", default="smollm2", show_default=True, help="smollm2, a model folder or a hub name."),
        click.option(
            "--draft",
            default="smollm2",
            show_default=True,
            help="smollm2 (the EAGLE-3 head shipped for it), skip:COUNT (the target without its last layers), or the "
            "folder or hub name of an EAGLE-3 head or of a smaller language model.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(DTYPES),
            default=DTYPES[0],
            show_default=True,
            help="Of all weights. Lossless to more than a few percent means float32.",
        ),
        click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, ..."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def tree_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`shape_options` and --calibration."""
    option = click.option(
        "--calibration",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="What slots are worth to calibrated methods, a file of rheo calibrate.  [default: the drafter's own]",
    )
    return shape_options(option(command))


def shape_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--anchors, --slots, --beam, --depth, --budget, --support: the paper's values unless given."""
    for key in reversed(TREE_KEYS):
        default = getattr(Config, key)
        command = click.option(f"--{key}", type=int, default=default, show_default=True)(command)
    return command


def tree_config(temperature: float, settings: dict[str, Any]) -> Config:
    """The configuration those options name; a click.UsageError naming the one outside its domain."""
    given: Path | None = settings["calibration"]
    try:
        known = None if given is None else calibration.read(given)
        return Config(temperature=temperature, calibration=known, **{key: settings[key] for key in TREE_KEYS})
    except ConfigError as error:
        raise click.UsageError(f"--{error.key}: {error.reason}") from None
    except ValueError as error:
        raise click.UsageError(f"--calibration: {error}") from None


def load(target: str, draft: str, dtype: str, device: str) -> Loaded:
    """Load both; a click.ClickException, one line, for whatever is missing or does not fit."""
    model, tokenizer, drafter = load_only(target, draft, device, dtype)
    assert drafter is not None
    return Loaded(model, tokenizer, drafter)


def load_only(
    target: str, draft: str | None, device: str, dtype: str = DTYPES[0]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, Drafter | None]:
    """As `load`, where a drafter may not be wanted."""
    import torch

    from rheo.models.drafters.loading import load_drafter
    from rheo.models.smollm2 import ModelError, load_target

    quieten_transformers()
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError) as error:
        raise click.UsageError(f"--device {device}: {str(error).splitlines()[0]}") from None
    kind = getattr(torch, dtype)
    try:
        model, tokenizer = load_target(target, kind, where)
        return model, tokenizer, None if draft is None else load_drafter(draft, model, kind)
    except (ModelError, OSError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error


def quieten_transformers() -> None:
    """Keep the libraries' own bars and advice out of a command that has a bar and one-line errors."""
    if find_spec("transformers") is None:
        return
    import transformers

    library: Any = transformers.utils.logging
    library.set_verbosity_error()
    library.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
