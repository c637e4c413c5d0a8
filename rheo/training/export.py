"""A trained head as a checkpoint in the official layout, with the record of how it was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from rheo.files import write_text
from rheo.models.drafters.eagle3_files import checkpoint_file, read_config
from rheo.models.drafters.eagle3_head import Eagle3Head


def save_head(folder: Path, head: Eagle3Head, record: dict[str, Any]) -> None:
    """config.json, model.safetensors in half precision, and record.json; the folder is made."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    shape = head.shape
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "target_hidden_size": shape.features // 3,
        "intermediate_size": shape.inner,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "draft_vocab_size": shape.draft_vocab,
        "rms_norm_eps": shape.eps,
        "rope_theta": shape.rope_theta,
        "bias": False,
        "torch_dtype": "float16",
    }
    tensors = {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous().cpu()
        for name, tensor in head.state_dict().items()
    }
    scratch = folder / "model.part"
    save_file(tensors, scratch, metadata={"format": "pt"})
    scratch.replace(folder / "model.safetensors")
    write_text(folder / "config.json", json.dumps(config, indent=1) + "\n")
    write_text(folder / "record.json", json.dumps(record, indent=1) + "\n")


def parameters(head: torch.nn.Module) -> int:
    """How many numbers were trained or may be."""
    return sum(weight.numel() for weight in head.parameters())


def record_of(source: str) -> dict[str, Any] | str:
    """The record that lies beside a head, or its name where none does; ModelError if it cannot be read."""
    path = checkpoint_file(source, "record.json")
    return source if path is None else read_config(path)
