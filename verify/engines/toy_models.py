"""What the transformers engines share: models whose logits are a toy's, and the seed of a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from logging import ERROR
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from verify.toys import Tokens

_NEEDS = "needs transformers 5.24 or later: pip install 'rheosampling[models]'"

try:
    import transformers
    from transformers import GenerationConfig, GenerationMixin, PreTrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutputWithPast
    from transformers.utils import logging
except ImportError as error:
    raise ImportError(f"verify.engines {_NEEDS}") from error
if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 24):  # caches had another name
    raise ImportError(f"verify.engines {_NEEDS}; found {transformers.__version__}")

Rows = Callable[[NDArray[np.integer]], NDArray[np.float64]]  # toy.p or toy.q


def logit_rows(rows: Rows, temperature: float = 1.0) -> Callable[[Tokens], Tensor]:
    """Logits after a prefix, float32 [vocab], -inf for probability 0; each prefix is asked for once."""

    @functools.cache
    def row(prefix: Tokens) -> Tensor:
        probabilities = rows(np.array([prefix], dtype=np.int64).reshape(1, len(prefix)))[0]
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(probabilities)).float() / temperature

    return row


class LookupModel(PreTrainedModel, GenerationMixin):  # type: ignore[no-untyped-call]
    """A causal model over a toy's tokens and one more, which only begins a sequence: its logit is always -inf.

    The token ids themselves are what it writes into the key-value cache, and all that it reads back from there: a
    cache that was cropped wrongly, or rows that were mixed up, change its logits.
    """

    config_class = PreTrainedConfig

    def __init__(self, rows: Rows, vocab: int, **generation: object) -> None:
        """rows: toy.p or toy.q. generation: what goes into the model's generation config."""
        config, generation_config = cast("Any", PreTrainedConfig), cast("Any", GenerationConfig)
        super().__init__(config(vocab_size=vocab + 1, num_hidden_layers=1, bos_token_id=vocab))
        self.rows = logit_rows(rows)
        self.generation_config = generation_config(**generation)
        self.anchor = torch.nn.Parameter(torch.zeros(1), requires_grad=False)  # what tells the model's device

    def forward(self, input_ids: Tensor, cache: Any, **_: object) -> CausalLMOutputWithPast:
        """Logits [n, t, vocab + 1] after each of the new input_ids [n, t]."""
        new = input_ids[:, None, :, None].float()
        seen = cache.update(new, new, 0)[0][:, 0, :, 0].long()
        first = seen.shape[1] - input_ids.shape[1]
        steps = [self._after(seen[:, : end + 1]) for end in range(first, seen.shape[1])]
        return CausalLMOutputWithPast(logits=torch.stack(steps, dim=1), cache=cache)

    def _after(self, begun: Tensor) -> Tensor:
        """Logits [n, vocab + 1] after sequences [n, 1 + t] that begin with the token that begins."""
        distinct, inverse = torch.unique(begun, dim=0, return_inverse=True)
        table = torch.stack([self.rows(tuple(prefix)) for _, *prefix in distinct.tolist()])
        return torch.nn.functional.pad(table, (0, 1), value=-torch.inf)[inverse]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """transformers draws from torch's global generator: seeded for the duration, and put back as it was."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(ERROR)  # it warns of what its own candidate generator passes
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(seed)
            yield
    finally:
        logging.set_verbosity(verbosity)


def temperature_of(settings: dict[str, Any]) -> float:
    """The sampling temperature of a subject's settings. ValueError at 0, where transformers does not sample."""
    temperature = float(Fraction(settings.get("temperature", 1)))
    if temperature <= 0:
        raise ValueError(f"temperature: transformers samples above 0 only, got {temperature:g}")
    return temperature


def depth_of(settings: dict[str, Any]) -> int:
    """Drafts a round. ValueError below 1."""
    depth = int(settings.get("depth", 1))
    if depth < 1:
        raise ValueError(f"depth: at least one draft a round, got {depth}")
    return depth
