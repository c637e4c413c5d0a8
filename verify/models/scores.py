"""What is kept of an emitted token: its randomised PIT in every order, and which contexts it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rheo.processors import Processor
from verify.lifetime import uniforms
from verify.models.plain import chunks, draft_logits, target_logits
from verify.models.texts import Models, Text
from verify.orders import ORDERS, Floats, mass_before
from verify.pit import STRATA

ORDERS_USED = ("p", "p/q")


@dataclass(frozen=True)
class Scores:
    """n emitted tokens in the order of the requests, and within one of the text.

    pit: by order, float64 [n]. strata: by kind, int64 [n]. impossible: how many had probability 0. requests: how many
    there are.
    """

    pit: dict[str, Floats]
    strata: dict[str, NDArray[np.int64]]
    impossible: int = 0
    requests: int = 0

    def __len__(self) -> int:
        return len(self.pit[ORDERS_USED[0]])


def nothing() -> Scores:
    """Of no tokens."""
    none = np.zeros(0)
    return Scores(dict.fromkeys(ORDERS_USED, none), {kind: none.astype(np.int64) for kind in STRATA})


def scored(scores: Scores, models: Models, process: Processor, texts: Sequence[Text], most: int, key: int) -> Scores:
    """The scores with those of more texts, up to `most` tokens in all.

    process: turns logits into those of p, and of q. key: of the randomiser, a function of it and the token's number.
    The order of the tokens is that of the requests: that of their ends would depend on what was accepted.
    """
    for group in chunks(texts, models.judge.config.get_text_config().vocab_size):
        rows = target_logits(models.judge, group), draft_logits(models.drafter, models.judge, group)
        for text, logits, drafted in zip(group, *rows, strict=True):
            wanted = min(len(text.tokens), most - len(scores))
            share = uniforms(key, len(scores), wanted)
            p, q = (_law(process, part[:wanted]) for part in (logits, drafted))
            scores = _joined(scores, _scores(p, q, np.array(text.tokens[:wanted], dtype=np.int64), share))
    return scores


def _law(process: Processor, logits: Tensor) -> Floats:
    return np.asarray(torch.softmax(process(logits).double(), -1).cpu().numpy())


def _scores(p: Floats, q: Floats, tokens: NDArray[np.int64], share: Floats) -> Scores:
    own = np.take_along_axis(p, tokens[:, None], axis=1)[:, 0]
    pit = {
        name: np.minimum(mass_before(ORDERS[name](p, q), p, tokens) + share * own, 1.0)  # sums may exceed 1 by rounding
        for name in ORDERS_USED
    }
    return Scores(pit, {kind: label(p, q) for kind, label in STRATA.items()}, int((own <= 0).sum()), 1)


def _joined(first: Scores, second: Scores) -> Scores:
    return Scores(
        {name: np.concatenate([first.pit[name], second.pit[name]]) for name in first.pit},
        {kind: np.concatenate([first.strata[kind], second.strata[kind]]) for kind in first.strata},
        first.impossible + second.impossible,
        first.requests + second.requests,
    )
