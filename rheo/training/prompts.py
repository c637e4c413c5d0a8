"""Where texts to train on begin: users' turns that the target makes up itself, and functions of Python's library.

No text may share a run of words with a prompt that the head is measured on.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheo.models.causal import eos_tokens
from rheo.models.prompts import chat_ids
from rheo.training.decoding import Turns

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RUN = 8  # words in a row that two prompts may not have in common
_CODE_SHARE = 0.3
_CODE_CHARACTERS = (60, 600)
_MARK = "\u2063"  # stands where a user's message begins; no template holds it

# How a user's turn may begin: the target alone would ask about few things. An empty beginning leaves it the choice.
_BEGINNINGS = (
    *[""] * 12,
    "Write a", "Write a short story about", "Write an email to", "Write a Python function that", "Write a poem",
    "Compose", "Draft a", "Describe", "Describe how", "Explain", "Explain why", "Explain the difference between",
    "What is", "What are the", "What would happen if", "Why do", "How do I", "How can", "How does", "Who was",
    "Give me", "List", "Summarize", "Translate", "Rewrite", "Edit the following paragraph", "Classify",
    "Extract", "Given the following", "Read the passage below and", "Imagine you are", "Pretend to be", "Act as",
    "You are a", "Suppose", "If", "Find the", "Calculate", "Solve", "Prove that", "Let x be", "A store sells",
    "The sum of", "Implement", "Create a", "Design", "Develop a", "Build", "Compare", "Discuss", "Analyze",
    "Evaluate", "Suggest", "Recommend", "Plan a", "In the field of", "What does the following code do?",
    "Can you", "Could you help me", "I want to", "I need", "My", "Tell me about", "Is it true that", "Which",
)  # fmt: skip


def library_functions() -> list[str]:
    """Heads of functions of Python's own library, up to the end of their docstrings, in a fixed order."""
    folder = Path(sysconfig.get_path("stdlib"))
    skipped = ("test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo")
    paths = sorted(path for path in folder.rglob("*.py") if not set(path.relative_to(folder).parts) & set(skipped))
    return [head for path in paths for head in _heads(path)]


def word_runs(text: str) -> set[tuple[str, ...]]:
    """Every run of `RUN` words of a text, case and punctuation aside; a shorter text is one run."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + RUN]) for i in range(max(1, len(words) - RUN + 1))} if words else set()


@dataclass(frozen=True)
class Start:
    """Where a conversation begins. ids: token ids. asked: whether the user's first turn is complete."""

    ids: list[int]
    asked: bool


def training_starts(tokenizer: Any, count: int, seed: int, functions: Sequence[str]) -> list[Start]:
    """`count` starts, shorter ones first: functions to complete, and turns of a user of which the first words stand."""
    choose = random.Random(seed)
    heads = choose.sample(functions, min(len(functions), round(_CODE_SHARE * count)))
    beginnings = choose.choices(_BEGINNINGS, k=count - len(heads))
    starts = [Start(chat_ids(tokenizer, head), asked=True) for head in heads]
    starts += [Start(_turn_start(tokenizer, beginning), asked=False) for beginning in beginnings]
    return sorted(starts, key=lambda start: len(start.ids))


def turns_of(tokenizer: Any, model: PreTrainedModel) -> Turns:
    """What stands between the turns of a conversation; nothing but the end of a text without a template."""
    ends = eos_tokens(model)
    if not tokenizer.chat_template:
        return Turns(ends, ((), ()))
    parts = _conversation(tokenizer, ("user", "assistant", "user"))
    between = [list(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in parts[1:3]]
    # The turn's last token was sampled already.
    behind = [tuple(ids[1:] if ids and ids[0] in ends else ids) for ids in between]
    return Turns(ends, (behind[0], behind[1]))


def opening_tokens(tokenizer: Any) -> int:
    """How many tokens all conversations begin with."""
    return len(_turn_start(tokenizer, ""))


def shares_words(text: str, forbidden: Collection[tuple[str, ...]]) -> bool:
    """Whether any run of `RUN` words of the text is forbidden."""
    return not word_runs(text).isdisjoint(forbidden)


def _turn_start(tokenizer: Any, beginning: str) -> list[int]:
    """Token ids of a conversation up to the first words of the user's message; those words alone without a template."""
    if not tokenizer.chat_template:
        return chat_ids(tokenizer, beginning) or [tokenizer.bos_token_id or 0]
    before = _conversation(tokenizer, ("user",))[0]
    return list(tokenizer(before + beginning, add_special_tokens=False)["input_ids"])


def _conversation(tokenizer: Any, roles: Sequence[str]) -> list[str]:
    """What a template writes before, between and behind the messages of these roles."""
    messages = [{"role": role, "content": _MARK} for role in roles]
    written: str = tokenizer.apply_chat_template(messages, tokenize=False)
    return written.split(_MARK)


def _heads(path: Path) -> Iterator[str]:
    try:
        source = path.read_text()
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError):
        return
    lines = source.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or ast.get_docstring(node) is None:
            continue
        rows = lines[node.lineno - 1 : node.body[0].end_lineno]
        head = "\n".join(row[node.col_offset :] for row in rows) + "\n"
        if _CODE_CHARACTERS[0] <= len(head) <= _CODE_CHARACTERS[1]:
            yield head
