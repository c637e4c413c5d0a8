"""Prompts to train on: user turns that the target makes up itself, and functions of Python's library to complete.

None may share a run of words with a prompt that the head is measured on.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rheo.models.prompts import chat_ids
from rheo.training.decoding import sample_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RUN = 8  # words in a row that two prompts may not have in common
_TURN_TOKENS = 56
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


def training_prompts(
    model: PreTrainedModel, tokenizer: Any, count: int, eos: Collection[int], seed: int, functions: Sequence[str]
) -> list[str]:
    """`count` prompts: a share of the functions, drawn from them, and for the rest turns sampled at T = 1."""
    choose = random.Random(seed)
    heads = choose.sample(functions, min(len(functions), round(_CODE_SHARE * count)))
    beginnings = choose.choices(_BEGINNINGS, k=count - len(heads))
    starts = [_turn_start(tokenizer, beginning) for beginning in beginnings]
    generator = torch.Generator(model.device).manual_seed(seed)
    texts = sample_texts(model, starts, [1.0] * len(starts), _TURN_TOKENS, eos, generator)
    turns = [
        (beginning + tokenizer.decode(text.tokens[text.given :], skip_special_tokens=True)).strip()
        for beginning, text in zip(beginnings, texts, strict=True)
    ]
    prompts = [*heads, *turns]
    choose.shuffle(prompts)
    return prompts


def disjoint(prompts: Iterable[str], forbidden: Collection[tuple[str, ...]]) -> list[str]:
    """Those of at least three words, none of whose word runs is forbidden."""
    return [prompt for prompt in prompts if len(prompt.split()) >= 3 and word_runs(prompt).isdisjoint(forbidden)]


def _turn_start(tokenizer: Any, beginning: str) -> list[int]:
    """Token ids of a conversation up to the first words of the user's message; those words alone without a template."""
    if not tokenizer.chat_template:
        return chat_ids(tokenizer, beginning or "\n")
    message = [{"role": "user", "content": _MARK}]
    before = tokenizer.apply_chat_template(message, tokenize=False).split(_MARK)[0]
    return list(tokenizer(before + beginning, add_special_tokens=False)["input_ids"])


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
