"""An independent forward over whole texts: no cache, no tree, no mask and no positions of the sampler's.

What the sampler read from its caches is right by construction where they are stale; this is what it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.models.drafters import Drafter
from rheo.models.drafters.eagle3 import Eagle3
from rheo.models.drafters.language_model import LanguageModel
from verify.models.texts import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ENTRIES = 1 << 26  # of logits held at a time, unless a single text has more


def chunks(texts: Sequence[Text], vocab: int) -> Iterator[Sequence[Text]]:
    """Consecutive texts, so few that the logits of all their tokens can be held."""
    first = 0
    while first < len(texts):
        end, longest = first, 0
        while end < len(texts):
            longest = max(longest, len(texts[end].prompt) + len(texts[end].tokens))
            if end > first and (end + 1 - first) * longest * vocab > _ENTRIES:
                break
            end += 1
        yield texts[first:end]
        first = end


@torch.inference_mode()
def target_logits(model: PreTrainedModel, texts: Sequence[Text]) -> list[Tensor]:
    """Raw logits float32 [tokens, V] of each text, those that each of its tokens was to be drawn from."""
    logits = _run(model, _rows(texts, model)).logits
    return _before_tokens(logits, texts, 0)


@torch.inference_mode()
def draft_logits(drafter: Drafter, target: PreTrainedModel, texts: Sequence[Text]) -> list[Tensor]:
    """Logits float32 [tokens, V] of a drafter after each emitted prefix, whether or not it was asked there.

    V is the target's. An EAGLE-3 head reads the true features of the whole prefix. TypeError for another drafter.
    """
    vocab = target.config.get_text_config().vocab_size
    rows = _rows(texts, target)
    if isinstance(drafter, LanguageModel):
        known = drafter.model.config.get_text_config().vocab_size
        logits = _run(drafter.model, rows.clamp(max=known - 1)).logits
        return [row[:, :vocab] for row in _before_tokens(logits, texts, 0)]
    if isinstance(drafter, Eagle3):
        return _before_tokens(_head_logits(drafter, target, rows), texts, 1)
    raise TypeError(f"no plain forward of a {type(drafter).__name__}")


def _run(model: PreTrainedModel, rows: Tensor, **options: Any) -> Any:
    return model(input_ids=rows, use_cache=False, **options)


def _rows(texts: Sequence[Text], model: PreTrainedModel) -> Tensor:
    """Token ids [N, L]; causal: what stands behind a text does not reach it."""
    rows = [torch.tensor([*text.prompt, *text.tokens]) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(model.device)


def _before_tokens(logits: Tensor, texts: Sequence[Text], missing: int) -> list[Tensor]:
    """Rows of [N, L - missing, V] from which the tokens of each text come; the first `missing` tokens have none."""
    return [
        row[len(text.prompt) - 1 - missing :][: len(text.tokens)].float()
        for row, text in zip(logits, texts, strict=True)
    ]


def _head_logits(drafter: Eagle3, target: PreTrainedModel, rows: Tensor) -> Tensor:
    """[N, L - 1, V]: behind every pair of a token and the features before it, all pairs in one causal forward."""
    from transformers import DynamicCache

    hidden = _run(target, rows, output_hidden_states=True).hidden_states
    features = torch.cat([hidden[layer] for layer in drafter.layers], -1)[:, :-1].to(drafter.embeddings.dtype)
    embedded = torch.nn.functional.embedding(rows[:, 1:], drafter.embeddings)
    length = embedded.shape[1]
    positions = torch.arange(length, device=rows.device).expand(len(rows), -1)
    later = torch.ones(length, length, dtype=torch.bool, device=rows.device).triu(1)
    mask = torch.zeros(length, length, dtype=embedded.dtype, device=rows.device).masked_fill(later, -torch.inf)
    states = drafter.head(embedded, drafter.head.fc(features), positions, mask[None, None], DynamicCache())
    return drafter.head.logits(states)
