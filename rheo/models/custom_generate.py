"""transformers' own `generate`, decoding with trees: `model.generate(ids, custom_generate=rheo_decoding(drafter))`.

What `generate` prepares keeps its meaning, as of transformers 5.24: processors act on raw logits by the path to each
node, temperature and what truncates act on the target's probabilities, criteria are asked after every token.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.config import Config
from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models.drafters import Drafter, calibrated, default_method
from rheo.models.generation import Limits, Stop, generate
from rheo.models.path_processors import PathProcessor, path_processors
from rheo.processors import Processor

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

_WARPERS = ("Temperature", "TopK", "TopP", "TopH", "MinP", "Typical", "Epsilon", "Eta")
_OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
_ANYHOW = ("use_cache", "logits_to_keep")  # how a forward is computed; a tree has its own way


def rheo_decoding(drafter: Drafter, config: Config | None = None, method: str | None = None) -> Callable[..., Any]:
    """What `generate` takes as custom_generate. drafter: made for the model that generates.

    config: of the trees, with the drafter's own calibration unless it names one; its temperature gives way to that of
    `generate`, 0 without do_sample. method: by default that of `default_method`.
    `generate` takes two arguments more: generator (a torch.Generator) or seed; without
    either the seeds come from torch's global generator.
    A row ends also at the model's context limit. ValueError by name for what trees cannot give: other modes than greedy
    search and sampling, scores, logits, attentions and hidden states, a cache of the caller's, a streamer with several
    rows, several rows without a pad_token_id, padding elsewhere than on the left, and as `generate` and
    `path_processors` of this project; for an unknown method at once.
    """
    method = method or default_method(config or Config(), drafter)
    if method not in METHODS:
        raise ValueError(f"no method {method}; there are {', '.join(METHODS)}")
    settings = calibrated(config or Config(), drafter)

    def decode(
        model: PreTrainedModel,
        input_ids: Tensor,
        logits_processor: Sequence[PathProcessor],
        stopping_criteria: Sequence[Any],
        generation_config: GenerationConfig,
        streamer: Any = None,
        generator: torch.Generator | None = None,
        seed: int | None = None,
        **model_kwargs: Any,
    ) -> Any:
        streamer = streamer or _streamer_of_generate()
        pad = generation_config._pad_token_tensor
        _require_supported(generation_config, len(input_ids), streamer, pad, input_ids, **model_kwargs)
        sampled = generation_config.do_sample is True
        by_path, temperature, process = _split(logits_processor) if sampled else ([*logits_processor], 0.0, None)
        sampler = Sampler(replace(settings, temperature=temperature), METHODS[method], process)
        prompts = _prompts(input_ids, model_kwargs.get("attention_mask"))
        seeds = _seeds(len(prompts), generator, seed) if sampled else [0] * len(prompts)
        paths = path_processors(by_path, input_ids.tolist()) if by_path else []
        texts: list[list[int]] = [[] for _ in prompts]
        limits = [_limits(row, stopping_criteria) for row in input_ids]
        for done in generate(model, drafter, sampler, prompts, seeds, limits, paths):
            for request, tokens in zip(done.requests, done.tokens, strict=True):
                texts[request] += tokens
                for token in tokens if streamer is not None else ():
                    streamer.put(torch.tensor([token]))
        if streamer is not None:
            streamer.end()
        return _output(input_ids, texts, pad, generation_config)

    return decode


def _streamer_of_generate() -> Any:
    """The streamer that `generate` was called with: transformers hands it to its own loops, but not to a callable."""
    from transformers import GenerationMixin

    body: Any = inspect.unwrap(GenerationMixin.generate)
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not body.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get("streamer")


def _require_supported(
    settings: GenerationConfig,
    rows: int,
    streamer: Any,
    pad: Tensor | None,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    cache: Any = None,
    past_key_values: Any = None,
    **others: Any,
) -> None:
    mode = settings.get_generation_mode().value
    if mode not in ("greedy_search", "sample"):
        raise ValueError(f"{mode} is not decoded with trees, only greedy_search and sample are")
    for name in _OUTPUTS:
        if settings.return_dict_in_generate and getattr(settings, name):
            raise ValueError(f"{name} cannot be given: a tree has no row of its own for each token")
    if any(getattr(each, "_is_user_defined", False) for each in (cache, past_key_values)):
        raise ValueError("a cache of the caller's is neither read nor filled: leave it out")
    for name, value in others.items():
        if value is not None and name not in _ANYHOW:
            raise ValueError(f"{name} does not reach the model when trees are decoded")
    if streamer is not None and rows > 1:
        raise ValueError(f"a streamer takes one row, not {rows}: rows do not grow in step")
    if rows > 1 and pad is None:
        raise ValueError("several rows need a pad_token_id: they may end at different lengths")
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
    if bool((mask[:, 1:] < mask[:, :-1]).any()):
        raise ValueError("attention_mask: padding must stand on the left")
    if position_ids is not None and bool((((mask.cumsum(-1) - 1) != position_ids) & (mask > 0)).any()):
        raise ValueError("position_ids must count the tokens of each row from 0")


def _split(processors: Sequence[Any]) -> tuple[list[PathProcessor], float, Processor | None]:
    """What is applied by the path, the temperature, and what acts behind it on logits alone.

    The temperature is taken out where nothing behind it needs the path, so that it tempers the draft too; otherwise
    it is applied by the path like the rest, which costs acceptance only.
    """
    start = len(processors)
    while start and _needs_no_path(processors[start - 1]):
        start -= 1
    names = [type(processor).__name__ for processor in processors[start:]]
    temperature, behind = 1.0, processors[start:]
    if "TemperatureLogitsWarper" in names:
        start += names.index("TemperatureLogitsWarper")
        temperature, behind = float(processors[start].temperature), processors[start + 1 :]

    def process(logits: Tensor) -> Tensor:
        for warper in behind:
            logits = warper(None, logits)
        return logits

    return [*processors[:start]], temperature, process if behind else None


def _needs_no_path(processor: Any) -> bool:
    """Whether it is one of transformers' own that look at the scores alone."""
    name = type(processor).__name__
    return name == "LogitNormalization" or name in [f"{warper}LogitsWarper" for warper in _WARPERS]


