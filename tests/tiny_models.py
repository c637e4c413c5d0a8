"""Random models small enough for one core, a drafter of each kind for them, and what a forward without a cache says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from rheo.config import Config
from rheo.models.cache import TreeCache, keep
from rheo.models.drafters import Drafter
from rheo.models.drafters.eagle3 import Eagle3
from rheo.models.drafters.eagle3_files import load_head
from rheo.models.drafters.eagle3_head import Eagle3Head, HeadShape
from rheo.models.drafters.language_model import LanguageModel
from rheo.models.layer_skip import skip_last_layers
from rheo.tree import Tree
from verify.benchmark.texts import Models

VOCAB, DRAFT_VOCAB = 48, 30
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,  # the usual one gives nearly uniform distributions
    "eos_token_id": None,
}
CONFIG = Config(anchors=1, slots=4, beam=3, depth=4, budget=12, support=16)
PROMPTS = [[3, 17, 9, 9, 41], [7], [5, 1, 30, 22, 8, 44, 6, 2, 11]]
LONGER = [[4, *prompt] for prompt in PROMPTS]  # an EAGLE-3 head reads pairs


def tiny_target(layers: int = 8) -> Any:
    """A Llama whose last layers change little, so that a draft without them is a good one: overlap 0.6, 1.9 nats."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, **SIZES)).train(False)
    with torch.no_grad():
        for layer in model.model.layers[3:]:
            layer.self_attn.o_proj.weight *= 0.4
            layer.mlp.down_proj.weight *= 0.4
        model.lm_head.weight *= 1.5
    return model


def small_draft() -> Any:
    """A model of its own, which knows nothing of the target."""
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **SIZES)).train(False)


def skipping(target: Any) -> LanguageModel:
    return LanguageModel(skip_last_layers(target, len(target.model.layers) - 3))


def tiny_pair() -> Models:
    """The tiny target and the draft that skips its layers, as a benchmark takes them."""
    target = tiny_target()
    return Models(target, skipping(target))


def head_tensors(draft_vocab: int = DRAFT_VOCAB) -> dict[str, Tensor]:
    """A random head for `tiny_target`, named and laid out as the official ones."""
    torch.manual_seed(2)
    shape = HeadShape(32, 96, 48, 4, 2, 8, VOCAB, draft_vocab, 1e-5, 10_000.0, 1.0)
    tensors = Eagle3Head(shape).state_dict()
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensors[name] = torch.randn_like(tensor) * 0.3 if tensor.ndim > 1 else torch.rand_like(tensor) + 0.5
    if draft_vocab != VOCAB:
        known = torch.randperm(VOCAB)[:draft_vocab].sort().values
        tensors["d2t"] = known - torch.arange(draft_vocab)
        tensors["t2d"][known] = True
    return tensors


def write_head(folder: Path, tensors: dict[str, Any], name: str = "pytorch_model.bin", **settings: Any) -> Path:
    """A checkpoint in the official layout; settings replace those of config.json, None removes one."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: SIZES[key] for key in SIZES if key not in ("initializer_range", "eos_token_id")}
    config |= {"num_hidden_layers": 1, "draft_vocab_size": DRAFT_VOCAB, "rms_norm_eps": 1e-5, "bias": False} | settings
    present = {key: value for key, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(present))
    if name.endswith(".bin"):
        torch.save(tensors, folder / name)
    else:
        from safetensors.torch import save_file

        save_file(tensors, folder / name)
    return folder


def drafters(target: Any, folder: Path) -> dict[str, Drafter]:
    """One of each kind."""
    return {
        "model": LanguageModel(small_draft()),
        "layers": skipping(target),
        "eagle3": Eagle3(load_head(str(write_head(folder, head_tensors()))), target),
    }


@torch.inference_mode()
def full_logits(model: Any, sequences: Sequence[Sequence[int]]) -> list[Tensor]:
    """Logits [length, V] of every sequence from one forward without cache, mask or positions of ours."""
    longest = max(map(len, sequences))
    rows = torch.tensor([[*sequence, *[0] * (longest - len(sequence))] for sequence in sequences])
    logits = model(rows, use_cache=False).logits  # causal: what stands behind a sequence does not reach it
    return [row[: len(sequence)] for row, sequence in zip(logits, sequences, strict=True)]


def node_paths(tree: Tree, request: int) -> dict[int, list[int]]:
    """The tokens from the root to every row of a tree, the root included."""
    paths: dict[int, list[int]] = {0: []}
    for node, (token, parent) in enumerate(
        zip(tree.tokens[request].tolist(), tree.parents[request].tolist(), strict=True)
    ):
        if tree.occupied[request, node]:
            paths[node + 1] = [*paths[parent], token]
    return paths


def keep_a_stale_row(cache: TreeCache, columns: Tensor, counts: Tensor) -> TreeCache:
    """As `keep`, but the last column that is kept of a drafted token is its neighbour in the tree."""
    if cache.width == 0:  # the prompt is read well
        return keep(cache, columns, counts)
    last = (counts - 1).unsqueeze(-1)
    kept = columns.gather(1, last)
    return keep(cache, columns.scatter(1, last, torch.where(last > 0, kept % CONFIG.budget + 1, kept)), counts)
