"""What a benchmark runs, in an order in which a drift of the machine meets all methods alike."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rheo.config import Config
from rheo.growth import TreeGrowth
from rheo.growths import GROWTHS
from rheo.growths.static import Static
from rheo.methods import METHODS
from verify.benchmark.shapes import Shapes

if TYPE_CHECKING:
    from rheo.training.prompts import Start

AR = "ar"
ABLATIONS = ("support", "anchors", "temperature", "budget")
_VALUES: dict[str, tuple[float | None, ...]] = {
    "support": (128, 1024, 8192, None),
    "anchors": (0, 1, 2, 3, 4),
    "temperature": (0.0, 0.3, 0.6, 1.0),
    "budget": (15, 31, 59),
}
BASE = "base"


@dataclass(frozen=True)
class Question:
    """A prompt as token ids, and its name in its suite.

    turn, turns: a later turn of a conversation, counted from 1, and all that the user says in it; it has no tokens
    before the turns up to it are answered.
    """

    identifier: str
    tokens: tuple[int, ...]
    turn: int = 1
    turns: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The identifier, and which turn if not the first."""
        return self.identifier if self.turn == 1 else f"{self.identifier}:{self.turn}"


@dataclass(frozen=True)
class Plan:
    """suites: name to questions. methods: names of METHODS, and `ar`. config: the temperature included. seeds: how
    many texts a question and method; with none, contexts alone. contexts: round starts a question at which all methods
    draft. vocab: the target's. tuned: the configurations of methods that have one of their own. openings: where texts
    begin at which shapes are measured. shapes: those that were, by temperature."""

    suites: Mapping[str, tuple[Question, ...]]
    methods: tuple[str, ...]
    config: Config
    max_new_tokens: int
    seeds: int
    contexts: int
    ablations: tuple[str, ...]
    vocab: int
    tuned: Mapping[str, Config] = field(default_factory=dict)
    openings: tuple[Start, ...] = ()
    shapes: Mapping[float, Shapes] = field(default_factory=dict)

    @property
    def drafted(self) -> tuple[str, ...]:
        """The methods that draft."""
        return tuple(name for name in self.methods if name != AR)

    @property
    def shaped(self) -> tuple[str, ...]:
        """Those of them whose trees have a shape that is to be measured; none without openings."""
        return tuple(name for name in self.drafted if self.openings and isinstance(METHODS[name].growth, Static))

    def config_of(self, method: str, **change: Any) -> Config:
        """Its own, or that of all, so changed; with what was measured for such a tree."""
        config = replace(self.tuned.get(method, self.config), **change)
        found = self.shapes.get(float(config.temperature))
        return config if found is None else found.applied(method, config)


@dataclass(frozen=True)
class Unit:
    """One piece of work: the text of one method, the expected tokens of all of them along one text (`contexts`), the
    numeric floor on one text, what the target answers to all turns but the last (`answers`), or which shapes are best
    (`shapes`). method: whose, or a name for several. weight: about how many forwards it takes."""

    kind: str
    suite: str
    question: Question
    method: str
    seed: int
    temperature: float
    weight: int

    @property
    def key(self) -> str:
        """Its name among the results; what else it depends on is in the settings."""
        parts = (self.kind, self.suite, self.question.name, self.method, self.seed, f"T={self.temperature:g}")
        return "/".join(map(str, parts))

    @property
    def stream(self) -> int:
        """The seed of its request, 64 bits: the same for all methods, another for every question."""
        name = f"{self.kind}/{self.suite}/{self.question.name}/{self.seed}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])


