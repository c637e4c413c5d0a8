"""transformers' `generate` as it is called: by itself, with an assistant model, with prompt lookup.

The models are made on the spot and say what a toy says (`toy_models`); all else is transformers' own, from the
candidate generator and the logits processors to the cropping of the key-value caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from verify.engines.toy_models import LookupModel, depth_of, seeded, temperature_of
from verify.joint import Toy
from verify.subjects import Samples


@dataclass(frozen=True)
class Generation:
    """`generate(do_sample=True)`, in batches where transformers allows it.

    generation: arguments of `generate`. assistant: the generation config of the assistant model; None for no assistant.
    """

    generation: dict[str, Any]
    assistant: dict[str, Any] | None = None
    batch: int = 1

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples:
        target = LookupModel(toy.p, toy.vocab)
        arguments = dict(self.generation)
        if self.assistant is not None:
            arguments["assistant_model"] = LookupModel(toy.q, toy.vocab, **self.assistant)
        result = np.empty((count, length), dtype=np.int64)
        with seeded(seed):
            for rows in (result[i : i + self.batch] for i in range(0, count, self.batch)):
                begin = torch.full((len(rows), 1), toy.vocab)
                ids = target.generate(
                    begin, attention_mask=torch.ones_like(begin), do_sample=True, max_new_tokens=length, **arguments
                )
                rows[:] = ids[:, 1:].numpy()
        return result


def _arguments(settings: dict[str, Any]) -> dict[str, Any]:
    # Unless told otherwise, generate() keeps the 50 likeliest tokens only, which is another target.
    return {"temperature": temperature_of(settings), "top_k": 0, **settings.get("generate", {})}


def sampling(settings: dict[str, Any]) -> Generation:
    """Ordinary sampling, right by construction; settings: "temperature" (1), "generate" ({}: more arguments)."""
    return Generation(_arguments(settings), batch=8_192)


def assisted_generation(settings: dict[str, Any]) -> Generation:
    """Speculative decoding with an assistant model.

    settings: as for `sampling`; "depth" (1), drafts a round at most; "assistant" ({}): more of the assistant's
    generation config, for which transformers' own defaults hold, among them assistant_confidence_threshold = 0.4.
    """
    assistant = {"num_assistant_tokens": depth_of(settings), **settings.get("assistant", {})}
    return Generation(_arguments(settings), assistant)


def prompt_lookup(settings: dict[str, Any]) -> Generation:
    """Drafts copied from the sequence itself; settings: as for `sampling`, and "depth" (1)."""
    return Generation(_arguments(settings) | {"prompt_lookup_num_tokens": depth_of(settings)})
