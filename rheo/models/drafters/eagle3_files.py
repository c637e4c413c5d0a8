"""Reading EAGLE-3 checkpoints: config.json and model.safetensors or pytorch_model.bin, strictly.

Tensors alone are read: a file that holds code is refused, not run.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rheo.models.drafters.eagle3_head import Eagle3Head, HeadShape
from rheo.models.smollm2 import ModelError, require_libraries

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def load_head(source: str, dtype: torch.dtype = torch.float32) -> Eagle3Head:
    """The head in a folder or under a hub name, in evaluation mode.

    Of a folder with both weight files the safetensors one is read.
    ModelError, one line, naming the file and what is missing, unknown, misshapen or not a tensor.
    """
    require_libraries(source)
    config = checkpoint_file(source, "config.json")
    if config is None:
        raise ModelError(f"{source}: no config.json")
    path = next((found for name in _WEIGHTS if (found := checkpoint_file(source, name)) is not None), None)
    if path is None:
        raise ModelError(f"{source}: neither {' nor '.join(_WEIGHTS)}")
    tensors = _tensors(path)
    head = Eagle3Head(_shape(config, embeds="embed_tokens.weight" in tensors))
    _require_fit(path, tensors, head.state_dict())
    head.load_state_dict(tensors)
    if head.shape.draft_vocab != head.shape.vocab:
        _require_vocabulary(path, tensors["d2t"], tensors["t2d"])
    return head.to(dtype).requires_grad_(False).train(False)


def checkpoint_file(source: str, name: str) -> Path | None:
    """A file of a folder, else of a repository on the hub; None if there is none."""
    if Path(source).is_dir():
        path = Path(source) / name
        return path if path.is_file() else None
    from transformers.utils.hub import cached_file

    try:
        found = cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    except Exception as error:  # offline, refused, no such repository: each with a family of its own
        raise ModelError(f"cannot load {source}: {_first_line(error)}") from error
    return None if found is None else Path(found)


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(f"{path}: damaged, or holds pickled code; nothing but tensors is read") from error
    except (OSError, EOFError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{path}: {_first_line(error)}") from error
    if not isinstance(loaded, Mapping) or not all(isinstance(tensor, Tensor) for tensor in loaded.values()):
        raise ModelError(f"{path}: not a dictionary of tensors")
    return dict(loaded)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _require_fit(path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """ModelError naming the first tensor that is missing, unknown, misshapen or of the wrong kind."""
    for name, wanted in expected.items():
        if name not in tensors:
            raise ModelError(f"{path}: tensor {name} is missing")
        given = tensors[name]
        if given.shape != wanted.shape:
            raise ModelError(f"{path}: tensor {name} is {list(given.shape)}, expected {list(wanted.shape)}")
        # Weights may be of any float type; the two tables of the vocabulary are what they are.
        if given.is_floating_point() != wanted.is_floating_point():
            raise ModelError(f"{path}: tensor {name} holds {given.dtype}, expected {wanted.dtype}")
    unknown = sorted(set(tensors) - set(expected))
    if unknown:
        raise ModelError(f"{path}: unknown tensor {unknown[0]}")


def _require_vocabulary(path: Path, d2t: Tensor, t2d: Tensor) -> None:
    """ModelError unless d2t leads to distinct tokens of the target, those that t2d marks."""
    known = (torch.arange(len(d2t)) + d2t).sort().values
    if not torch.equal(known, t2d.nonzero().squeeze(-1)):
        raise ModelError(f"{path}: d2t and t2d do not name the same {len(d2t)} tokens of the target")


def read_config(path: Path) -> dict[str, Any]:
    """The object in a config.json; ModelError if there is none."""
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: not an object")
    return config


def _shape(path: Path, embeds: bool) -> HeadShape:
    config = read_config(path)

    def integer(key: str, default: int | None = None) -> int:
        value = config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ModelError(f"{path}: {key} must be a positive integer, got {value!r}")
        return value

    if integer("num_hidden_layers", 1) != 1 or config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"{path}: an EAGLE-3 head has one layer with silu")
    hidden, heads, vocab = integer("hidden_size"), integer("num_attention_heads"), integer("vocab_size")
    theta, factor = _rope(path, config)
    return HeadShape(
        hidden=hidden,
        features=3 * integer("target_hidden_size", hidden),
        inner=integer("intermediate_size"),
        heads=heads,
        kv_heads=integer("num_key_value_heads", heads),
        head_dim=integer("head_dim", hidden // heads),
        vocab=vocab,
        draft_vocab=integer("draft_vocab_size", vocab),
        eps=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=theta,
        rope_factor=factor,
        embeds=embeds,
    )


def _rope(path: Path, config: Mapping[str, Any]) -> tuple[float, float]:
    """The base of the rotary positions and what divides them."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ("default", "linear"):
        raise ModelError(f"{path}: rotary positions of type {kind} are not supported")
    theta = config.get("rope_theta", scaling.get("rope_theta", 10_000.0))
    return float(theta), float(scaling.get("factor", 1.0))
