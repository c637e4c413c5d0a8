"""The law of the torch sampler, measured from outside: driven through every class and both ends of every cell.

The reference names the classes and the cells. Each outcome is asked for with uniforms just inside both ends of its
cells and must come out both times; a midpoint alone cannot see a wrong acceptance probability. Then every boundary
between two cells is located by bisection. The cell widths found that way are the sampler's law, whatever its code
says about itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from reference.distributions import Array, Number
from reference.growth import DraftAt, Growth, TreeGrowth
from reference.growths.static import Static
from reference.methods import METHODS as REFERENCE
from reference.rules import TreeRule
from reference.tree import SlotPath, Tokens, Tree
from reference.truncation import weights_from_logits
from reference.verification import survivors
from rheo.decoding import play_round
from rheo.methods import METHODS
from verify.boundaries import HALVINGS, Boundary, Class, Key, inner, locate, probe_boundaries, query_of, step_boundaries
from verify.cases import Case
from verify.cells import ONE_BELOW, Stop, Turn, by_coin, probes_of, regrown, walk, with_exact_plans
from verify.enumeration import InconclusiveError, Outcome
from verify.laws import Law, StepLaw, classes_of, compose, step_key, target_of, tree_key, walks
from verify.player import Player, Query
from verify.precision import Precision
from verify.subjects import PlayRound


@dataclass(frozen=True)
class Measured:
    """What driving found.

    law: in floats. classes: how many. rounds: how many were played. faults: a line per outcome that did not come.
    narrow: ends not tried because their cell is narrower than the dtype's rounding (its boundaries are located).
    assumed: probability of what could not be driven to, because some cell on the way is as narrow; there the
    boundaries are taken to be the reference's.
    boundary_error: the largest distance of a boundary from its place in the reference, times its coin's probability.
    posterior_ok: every surviving probe's cells are as wide as q~ says; None where nothing is drawn.
    """

    law: Law
    classes: int
    rounds: int
    narrow: int
    assumed: float
    boundary_error: float
    posterior_ok: bool | None
    faults: list[str]


@dataclass(frozen=True)
class Trial:
    """A round whose outcome is known: the class's tree, then these first emitted tokens, the last drafted or not."""

    query: Query
    tree: Tree
    tokens: Tokens
    drafted: bool


def measure(
    case: Case, method: str, precision: Precision, limit: int | None = None, play: PlayRound = play_round
) -> Measured:
    """Drive the torch sampler through a case. TooManyOutcomesError beyond `limit` classes.

    InconclusiveError where a tree has a fixed shape: its coins have as many sides as a node has children.
    """
    reference = REFERENCE[method]
    if isinstance(reference.growth, Static):
        raise InconclusiveError(
            f"{method}: torch is held to the reference, but not driven through trees of fixed shape"
        )
    player = Player(case, METHODS[method], precision.dtype, play)
    target_at = target_of(case)
    classes = [
        class_of(outcome, case, reference.growth)
        for outcome in classes_of(seen_draft(case, precision.dtype), case.config, reference, limit)
    ]
    known: dict[object, tuple[Turn, ...]] = {}
    trials: list[Trial] = []
    boundaries: dict[Key, Boundary] = {}
    narrow, assumed, least = 0, 0.0, 4 * precision.noise
    taken: dict[Key, float] = {}
    for each in classes:
        way = [probe.cell.width for probe in each.probes]
        for key, boundary in probe_boundaries(each, case):
            if boundary.other > least:
                boundaries[key] = boundary
            elif key not in taken:
                assumed += float(boundary.other)
                taken[key] = float(boundary.at)
        for stop in walk(each.tree, target_at, reference.rule, known):
            here = float(prod(way) * stop.reach)
            if min([*way, *(turn.mass for turn in stop.route)], default=1) <= least:
                assumed += here
                taken.update((key, float(b.at)) for key, b in step_boundaries(each, stop, case))
                continue
            for key, boundary in step_boundaries(each, stop, case):
                if boundary.other > least:
                    boundaries[key] = boundary
                else:
                    assumed += here * float(boundary.other)
                    taken[key] = float(boundary.at)
            for turn in stop.turns:
                wide = min(turn.draw.width, turn.coin.width) * turn.spread > least
                narrow += 0 if wide else 2
                trials += trials_of(each, stop, turn, case, precision) if wide else []
    faults = play_trials(player, trials)
    found, lost = locate(player, boundaries, precision)
    located = {**taken, **found}
    faults += lost
    off = [abs(located[key] - float(b.at)) * float(b.spread) for key, b in boundaries.items()]

    def step_at(tree: Tree, path: SlotPath, tokens: Tokens) -> StepLaw:
        key = step_key(tokens, survivors(tree, path, case.toy.vocab))
        law: StepLaw = {}
        for turn, mass in measured_turns(key, known[key], located):
            outcome = turn.token if turn.drafted else None, turn.token
            law[outcome] = law.get(outcome, 0) + mass
        return law

    def stops_at(tree: Tree) -> dict[Tokens, Number]:
        if isinstance(reference.rule, TreeRule):
            key = tree_key(tree)
            return {turn.tokens: mass for turn, mass in measured_turns(key, known[key], located)}
        return walks(tree, step_at)

    masses = [class_mass(each, located) for each in classes]
    drawn = [abs(located[k] - float(b.at)) for k, b in boundaries.items() if k[0] == "probe"]
    return Measured(
        law=compose(zip(masses, (each.tree for each in classes), strict=True), stops_at),
        classes=len(classes),
        rounds=len(trials) + len(boundaries) * (HALVINGS + 2),
        narrow=narrow,
        assumed=assumed,
        boundary_error=max(off, default=0.0),
        posterior_ok=all(x <= precision.lossless for x in drawn) if any(c.probes for c in classes) else None,
        faults=faults,
    )


