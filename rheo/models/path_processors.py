"""Processors that look at the tokens before: each node of a tree is processed with its own prefix.

They are called as transformers calls a LogitsProcessor, and on what it calls them on: raw logits in float32, before
temperature and what truncates. Where transformers would never call one, it is not called here either: behind a token
that the processors rule out, behind the end of the text, and where no further token is wanted.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rheo.tree import Tree
from rheo.truncation import widened

# prefixes int64 [n, L] of one length and scores [n, V] -> scores [n, V]: each row by its own prefix alone, the same
# answer whenever it is asked.
PathProcessor = Callable[[Tensor, Tensor], Tensor]

_REFUSED = {
    "UnbatchedClassifierFreeGuidanceLogitsProcessor": "it runs the model over a text of its own, token by token",
    "ClassifierFreeGuidanceLogitsProcessor": "it mixes the rows of a batch",
    "DiaClassifierFreeGuidanceLogitsProcessor": "it mixes the rows of a batch",
    "DiaEOSDelayPatternLogitsProcessor": "it remembers what it was called with",
    "SynthIDTextWatermarkLogitsProcessor": "it remembers what it was called with",
    "WhisperNoSpeechDetection": "it remembers what it was called with",
    "EncoderRepetitionPenaltyLogitsProcessor": "it holds the rows of a batch",
    "EncoderNoRepeatNGramLogitsProcessor": "it holds the rows of a batch",
}


@dataclass(frozen=True)
class PathProcessors:
    """What processes the logits of one request, in order.

    prefix: what processors see in front of the first new token; the prompt, unless it was padded for them.
    """

    processors: tuple[PathProcessor, ...]
    prefix: tuple[int, ...]


def path_processors(processors: Sequence[PathProcessor], prefixes: Sequence[Sequence[int]]) -> list[PathProcessors]:
    """The same processors for every request. ValueError naming one that cannot be evaluated on a tree."""
    for processor in processors:
        _require_pure(processor)
    return [PathProcessors(tuple(_of_row(p, row) for p in processors), tuple(x)) for row, x in enumerate(prefixes)]


@torch.inference_mode()
def process_trees(
    chains: Sequence[Sequence[PathProcessor]],
    prefixes: Sequence[Sequence[int]],
    wanted: Sequence[int],
    eos: Sequence[Collection[int]],
    tree: Tree,
    logits: Tensor,
) -> Tensor:
    """The logits [N, R + 1, V] of a tree's rows, each row processed by its request's chain with its own prefix.

    prefixes: of the roots, one a request. wanted: how many more tokens each request may emit. eos: what ends it.
    ValueError naming a processor that answers the same prefix differently once it was asked for others.
    """
    scores = widened(logits).clone()
    for request, (chain, prefix, more, end) in enumerate(zip(chains, prefixes, wanted, eos, strict=True)):
        if chain:
            root = torch.tensor([list(prefix)], device=logits.device)
            ends = torch.tensor(sorted(end), dtype=torch.int64, device=logits.device)
            _process_tree(chain, root, more, ends, tree, request, scores[request])
    return scores


def _process_tree(
    chain: Sequence[PathProcessor], root: Tensor, wanted: int, ends: Tensor, tree: Tree, request: int, scores: Tensor
) -> None:
    """Process scores [R + 1, V] of one request in place, depth by depth: there prefixes are equally long."""
    tokens, parents, depths = tree.tokens[request], tree.parents[request], tree.depths[request]
    raw = scores[:1].clone()
    first = _answers(chain, root, raw.clone())
    rows, prefixes, answer = torch.zeros_like(root[0, :1]), root, first[-1]
    for depth in range(1, wanted + 1):  # of the nodes that are asked for next
        scores[rows] = answer
        place = torch.full((len(scores),), -1, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        possible = tree.occupied[request] & (place[parents] >= 0) & (scores[parents, tokens] > -torch.inf)
        nodes = (possible & (depths == depth) & ~torch.isin(tokens, ends)).nonzero().squeeze(-1)
        if depth == wanted or not len(nodes):
            break
        prefixes = torch.cat([prefixes[place[parents[nodes]]], tokens[nodes].unsqueeze(-1)], 1)
        rows = nodes + 1
        answer = _answers(chain, prefixes, scores[rows])[-1]
    for processor, before, now in zip(chain, first, _answers(chain, root, raw), strict=True):
        if not torch.allclose(before, now, rtol=1e-4, atol=1e-5, equal_nan=True):
            reason = "it answers the same prefix differently after others, so it remembers or draws something"
            raise ValueError(f"{_name(processor)} cannot be evaluated on a tree: {reason}")


def _answers(chain: Sequence[PathProcessor], prefixes: Tensor, scores: Tensor) -> list[Tensor]:
    """The scores behind each processor; what a processor does to its arguments does not show in them."""
    answers = []
    for processor in chain:
        scores = processor(prefixes.clone(), scores)
        answers.append(scores.clone())
    return answers


def _require_pure(processor: Any) -> None:
    for known in (base.__name__ for base in type(processor).__mro__):
        if known in _REFUSED:
            raise ValueError(f"{_name(processor)} cannot be evaluated on a tree: {_REFUSED[known]}")
    try:
        inspect.signature(processor).bind(None, None)
    except TypeError:
        raise ValueError(f"{_name(processor)} is not called with prefixes and scores alone") from None


def _of_row(processor: Any, row: int) -> Any:
    """A processor that treats the rows of a batch differently, as it treats this one."""
    from transformers import PrefixConstrainedLogitsProcessor, RepetitionPenaltyLogitsProcessor

    twin = copy.copy(processor)
    if isinstance(twin, RepetitionPenaltyLogitsProcessor) and isinstance(twin.prompt_ignore_length, Tensor):
        twin.prompt_ignore_length = int(twin.prompt_ignore_length[row])
    elif isinstance(twin, PrefixConstrainedLogitsProcessor):
        allowed, index = twin._prefix_allowed_tokens_fn, row // twin._num_beams
        twin._num_beams, twin._prefix_allowed_tokens_fn = 1, lambda _, prefix: allowed(index, prefix)
    else:
        return processor
    return twin


def _name(processor: Any) -> str:
    return str(getattr(processor, "__name__", type(processor).__name__))
