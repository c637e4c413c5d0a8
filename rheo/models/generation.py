"""The decoding loop: a prompt in, rounds out, until every request has ended."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.decoding import Pair, Sampler, play_round
from rheo.models.causal import context_limit
from rheo.models.drafters import Drafter, Drafting
from rheo.models.path_processors import PathProcessors, process_trees
from rheo.models.target import Target
from rheo.processors import Processor
from rheo.refinement import play_refined, require_refinable
from rheo.tree import Frontier, Path, Tree
from rheo.uniforms import Uniforms, draw_uniforms

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

RESIDUAL, BONUS = 3, 4
ORIGINS = ("anchor", "probe", "filler", "residual", "bonus")  # by number; the first three are a tree's kinds

Stop = Callable[[list[int]], bool]  # the tokens generated so far -> whether the last of them ends the request
Play = Callable[[Sampler, Pair, Uniforms], tuple[Tree, Path]]  # one round, as `play_round`


@dataclass(frozen=True)
class Limits:
    """When a request ends; the token that ends it is its last, and what a round emitted behind it is dropped.

    max_new_tokens: at least 1. eos: token ids. stop: asked after every token.
    """

    max_new_tokens: int
    eos: Collection[int] = ()
    stop: Stop | None = None


@dataclass(frozen=True)
class Round:
    """What one round did for the n requests that took part, in the order of `requests`.

    requests: their positions among the prompts. tokens: those kept. origins: where each came from, as in `ORIGINS`.
    ends: "eos", "stop", "length" (max_new_tokens), "context" (the target's limit), or None where the request goes on.
    tree, path: as the sampler returned them.
    """

    requests: tuple[int, ...]
    tokens: tuple[list[int], ...]
    origins: tuple[list[int], ...]
    ends: tuple[str | None, ...]
    tree: Tree
    path: Path


@dataclass(frozen=True)
class _Pair:
    """Target and drafter as the sampler sees them."""

    reader: Target
    drafting: Drafting
    process: Callable[[Tree, Tensor], Tensor] | None  # raw logits, each by the path to its node

    def draft(self, frontier: Frontier) -> Tensor:
        # A token that the target does not know would be taken for another one.
        return self.drafting.draft(frontier)[..., : self.reader.model.config.get_text_config().vocab_size]

    def target(self, tree: Tree) -> Tensor:
        logits = self.reader.logits(tree)
        return logits if self.process is None else self.process(tree, logits)


def generate(
    model: PreTrainedModel,
    drafter: Drafter,
    sampler: Sampler,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    limits: Limits | Sequence[Limits],
    paths: Sequence[PathProcessors] = (),
    play: Play | None = None,
    refine: bool = False,
) -> Iterator[Round]:
    """The rounds of N prompts of token ids, on the model's device; requests that ended take no part in later rounds.

    seeds: one a prompt, 64 bits; a request's randomness depends on its own seed alone. limits: the same for all, or
    one a prompt. paths: none, or one a prompt: what processes raw logits by the path to each node, in front of the
    sampler's temperature and processor. play: what plays a round, for whoever times it or looks inside; its tree and
    path must be those of the pair's last calls. refine: calibrated growth goes by what the request's earlier rounds
    taught, see `refinement`.
    ValueError at once for no prompts, an empty one, one with unknown tokens or without room in the target's context,
    seeds, limits or paths that do not match, no new tokens, a growth that cannot be refined, or a sampler's processor
    that needs a token's path. With the first round come the errors of `Target` and of the drafter's `start`, with any
    those of `process_trees`.
    """
    each = [limits] * len(prompts) if isinstance(limits, Limits) else limits
    _check(model, sampler.process, prompts, seeds, each)
    if paths and len(paths) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts need as many chains of processors, got {len(paths)}")
    if refine:
        require_refinable(sampler)
    return _rounds(model, drafter, sampler, prompts, seeds, each, paths, play or play_round, refine)


def _rounds(
    model: PreTrainedModel,
    drafter: Drafter,
    sampler: Sampler,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    limits: Sequence[Limits],
    paths: Sequence[PathProcessors],
    play: Play,
    refine: bool,
) -> Iterator[Round]:
    device, limit = model.device, context_limit(model)
    room = [None if limit is None else limit - len(prompt) for prompt in prompts]
    contexts, lengths = padded(prompts, device)
    target = Target(model, contexts, lengths, drafter.layers)
    drafting = drafter.start(contexts, lengths, target.features)
    generated: list[list[int]] = [[] for _ in prompts]
    active = list(range(len(prompts)))
    sums = torch.zeros(len(prompts), 2, 3, dtype=torch.float64, device=device)
    for index in count():
        uniforms = draw_uniforms(sampler.config, [seeds[i] for i in active], index, device)
        process = _processing(paths, limits, room, generated, active) if paths else None
        pair = _Pair(target, drafting, process)
        if refine:
            tree, path, sums = play_refined(play, sampler, pair, uniforms, sums)
        else:
            tree, path = play(sampler, pair, uniforms)
        tokens, ends = [], []
        for i, row, length in zip(active, path.tokens.tolist(), path.lengths.tolist(), strict=True):
            before = len(generated[i])
            ends.append(_extend(generated[i], row[:length], limits[i], room[i]))
            tokens.append(generated[i][before:])
        origins = [row[: len(kept)] for row, kept in zip(_origins(tree, path).tolist(), tokens, strict=True)]
        target.accept(path)
        drafting.accept(tree, path, target.features)
        yield Round(tuple(active), tuple(tokens), tuple(origins), tuple(ends), tree, path)
        going = [position for position, end in enumerate(ends) if end is None]
        if not going:
            return
        if len(going) < len(active):
            rows = torch.tensor(going, device=device)
            target.select(rows)
            drafting.select(rows)
            sums = sums[rows]
            active = [active[position] for position in going]


def padded(prompts: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Contexts int64 [N, L], padded with -1 on the right, and their lengths int64 [N]."""
    rows = [torch.tensor(prompt, dtype=torch.int64) for prompt in prompts]
    contexts = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    return contexts.to(device), torch.tensor([len(row) for row in rows], device=device)


def stop_strings(tokenizer: PreTrainedTokenizerBase, strings: Sequence[str]) -> Stop:
    """Ends a request with the token that completes one of the strings; the text keeps the string."""
    # A token is at least a byte, a character at most four; the rest is for text that changes with its surroundings.
    tail = 8 + 4 * max(map(len, strings), default=0)

    def stop(tokens: list[int]) -> bool:
        text = tokenizer.decode(tokens[-tail:])
        return any(string in text for string in strings)

    return stop


def _extend(generated: list[int], tokens: Sequence[int], limits: Limits, room: int | None) -> str | None:
    """Append tokens until one ends the request; says why, or None. room: tokens that fit behind the prompt."""
    for token in tokens:
        generated.append(token)
        if token in limits.eos:
            return "eos"
        if limits.stop is not None and limits.stop(generated):
            return "stop"
        if len(generated) == limits.max_new_tokens:
            return "length"
        if len(generated) == room:
            return "context"
    return None


def _processing(
    paths: Sequence[PathProcessors],
    limits: Sequence[Limits],
    room: Sequence[int | None],
    generated: Sequence[Sequence[int]],
    active: Sequence[int],
) -> Callable[[Tree, Tensor], Tensor]:
    """What a round's logits go through, for the requests that take part in it."""
    return partial(
        process_trees,
        [paths[i].processors for i in active],
        [[*paths[i].prefix, *generated[i]] for i in active],
        [min(limits[i].max_new_tokens, room[i] or limits[i].max_new_tokens) - len(generated[i]) for i in active],
        [limits[i].eos for i in active],
    )


def _origins(tree: Tree, path: Path) -> Tensor:
    """int64 [N, D + 1]: where each emitted token came from; the last is a residual's where a child was refused."""
    kinds = tree.kinds.gather(1, (path.rows - 1).clamp(min=0))
    last = path.rows.amax(-1, keepdim=True).clamp(min=0)  # rows grow along a path, since parents come first
    refused = ((tree.parents == last) & tree.occupied).any(-1, keepdim=True)
    return torch.where(path.rows > 0, kinds, torch.where(refused, RESIDUAL, BONUS))


def _check(
    model: PreTrainedModel,
    process: Processor | None,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    limits: Sequence[Limits],
) -> None:
    if process is not None:
        _require_pathless(process)
    if not prompts:
        raise ValueError("there are no prompts")
    if len(limits) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts need as many limits, got {len(limits)}")
    if (least := min(each.max_new_tokens for each in limits)) < 1:
        raise ValueError(f"max_new_tokens must be at least 1, got {least}")
    if len(seeds) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts need as many seeds, got {len(seeds)}")
    limit, vocab = context_limit(model), model.config.get_text_config().vocab_size
    for index, prompt in enumerate(prompts):
        if not prompt:
            raise ValueError(f"prompt {index} is empty")
        if not (min(prompt) >= 0 and max(prompt) < vocab):
            raise ValueError(f"prompt {index} holds tokens outside 0..{vocab - 1}")
        if limit is not None and len(prompt) >= limit:
            raise ValueError(f"prompt {index} has {len(prompt)} tokens, and the target's context ends at {limit}")


def _require_pathless(process: Any) -> None:
    """ValueError for what is called with the tokens before, such as a repetition penalty of transformers."""
    parameters = inspect.signature(process).parameters.values()
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    positional = [p for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != 1:
        name = getattr(process, "__name__", type(process).__name__)
        raise ValueError(f"{name} needs the path to each node: give it to generate as one of `paths`")
