"""The independent p of emitted text: what an audit needs of any engine that kept what it emitted.

Source of the names of the keys: what vLLM calls them in a request's parameters and outputs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheo.models.drafters import Drafter
from rheo.processors import Processor, chain, min_p, temperature, top_k, top_p
from verify.models.plain import chunks, draft_logits, target_logits
from verify.models.texts import Text
from verify.trace_writer import TraceWriter

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# What changes p by the tokens before, or in ways that are not known here; and the values that change nothing.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1,), "presence_penalty": (0,), "frequency_penalty": (0,), "logit_bias": ({},),
    "typical_p": (1,), "no_repeat_ngram_size": (0,), "min_tokens": (0,), "bad_words": ([],), "guided_decoding": (),
    "structured_outputs": (), "logits_processors": ([],), "allowed_token_ids": (),
}  # fmt: skip

Encode = Callable[[str, bool], Sequence[int]]  # a text, and whether it begins the context -> token ids


class RescoreError(ValueError):
    """Emitted text that cannot be rescored: one line with the file, the line and the reason."""


@dataclass(frozen=True)
class Request:
    """One request. number: its own. temperature: of p and q. process: raw logits into those of p.

    cut: tokens behind the end of the sequence that were left out. retokenised: its tokens were made out of text.
    """

    number: int
    text: Text
    temperature: float
    process: Processor
    cut: int = 0
    retokenised: bool = False


@dataclass(frozen=True)
class Limits:
    """What texts must keep to. vocab: of the target. context: its limit, None for none. least: tokens of a prompt."""

    vocab: int
    context: int | None
    eos: Collection[int] = ()
    least: int = 1


@dataclass
class _Rows:
    """A request while its rows are read. line: the first."""

    line: int
    keys: dict[str, Any] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)


def read(path: Path, encode: Encode, limits: Limits, heat: float = 1.0) -> list[Request]:
    """The requests in a file of JSON lines, without those that emitted nothing.

    A line is a request: `prompt_token_ids` or `prompt`, and `token_ids` or `text`. Or it is a row of a trace that names
    its tokens: `request`, `position` and `token`; any line of a request has its prompt. Optional: `request`,
    `temperature` (heat without), `top_k`, `top_p`, `min_p`. RescoreError; OSError.
    """
    found: dict[int, _Rows] = {}
    for line, values in _objects(path):
        where = f"{path}: line {line}"
        number = _integer(where, "request", values.get("request", line - 1))
        if "token" in values:
            rows = found.setdefault(number, _Rows(line))
            position = _integer(where, "position", values.get("position"))
            if position != len(rows.tokens):
                raise RescoreError(f"{where}: request {number}: position {position}, not {len(rows.tokens)}")
            rows.tokens.append(_integer(where, "token", values["token"]))
            rows.keys |= {key: value for key, value in values.items() if key not in ("token", "position")}
        elif number in found:
            raise RescoreError(f"{where}: request {number} a second time")
        else:
            found[number] = _Rows(line, values)
    requests = [
        _request(f"{path}: line {rows.line}", number, rows, encode, limits, heat) for number, rows in found.items()
    ]
    requests = [request for request in requests if request.text.tokens]
    if not requests:
        raise RescoreError(f"{path}: no emitted tokens")
    return requests


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file and their lines; a trace's first line, which states its order, is passed over."""
    with path.open("rb") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                values = json.loads(text.decode())
            except (ValueError, RecursionError) as error:
                raise RescoreError(f"{path}: line {line}: broken JSON: {error}") from None
            if not isinstance(values, dict):
                raise RescoreError(f"{path}: line {line}: not an object")
            if set(values) != {"order"}:
                yield line, values


