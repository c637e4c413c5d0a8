"""Text as it comes: a token may be part of a character, and how it reads may depend on the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Pending:
    """shown: the tokens of the last piece of text. waiting: tokens since then, whose last character lacks bytes."""

    shown: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()


def next_piece(tokenizer: PreTrainedTokenizerBase, pending: Pending, token: int) -> tuple[str, Pending]:
    """What can be shown with one token more: all but an unfinished character. Special tokens have no text."""
    pending = Pending(pending.shown, (*pending.waiting, token))
    text = last_piece(tokenizer, pending)
    return ("", pending) if text.endswith(_UNFINISHED) else (text, Pending(pending.waiting))


def last_piece(tokenizer: PreTrainedTokenizerBase, pending: Pending) -> str:
    """What is left when no token follows."""
    whole = _decoded(tokenizer, pending.shown + pending.waiting)
    return whole[len(_decoded(tokenizer, pending.shown)) :]


def _decoded(tokenizer: PreTrainedTokenizerBase, tokens: tuple[int, ...]) -> str:
    return str(tokenizer.decode([*tokens], skip_special_tokens=True, clean_up_tokenization_spaces=False))
