"""The exact law of one round's output, continued by the target to depth + 1 tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from reference import lazy
from reference.choose import Choose
from reference.distributions import Array, Number, temper
from reference.growth import DraftAt
from reference.growths.static import Static
from reference.methods import Method
from reference.rules import Rule, TreeRule
from reference.rules.children import Children
from reference.tree import SlotPath, TargetAt, Tokens, Tree
from reference.verification import recursive_step, survivors
from rheo.config import Config
from rheo.shapes import families
from verify.cases import Case
from verify.enumeration import Outcome, TooManyOutcomesError, enumerate_outcomes

# What one node can do: (child's token or None, token emitted) -> probability.
StepLaw = dict[tuple[int | None, int], Number]
StepAt = Callable[[Tree, SlotPath, Tokens], StepLaw]
StopsAt = Callable[[Tree], dict[Tokens, Number]]  # a tree -> what a round with it emits, with probabilities
Classes = list[Outcome[Tree]]


@dataclass(frozen=True)
class Law:
    """What one round emits: `stops` maps each emitted sequence to the probability that it is exactly that."""

    stops: dict[Tokens, Number]

    @property
    def accepted(self) -> Number:
        """Expected accepted drafts: tokens emitted by the round, minus the last one."""
        return sum((len(tokens) - 1) * mass for tokens, mass in self.stops.items())


def draft_of(case: Case) -> DraftAt:
    """The case's draft weights: Fractions, or float64 where its temperature makes laws irrational."""
    return case.toy.draft.exact if case.rational else case.toy.draft.floats


def target_of(case: Case) -> TargetAt:
    """The case's target at its temperature: Fractions, or float64 where that is irrational."""
    weights = case.toy.target.exact if case.rational else case.toy.target.floats
    cache: dict[Tokens, Array] = {}

    def target_at(tokens: Tokens) -> Array:
        if tokens not in cache:
            cache[tokens] = temper(weights(tokens), case.config.temperature)
        return cache[tokens]

    return target_at


def classes_of(draft_at: DraftAt, config: Config, method: Method, limit: int | None = None) -> Classes:
    """Every tree of positive probability, probes that are never reached integrated out."""

    def run(choose: Choose) -> Tree:
        return lazy.grow(draft_at, config, method.growth, choose)

    return list(enumerate_outcomes(run, limit))


def exact_steps(target_at: TargetAt, rule: Rule) -> StepAt:
    """Each node's law under the paper's recursion, by enumeration. Equal nodes of different trees are done once."""
    cache: dict[object, StepLaw] = {}

    def step_at(tree: Tree, path: SlotPath, tokens: Tokens) -> StepLaw:
        p = target_at(tokens)
        children = survivors(tree, path, len(p))
        key = step_key(tokens, children)
        if key not in cache:
            cache[key] = step_law(p, children, rule, len(path))
        return cache[key]

    return step_at


def step_key(tokens: Tokens, children: Children) -> tuple[object, ...]:
    """What the law of a step depends on, for one case and method."""
    laws = tuple(tuple(law) for law in (children.law, *children.laws) if law is not None)
    return tokens, children.anchors, children.probe, children.fillers, children.draws, laws


def tree_key(tree: Tree) -> tuple[tuple[SlotPath, int], ...]:
    """What the law of a round depends on, given its tree: the path and token of every kept node, in order."""
    return tuple((node.path, node.token) for node in tree.nodes)


def step_law(p: Array, children: Children, rule: Rule, depth: int) -> StepLaw:
    """The law of one verification step, by enumerating the recursive form of its rule."""
    if not children.tokens:
        return {(None, token): mass for token, mass in enumerate(p) if mass > 0}
    law: StepLaw = {}
    for outcome in enumerate_outcomes(lambda choose: recursive_step(p, children, rule, choose, depth)):
        law[outcome.result] = law.get(outcome.result, 0) + outcome.mass
    return law


def exact_stops(target_at: TargetAt, rule: Rule | TreeRule) -> StopsAt:
    """What a round emits, given its tree, by any rule."""
    if isinstance(rule, TreeRule):
        return partial(leaps, rule=rule, target_at=target_at)
    return partial(walks, step_at=exact_steps(target_at, rule))


def walks(tree: Tree, step_at: StepAt) -> dict[Tokens, Number]:
    """Every way down a tree, from the law of every step."""
    stops: dict[Tokens, Number] = {}
    frontier: list[tuple[SlotPath, Tokens, Number]] = [((), (), 1)]
    while frontier:
        path, tokens, reach = frontier.pop()
        below = {node.token: node.path for node in reversed(tree.children(path))}  # the first of equal siblings
        for (child, token), probability in step_at(tree, path, tokens).items():
            emitted = (*tokens, token)
            if child is None:
                stops[emitted] = stops.get(emitted, 0) + reach * probability
            else:
                frontier.append((below[child], emitted, reach * probability))
    return stops