def _request(where: str, number: int, rows: _Rows, encode: Encode, limits: Limits, heat: float) -> Request:
    keys = rows.keys
    prompt = _tokens(where, keys, "prompt_token_ids", "prompt", lambda text: encode(text, True))
    if rows.tokens and ("token_ids" in keys or "text" in keys):
        raise RescoreError(f"{where}: request {number} has rows, and token_ids or text beside them")
    emitted = rows.tokens or _tokens(where, keys, "token_ids", "text", lambda text: encode(text, False))
    if len(prompt) < limits.least:
        raise RescoreError(f"{where}: a prompt of {len(prompt)} tokens, at least {limits.least} are needed")
    unknown = [token for token in (*prompt, *emitted) if not 0 <= token < limits.vocab]
    if unknown:
        raise RescoreError(f"{where}: token {unknown[0]} is outside 0..{limits.vocab - 1}")
    ends = [place for place, token in enumerate(emitted) if token in limits.eos]
    kept = emitted[: ends[0] + 1] if ends else emitted
    if limits.context is not None and len(prompt) + len(kept) > limits.context:
        raise RescoreError(f"{where}: {len(prompt) + len(kept)} tokens, the target's context ends at {limits.context}")
    warmth, process = _processing(where, keys, heat)
    retokenised = not rows.tokens and "token_ids" not in keys
    return Request(number, Text(tuple(prompt), tuple(kept)), warmth, process, len(emitted) - len(kept), retokenised)


def _tokens(where: str, keys: Mapping[str, Any], ids: str, text: str, encode: Callable[[str], Sequence[int]]) -> Any:
    """The token ids under one key, else those of the text under another."""
    if ids in keys:
        given = keys[ids]
        if not isinstance(given, list):
            raise RescoreError(f"{where}: {ids} is not a list")
        return [_integer(where, ids, token) for token in given]
    if not isinstance(keys.get(text), str):
        raise RescoreError(f"{where}: neither {ids} nor {text}")
    return list(encode(keys[text]))


def _processing(where: str, keys: Mapping[str, Any], heat: float) -> tuple[float, Processor]:
    """The temperature and what makes p, in the order of transformers: temperature, top-k, top-p, min-p."""
    for key, neutral in _REFUSED.items():
        if keys.get(key) is not None and keys[key] not in neutral:
            raise RescoreError(f"{where}: {key}: p under it is not known; only temperature, top_k, top_p and min_p are")

    def number(key: str, default: float) -> float:
        value = keys.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RescoreError(f"{where}: {key} is not a number: {value!r}")
        return value

    warmth, most = number("temperature", heat), number("top_k", 0)
    if most != int(most):
        raise RescoreError(f"{where}: top_k is not an integer: {most}")
    try:
        processors = [temperature(warmth)]
        if most not in (0, -1):  # both stand for all tokens
            processors.append(top_k(int(most)))
        return warmth, chain(*processors, top_p(number("top_p", 1)), min_p(number("min_p", 0)))
    except ValueError as error:
        raise RescoreError(f"{where}: {error}") from None


def _integer(where: str, key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RescoreError(f"{where}: {key} is not an integer: {value!r}")
    return value


def rescore(
    path: Path, requests: Sequence[Request], model: PreTrainedModel, drafter: Drafter | None, order: str
) -> Generator[int, None, None]:
    """Write the trace, and yield how many tokens are done; the file appears with the last of them, or never.

    model: in float32. drafter: whose q comes with it. Errors as `TraceWriter`.
    """
    partial = path.with_name(f".{path.stem[:100]}.{os.getpid()}.part{path.suffix}")
    done, waiting = 0, iter(requests)
    try:
        with TraceWriter(partial, order) as trace:
            for texts in chunks([request.text for request in requests], model.config.get_text_config().vocab_size):
                laws = target_logits(model, texts)
                drafted = [None] * len(texts) if drafter is None else draft_logits(drafter, model, texts)
                for request, logits, q in zip(islice(waiting, len(texts)), laws, drafted, strict=True):
                    size = len(request.text.tokens)
                    trace.add(
                        request.process(logits),
                        list(request.text.tokens),
                        q_logits=None if q is None else temperature(request.temperature)(q),
                        requests=[request.number] * size,
                        positions=list(range(size)),
                    )
                    done += size
                    yield done
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
