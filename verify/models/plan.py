"""What is fixed before a run on models: how many tokens, from which requests, and the alphas of its tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rheo.config import Config
from rheo.models.generation import Limits
from rheo.processors import Processor, temperature
from verify.models.scores import ORDERS_USED
from verify.pit import STRATA

PILOT, CONTROL, FLOOR, GREEDY = "pilot", "control", "floor", "greedy"
_STRATA_EACH = 4
# Of one method: Kolmogorov and an e-process in every order, an e-process in every stratum of contexts.
TESTS = 2 * len(ORDERS_USED) + _STRATA_EACH * len(STRATA)
MOST_PILOT = 2_000  # tokens of the pilot, unless fewer are tested
DEFAULT_PROMPTS = (
    "Tell me a short story about a lighthouse.",
    "How do I sort a list in Python?",
    "What is the capital of Australia, and why is it not Sydney?",
    "Write a haiku about rain.",
    "Explain gravity to a child.",
    "List three reasons to learn music.",
    "Draft an email that declines a meeting.",
    "What is 17 times 23? Show the steps.",
)


@dataclass(frozen=True)
class Plan:
    """A run: `tokens` emitted tokens of every method are tested, the first ones in the order of the requests.

    prompts: token ids; requests take them in turn. limits: of a request. batch: requests at a time. seed: of everything
    that is drawn. alpha: false-alarm rate of the whole run. beta: miss rate at which sizes are stated and the control
    is to be found. ValueError for a temperature of 0: there the target leaves nothing to chance.
    """

    config: Config
    methods: tuple[str, ...]
    prompts: tuple[tuple[int, ...], ...]
    limits: Limits
    tokens: int
    batch: int = 16
    seed: int = 0
    alpha: float = 1e-9
    beta: float = 1e-6

    def __post_init__(self) -> None:
        if self.config.temperature == 0:
            raise ValueError("at temperature 0 there is no distribution to test; every run compares with greedy too")

    @property
    def alpha_each(self) -> float:
        """Of one test of one method."""
        return self.alpha / len(self.methods) / TESTS

    @property
    def pilot(self) -> int:
        """Tokens from which the control's distance is estimated."""
        return min(self.tokens, MOST_PILOT)

    @cached_property
    def process(self) -> Processor:
        """Turns raw logits into those of p."""
        return temperature(self.config.temperature)

    def prompt(self, request: int) -> tuple[int, ...]:
        """Of a request, counted from 0."""
        return self.prompts[request % len(self.prompts)]

    def request_seed(self, part: str, request: int) -> int:
        """64 bits for one request of a method, or of a part of the run named by a constant of this file."""
        return _word(self.seed, part, request + 1)

    def randomiser(self, part: str) -> int:
        """The key of the randomiser, which has nothing to do with the sampler's numbers."""
        return _word(self.seed, part, 0)


def _word(seed: int, part: str, number: int) -> int:
    return int(np.random.SeedSequence((seed, number, *part.encode())).generate_state(1, np.uint64)[0])