def class_of(outcome: Outcome[Tree], case: Case, growth: Growth | TreeGrowth) -> Class:
    """A class named by float scores, with its laws in Fractions."""
    if isinstance(growth, TreeGrowth):
        tree = regrown(growth, outcome.decisions, case)
    else:
        tree = with_exact_plans(outcome.result, case, growth)
    return Class(tree, probes_of(tree, outcome.decisions))


def seen_draft(case: Case, dtype: torch.dtype) -> DraftAt:
    """The draft as the torch sampler sees it: weights in float64 of logits rounded to its dtype."""

    def draft_at(tokens: Tokens) -> Array:
        return weights_from_logits(torch.from_numpy(case.toy.draft.logits(tokens)).to(dtype).numpy())

    return draft_at


def trials_of(each: Class, stop: Stop, turn: Turn, case: Case, precision: Precision) -> Iterator[Trial]:
    """One turn at the lower, then at the upper end of all its cells and of all the class's probes.

    What no decision of the class reads (unreached probes, later steps) is 0 in the one and 1 - ulp in the other. So
    is every uniform whose cell ends there, but for what rounding decides where p equals q~: a coin that always
    accepts may miss 1 by an ulp, and a residual may keep a sliver of a token at either end.
    """
    depth, whole = len(stop.path), stop.children is None
    margin = precision.inside / float(turn.spread)
    for end in (0, 1):
        ends = {
            case.config.expansion(probe.site.depth, probe.site.rank): probe.cell.ends(precision.inside)[end]
            for probe in each.probes
            if probe.cell.width > 4 * precision.noise
        }
        query = query_of(each, case, ends, stop.route, others=(0.0, ONE_BELOW)[end])
        probe = (each.probes or None) if stop.children is None else stop.children.probe
        plain = probe is None
        accepting = turn.coin.low == 0 and any(t.drafted and t.token == probe for t in stop.turns)
        to_one = plain if whole else not accepting
        query.coins[depth] = turn.coin.ends(precision.inside, from_zero=plain or not whole, to_one=to_one)[end]
        query.draws[depth] = turn.draw.ends(margin, from_zero=plain, to_one=plain)[end]
        yield Trial(query, each.tree, (*stop.tokens, *turn.tokens), turn.drafted)


def play_trials(player: Player, trials: list[Trial]) -> list[str]:
    """Play them all; a line for each whose outcome is another than the reference's."""
    played = player.play(player.numbers([trial.query for trial in trials]))
    faults = []
    for row, trial in enumerate(trials):
        if (tree := played.tree(row)) != expected_tree(trial.tree):
            faults.append(f"tree {tree} in place of {expected_tree(trial.tree)} under {trial.query}")
        elif (seen := played.start(row, len(trial.tokens))) != (trial.tokens, trial.drafted):
            faults.append(f"emitted {seen} in place of {(trial.tokens, trial.drafted)} under {trial.query}")
    return faults


def expected_tree(tree: Tree) -> tuple[tuple[int, int, int], ...]:
    """(token, row of the parent, slot) of every kept node, as `Played.tree` gives it."""
    row = {(): 0, **{node.path: i for i, node in enumerate(tree.nodes, start=1)}}
    return tuple((node.token, row[node.path[:-1]], node.path[-1]) for node in tree.nodes)


def class_mass(each: Class, located: dict[Key, float]) -> float:
    """The probability of a class from the measured widths of its probes' cells."""
    mass = 1.0
    for i, probe in enumerate(each.probes):
        ends = [0.0, *(located[(*each.prefix(i), k)] for k in inner(probe.law)), 1.0]
        place = [int(k) for k in np.flatnonzero(probe.law)].index(probe.index)
        mass *= ends[place + 1] - ends[place]
    return mass


def measured_turns(key: Key, turns: tuple[Turn, ...], located: dict[Key, float]) -> Iterator[tuple[Turn, float]]:
    """Every turn of a step with its probability, from the measured widths of its coin's and draws' cells."""
    sides = by_coin(turns)
    coins = [0.0, *(located[("coin", key, k)] for k in range(len(sides) - 1)), 1.0]
    for (side, group), chance in zip(sides.items(), np.diff(coins).tolist(), strict=True):
        draws = [0.0, *(located[("draw", key, side, turn.token)] for turn in group[:-1]), 1.0]
        yield from ((turn, chance * width) for turn, width in zip(group, np.diff(draws).tolist(), strict=True))