def _prompts(input_ids: Tensor, mask: Tensor | None) -> list[list[int]]:
    """The tokens of each row without its padding."""
    if mask is None:
        return [row.tolist() for row in input_ids]
    return [row[kept].tolist() for row, kept in zip(input_ids, mask.bool(), strict=True)]


def _seeds(rows: int, generator: torch.Generator | None, seed: int | None) -> list[int]:
    """A seed of its own for every row."""
    if generator is not None and seed is not None:
        raise ValueError("give a generator or a seed, not both")
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
    device = "cpu" if generator is None else generator.device
    drawn: list[int] = torch.randint(1 << 62, (rows,), generator=generator, device=device).tolist()
    return drawn


def _limits(row: Tensor, criteria: Sequence[Any]) -> Limits:
    """When a row int64 [L], padded as it is given, has come to its end."""
    from transformers import EosTokenCriteria, MaxLengthCriteria

    longest = min(each.max_length for each in criteria if isinstance(each, MaxLengthCriteria))
    eos = [each.eos_token_id.flatten().tolist() for each in criteria if isinstance(each, EosTokenCriteria)]
    others = [each for each in criteria if not isinstance(each, MaxLengthCriteria | EosTokenCriteria)]
    return Limits(longest - len(row), {token for ids in eos for token in ids}, _stop(row, others) if others else None)


def _stop(row: Tensor, criteria: Sequence[Any]) -> Stop:
    def stop(tokens: list[int]) -> bool:
        text = torch.cat([row, row.new_tensor(tokens)]).unsqueeze(0)
        answers = [bool(torch.as_tensor(each(text, None)).any()) for each in criteria]  # all are asked, as there
        return any(answers)

    return stop


def _output(input_ids: Tensor, texts: Sequence[Sequence[int]], pad: Tensor | None, settings: GenerationConfig) -> Any:
    """Rows [N, L] with what was generated behind them, padded on the right."""
    rows = [input_ids.new_tensor(text) for text in texts]
    behind = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0 if pad is None else int(pad))
    sequences = torch.cat([input_ids, behind], 1)
    if not settings.return_dict_in_generate:
        return sequences
    from transformers.generation import utils

    output: Any = utils.GenerateDecoderOnlyOutput
    return output(sequences=sequences)