@dataclass(frozen=True)
class Variant:
    """A configuration to draft with at a context: the plan's own (`base`), or one with another value."""

    name: str
    config: Config
    methods: tuple[str, ...]

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Its methods by growth: those of one draft the same tree."""
        growths = dict.fromkeys(METHODS[name].growth for name in self.methods)
        return [tuple(name for name in self.methods if METHODS[name].growth is growth) for growth in growths]


def units(plan: Plan) -> Iterator[Unit]:
    """Suites take turns question by question; on a question every method has its turn, another one first each time."""
    longest = max(len(questions) for questions in plan.suites.values())
    temperature = float(plan.config.temperature)
    turn = 0
    if plan.shaped:
        yield _shapes(plan, temperature)
    for seed in range(max(1, plan.seeds)):
        for index in range(longest):
            for suite, questions in plan.suites.items():
                if index >= len(questions):
                    continue
                question = questions[index]
                if seed == 0 and question.turn == 2:
                    yield answers_unit(plan, suite, question)
                for place in range(len(plan.methods) if plan.seeds else 0):
                    name = plan.methods[(turn + place) % len(plan.methods)]
                    yield Unit("text", suite, question, name, seed, temperature, plan.max_new_tokens)
                turn += 1
                if seed == 0 and plan.drafted:
                    yield _contexts(plan, suite, question, temperature)
                    if index == 0:
                        yield Unit("floor", suite, question, plan.drafted[-1], 0, temperature, 2 * plan.max_new_tokens)
    for other in values(plan, "temperature") if plan.drafted else ():
        if other is None or other == temperature:
            continue
        if plan.shaped:
            yield _shapes(plan, other)
        for suite, questions in plan.suites.items():
            for question in questions:
                yield _contexts(plan, suite, question, other)


def variants(plan: Plan, temperature: float) -> list[Variant]:
    """What is drafted at every context of one temperature; at others than the plan's no ablation but the budget."""
    found = _variants(plan, BASE, plan.drafted, temperature=temperature)
    own = temperature == float(plan.config.temperature)
    for key in plan.ablations if own else {"budget"} & set(plan.ablations):
        # Top-K draws nothing: anchors mean nothing to it, and its few likeliest tokens are in every support.
        drawing = tuple(n for n in plan.drafted if METHODS[n].growth is not GROWTHS["topk"])
        probing = tuple(n for n in drawing if not isinstance(METHODS[n].growth, TreeGrowth))
        methods = {"budget": plan.drafted, "anchors": probing}.get(key, drawing)
        if key == "temperature" or not methods:
            continue
        for value in values(plan, key):
            if value != getattr(plan.config, key):
                count = None if value is None else int(value)
                found += _variants(plan, variant_name(key, value), methods, temperature=temperature, **{key: count})
    return found


def _variants(plan: Plan, name: str, methods: tuple[str, ...], **change: Any) -> list[Variant]:
    """One for every configuration that the methods draft with."""
    own = {method: plan.config_of(method, **change) for method in methods}
    return [Variant(name, config, tuple(n for n in own if own[n] == config)) for config in dict.fromkeys(own.values())]


def values(plan: Plan, key: str) -> list[float | None]:
    """The values of one ablation, the plan's own among them, in order; none where it was not asked for."""
    if key not in plan.ablations:
        return []
    own: float | None = getattr(plan.config, key)
    below = {"support": plan.vocab, "anchors": plan.config.slots}.get(key, math.inf)
    every = {own, *(value for value in _VALUES[key] if value is None or value < below)}
    return sorted(every, key=lambda value: math.inf if value is None else value)


def variant_name(key: str, value: float | None) -> str:
    """How a variant is called among the results."""
    return f"{key}={'full' if value is None else f'{value:g}'}"


def answers_unit(plan: Plan, suite: str, question: Question) -> Unit:
    """The answers that a question with several turns hangs on: the same for all its later turns, methods and seeds."""
    first = replace(question, turn=1)
    weight = plan.max_new_tokens * (len(question.turns) - 1)
    return Unit("answers", suite, first, AR, 0, float(plan.config.temperature), weight)


def _shapes(plan: Plan, temperature: float) -> Unit:
    sizes = "+".join(f"{value:g}" for value in values(plan, "budget") or [plan.config.budget])
    name = f"{'+'.join(plan.shaped)}/{len(plan.openings)}/{sizes}"
    return Unit("shapes", "openings", Question("all", ()), name, 0, temperature, 40 * len(plan.openings))


def _contexts(plan: Plan, suite: str, question: Question, temperature: float) -> Unit:
    todo = variants(plan, temperature)
    # Whatever its record depends on is in its name.
    name = f"{'+'.join(plan.drafted)}/{plan.contexts}/{'+'.join(dict.fromkeys(variant.name for variant in todo))}"
    trees = sum(len(variant.groups) for variant in todo)
    return Unit("contexts", suite, question, name, 0, temperature, 4 * plan.contexts * trees)
