"""Case files out of real models: what a target and a draft say after one prompt, on a small vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor, nn

# Called once per context, in order of recording: its key ("", "0", "0,2", ...), the true id of each local id.
OnContext = Callable[[str, list[int]], None]


def context_count(vocab: int, depth: int) -> int:
    """Contexts of a recording: the prefixes of 0..depth local tokens."""
    total: int = depth + 1 if vocab == 1 else (vocab ** (depth + 1) - 1) // (vocab - 1)
    return total


def record(
    target: nn.Module,
    draft: nn.Module,
    prefix_ids: Sequence[int],
    vocab: int,
    config: Mapping[str, Any],
    *,
    scale: int = 1000,
    batch_size: int = 16,
    on_context: OnContext | None = None,
) -> dict[str, Any]:
    """The case document of a pair of models after a prompt.

    target, draft: causal language models of transformers, in evaluation mode, called with input_ids int64
        [n, t] for logits float [n, 1, tokens].
    prefix_ids: true token ids of the prompt, at least one.
    vocab: V, tokens kept at each context: the likeliest under (p + q) / 2, of equal ones the lower true ids.
        Local ids follow the true ids, so that a local id says nothing about the rank.
    config: the case's settings, copied into the document; its `depth` is the longest prefix of local tokens.
    scale: what each row of V renormalised probabilities, rounded to integers, sums to, more or less; a token
        may round to a true 0.
    batch_size: rows of one forward pass. Every context is run in full, so no stale cache can enter.
    Raises ValueError if the arguments make no recording or a model returns what is no distribution.
    """
    depth = int(config["depth"])
    if vocab < 1 or depth < 0 or not prefix_ids:
        raise ValueError("need at least one token kept, no negative depth, and at least one prompt token")
    if scale < vocab:  # the likeliest token then has at least 1 of `scale`, so no row is all zeros
        raise ValueError(f"scale must be at least the number of tokens kept ({vocab}), got {scale}")
    rows: dict[str, dict[str, list[int]]] = {"p": {}, "q": {}}
    level = torch.tensor([list(prefix_ids)])  # true ids [V**length, t + length], lexicographic in local ids
    for length in range(depth + 1):
        kept: list[Tensor] = []
        names = (",".join(map(str, local)) for local in product(range(vocab), repeat=length))
        for start in range(0, len(level), batch_size):
            contexts = level[start : start + batch_size]
            keys = list(islice(names, len(contexts)))
            p, q = _log_probabilities(target, contexts, keys), _log_probabilities(draft, contexts, keys)
            tokens = _likeliest(p, q, vocab)
            kept.append(tokens)
            rows["p"] |= zip(keys, _weights(p, tokens, scale, keys), strict=True)
            rows["q"] |= zip(keys, _weights(q, tokens, scale, keys), strict=True)
            for key, true_ids in zip(keys, tokens.tolist(), strict=True):
                if on_context is not None:
                    on_context(key, true_ids)
        if length < depth:
            level = torch.cat([level.repeat_interleave(vocab, dim=0), torch.cat(kept).reshape(-1, 1)], dim=1)
    ones = [1] * vocab
    return {"vocab": vocab, "config": dict(config), "default": {"p": ones, "q": list(ones)}, **rows}


def overlap(document: Mapping[str, Any]) -> float:
    """The mean over recorded contexts of sum min(p, q): how good the draft is there."""
    pairs = [(row, document["q"][key]) for key, row in document["p"].items()]
    return sum(sum(map(min, _shares(p), _shares(q))) for p, q in pairs) / len(pairs)


def _shares(weights: Sequence[int]) -> Iterator[float]:
    total = sum(weights)
    return (weight / total for weight in weights)


@torch.no_grad()
def _log_probabilities(model: nn.Module, contexts: Tensor, keys: Sequence[str]) -> Tensor:
    """log p of the next token, float64 [n, tokens], after true ids [n, t]; `keys` [n] name them in errors."""
    logits: Tensor = model(input_ids=contexts, use_cache=False, logits_to_keep=1).logits[:, -1]
    log_p = logits.double().log_softmax(dim=-1)
    _require_numbers(log_p, keys, "a model returned NaN, +inf or nothing but -inf")
    return log_p


def _likeliest(p: Tensor, q: Tensor, count: int) -> Tensor:
    """The tokens of highest (p + q) / 2, int64 [n, count], ascending; p and q are logarithms [n, tokens]."""
    if p.shape != q.shape:
        raise ValueError(f"target and draft differ in vocabulary: {p.shape[-1]} and {q.shape[-1]} tokens")
    if count > p.shape[-1]:
        raise ValueError(f"cannot keep {count} of {p.shape[-1]} tokens")
    # A stable sort, where a top-k kernel would settle ties in an order of its own.
    ranked = torch.sort(torch.logaddexp(p, q), dim=-1, descending=True, stable=True).indices
    return ranked[:, :count].sort(dim=-1).values


def _weights(log_p: Tensor, tokens: Tensor, scale: int, keys: Sequence[str]) -> list[list[int]]:
    """The chosen tokens' probabilities among themselves as integers [n, V] that sum to about `scale`."""
    # Renormalised as logarithms: what the other model finds likely may all underflow here.
    shares = log_p.gather(1, tokens).softmax(dim=-1)
    _require_numbers(shares, keys, "a model gives probability 0 to every token kept; keep more")
    rows: list[list[int]] = (shares * scale).round().long().tolist()
    return rows


def _require_numbers(values: Tensor, keys: Sequence[str], complaint: str) -> None:
    broken = values.isnan().any(dim=-1).nonzero()
    if len(broken):
        raise ValueError(f"context [{keys[int(broken[0, 0])]}]: {complaint}")