def leaps(tree: Tree, rule: TreeRule, target_at: TargetAt) -> dict[Tokens, Number]:
    """Every place to stop in a tree and every token emitted there."""
    tokens = {(): (), **{node.path: node.tokens for node in tree.nodes}}
    return {
        (*tokens[path], token): mass
        for path, density in rule.stops(tree, target_at).items()
        for token, mass in enumerate(density)
        if mass > 0
    }


def compose(classes: Iterable[tuple[Number, Tree]], stops_at: StopsAt) -> Law:
    """The law of a round: trees with their probabilities, and what a round emits given each."""
    stops: dict[Tokens, Number] = {}
    for mass, tree in classes:
        for tokens, probability in stops_at(tree).items():
            stops[tokens] = stops.get(tokens, 0) + mass * probability
    return Law(stops)


def exact_law(case: Case, method: Method, limit: int | None = None) -> tuple[Law, Classes]:
    """The law of one round of a case, and the classes it was summed over.

    TooManyOutcomesError beyond `limit` classes.
    """
    if isinstance(method.growth, Static) and isinstance(method.rule, Rule):
        return static_law(case, method.growth, method.rule, limit)
    classes = classes_of(draft_of(case), case.config, method, limit)
    law = compose(((c.mass, c.result) for c in classes), exact_stops(target_of(case), method.rule))
    return law, classes


def static_law(case: Case, growth: Static, rule: Rule, limit: int | None = None) -> tuple[Law, Classes]:
    """The law of a round whose tree has a shape of its own: children are drawn where verification comes by.

    A class is then a node, the way to it and what its children are; the rest of the tree is integrated out.
    """
    target_at, draft_at = target_of(case), draft_of(case)
    families_of = families(growth.shape(case.config))
    step_at = exact_steps(target_at, rule)
    stops: dict[Tokens, Number] = {}
    classes: Classes = []
    reached: dict[tuple[SlotPath, Tokens], Number] = {((), ()): 1}
    while reached:
        below: dict[tuple[SlotPath, Tokens], Number] = {}
        for (path, tokens), reach in reached.items():

            def draw(choose: Choose, path: SlotPath = path, tokens: Tokens = tokens) -> Tree:
                family = families_of.get(path, range(0))
                return growth.children(draft_at, case.config, path, tokens, family, choose)

            for outcome in enumerate_outcomes(draw):
                if limit is not None and len(classes) >= limit:
                    raise TooManyOutcomesError(f"more than {limit} outcomes")
                tree = outcome.result
                if tree.nodes:
                    classes.append(Outcome(reach * outcome.mass, tree, outcome.decisions))
                for (child, token), chance in step_at(tree, path, tokens).items():
                    mass, emitted = reach * outcome.mass * chance, (*tokens, token)
                    if child is None:
                        stops[emitted] = stops.get(emitted, 0) + mass
                    else:
                        node = next(node for node in tree.children(path) if node.token == child)
                        below[node.path, emitted] = below.get((node.path, emitted), 0) + mass
        reached = below
    return Law(stops), classes


def total_variation(law: Law, target_at: TargetAt, length: int) -> Number:
    """Half the L1 distance over sequences of `length` tokens between the law, continued by the target, and the target.

    Below a prefix that no longer emission extends, both continue with the target, so one term stands for them all.
    """
    inner = {tokens[:i] for tokens in law.stops for i in range(len(tokens))}

    def distance(prefix: Tokens, passed: Number, expected: Number) -> Number:
        if prefix not in inner or len(prefix) == length:
            return abs(passed - expected)
        total: Number = 0
        for token, p in enumerate(target_at(prefix)):
            longer = (*prefix, token)
            total += distance(longer, passed * p + law.stops.get(longer, 0), expected * p)
        return total

    return distance((), 0, 1) / 2


def sequences(law: Law, target_at: TargetAt, length: int, vocab: int) -> Iterator[tuple[Tokens, Number]]:
    """Every sequence of `length` tokens with its probability under the law continued by the target."""
    for sequence in product(range(vocab), repeat=length):
        mass: Number = 0
        for i in range(length):
            mass = mass * target_at(sequence[:i])[sequence[i]] + law.stops.get(sequence[: i + 1], 0)
        yield sequence, mass
