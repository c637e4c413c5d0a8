"""A tiny Llama to record, a folder of it with a tokenizer of words, and questions in these words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["[unk]", "[end]", *(f"w{i}" for i in range(48))]
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
CONFIG = {"anchors": 1, "slots": 3, "beam": 2, "depth": 2, "budget": 5, "support": None, "temperature": "1/2"}
PROMPT = [3, 17, 9, 9, 41]


def tiny_llama(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    # A wide initialisation, since the usual one gives nearly uniform distributions, which round alike.
    config = LlamaConfig(vocab_size=len(WORDS), num_hidden_layers=4, initializer_range=0.5, eos_token_id=1, **SIZES)
    return LlamaForCausalLM(config).train(False)


def write_model(folder: Path, target: Any) -> Path:
    """A model and a tokenizer without a chat template, as transformers saves them."""
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[unk]"))
    words.pre_tokenizer = Whitespace()
    wrap: Any = PreTrainedTokenizerFast
    wrap(tokenizer_object=words, unk_token="[unk]", eos_token="[end]").save_pretrained(folder)
    target.save_pretrained(folder)
    return folder


def write_questions(folder: Path) -> Path:
    folder.mkdir()
    rows = [
        {"question_id": 81, "category": "writing", "turns": ["w3 w4 w5", "again"], "reference": ["x"]},
        {"question_id": "b/7", "category": "", "turns": ["w6\u2028w7"]},
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "question.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return folder


def probabilities(model: Any, ids: list[int]) -> NDArray[np.float64]:
    """One unbatched pass over all positions and a softmax written out: nothing shared with the recorder."""
    with torch.no_grad():
        logits = np.asarray(model(torch.tensor([ids])).logits[0, -1], dtype=np.float64)
    weights = np.exp(logits - logits.max())
    result: NDArray[np.float64] = weights / weights.sum()
    return result
