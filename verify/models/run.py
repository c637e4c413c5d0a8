"""A run: tokens of every method, then of a broken cache that has to be found."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace

from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models.generation import Round
from verify.models.checks import Checked, checked
from verify.models.faults import broken
from verify.models.plan import CONTROL, PILOT, Plan
from verify.models.scores import Scores, nothing, scored
from verify.models.texts import Models, emitted
from verify.models.verdict import sized

CONTROL_FAULT = "stale row"


@dataclass(frozen=True)
class Progress:
    """What has been done. scores: by method, and of PILOT and CONTROL. checks: by method."""

    scores: dict[str, Scores] = field(default_factory=dict)
    checks: dict[str, Checked] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """How many have been scored."""
        return sum(map(len, self.scores.values()))


def run(
    plan: Plan, models: Models, progress: Progress, on_tokens: Callable[[str, int], None] = lambda part, count: None
) -> Iterator[Progress]:
    """The progress after every check and batch of requests, from an earlier one on, until nothing is left to do.

    on_tokens: called with the part of the run and how many tokens a round emitted.
    """
    for method in plan.methods:
        if method not in progress.checks:
            progress = replace(progress, checks={**progress.checks, method: checked(plan, models, method)})
            yield progress
        progress = yield from _part(plan, models, progress, method, plan.tokens, on_tokens)
    progress = yield from _part(plan, models, progress, PILOT, plan.pilot, on_tokens)
    size = sized(plan, progress.scores[PILOT]).tokens
    if size is not None and size <= plan.tokens:
        yield from _part(plan, models, progress, CONTROL, size, on_tokens)


def _part(
    plan: Plan, models: Models, progress: Progress, part: str, wanted: int, on_tokens: Callable[[str, int], None]
) -> Generator[Progress, None, Progress]:
    done = progress.scores.get(part, nothing())
    while len(done) < wanted:
        done = more(plan, models, part, wanted, done, lambda count: on_tokens(part, count))
        progress = replace(progress, scores={**progress.scores, part: done})
        yield progress
    return progress


def more(
    plan: Plan,
    models: Models,
    part: str,
    wanted: int,
    done: Scores,
    on_tokens: Callable[[int], None] = lambda count: None,
    fault: str | None = None,
) -> Scores:
    """The scores of a part of the run after one more batch of requests, up to `wanted` tokens.

    part: a method, or PILOT or CONTROL: the plan's first method. fault: one of FAULTS; the two have theirs.
    """
    method = part if part in METHODS else plan.methods[0]
    count = min(plan.batch, math.ceil((wanted - len(done)) / plan.limits.max_new_tokens))
    numbers = range(done.requests, done.requests + count)

    def on_round(finished: Round) -> None:
        on_tokens(sum(map(len, finished.tokens)))

    with broken(CONTROL_FAULT if part in (PILOT, CONTROL) else fault):
        texts = emitted(
            models,
            Sampler(plan.config, METHODS[method]),
            [plan.prompt(i) for i in numbers],
            [plan.request_seed(part, i) for i in numbers],
            plan.limits,
            on_round,
        )
    return scored(done, models, plan.process, texts, wanted, plan.randomiser(part))
