"""The tiny target with a tokenizer, in a folder as commands load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from tests.tiny_models import VOCAB, tiny_target


def words(*tokens: int) -> str:
    """A text of these tokens."""
    return " ".join(f"w{token}" for token in tokens)


def write_target(folder: Path) -> Path:
    """Token i is the word "wi"; every other word is token 0."""
    tokenizer = Tokenizer(WordLevel({f"w{token}": token for token in range(VOCAB)}, unk_token="w0"))
    tokenizer.pre_tokenizer = Whitespace()
    wrapped: Any = PreTrainedTokenizerFast
    wrapped(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)
    tiny_target().save_pretrained(folder)
    return folder
