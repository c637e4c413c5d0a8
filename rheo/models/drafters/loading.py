"""A drafter by name: an EAGLE-3 head, another language model, or the target without its last layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rheo import calibration
from rheo.models.drafters import Drafter
from rheo.models.drafters.eagle3 import Eagle3
from rheo.models.drafters.eagle3_files import checkpoint_file, load_head, read_config
from rheo.models.drafters.language_model import LanguageModel
from rheo.models.layer_skip import skip_last_layers
from rheo.models.smollm2 import ModelError, load_target

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CALIBRATION = "calibration.json"
SHIPPED = Path(__file__).parent.parent / "heads"


def load_drafter(name: str, target: PreTrainedModel, dtype: torch.dtype = torch.float32) -> Drafter:
    """The drafter for a target, on its device.

    name: "smollm2" (the head that is shipped for it), "skip:COUNT" (the target without its last layers), or a folder
    or hub name, of an EAGLE-3 head where its config.json has a draft_vocab_size or says Eagle, else of a causal
    language model with the target's tokenizer. A head's calibration.json beside its config.json comes with it.
    dtype: of the drafter's weights. ModelError if it cannot be loaded or does not fit the target.
    """
    if name.startswith("skip:"):
        count = name.removeprefix("skip:")
        if not count.isdecimal():
            raise ModelError(f"draft {name}: skip:COUNT takes the number of layers to leave out")
        return LanguageModel(skip_last_layers(target, int(count)))
    source = head_source(name)
    if _is_head(source):
        return Eagle3(load_head(source, dtype), target, _calibration_of(source))
    model, _ = load_target(source, dtype, target.device)
    known, wanted = (each.config.get_text_config().vocab_size for each in (model, target))
    if known < wanted:
        raise ModelError(f"draft {name} knows {known} tokens, the target {wanted}: not the same tokenizer")
    return LanguageModel(model)


def head_source(name: str) -> str:
    """The folder of a shipped head, else the name itself."""
    return str(SHIPPED / name) if (SHIPPED / name / "config.json").is_file() else name


def _calibration_of(source: str) -> calibration.AnyCalibration | None:
    path = checkpoint_file(source, CALIBRATION)
    try:
        return None if path is None else calibration.read(path)
    except ValueError as error:
        raise ModelError(str(error)) from error


def _is_head(source: str) -> bool:
    path = checkpoint_file(source, "config.json")
    if path is None:
        raise ModelError(f"{source}: no config.json")
    config = read_config(path)
    return "draft_vocab_size" in config or any(
        "eagle" in str(name).lower() for name in config.get("architectures") or ()
    )
