"""Measuring shapes at round starts that no benchmark uses: texts that the target goes on with where a head's training
texts begin."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rheo.config import Config
from rheo.decoding import Pair, Sampler, play_round
from rheo.growths.static import Static
from rheo.methods import METHODS, Method
from rheo.models.generation import Limits, generate
from rheo.rules import RULES
from rheo.shapes import complete, families
from rheo.tree import Path, Tree
from rheo.uniforms import Uniforms, draw_uniforms
from verify.benchmark import expected
from verify.benchmark.clock import Watched
from verify.benchmark.plan import Plan, values
from verify.benchmark.pruning import narrowed, pruned
from verify.benchmark.shapes import MEASURED
from verify.benchmark.siblings import in_turn, siblings_of
from verify.benchmark.texts import Models, Record, target_law
from verify.calibrating.starts import round_starts

_EACH = 2  # round starts of a text
_TRIED = (1, 2, 3, 4, 5, 6, 8, 10)  # children a node
_LEAST = 1e-6  # of the first acceptance rate
# Like Sequoia's, but with as many children everywhere: every rate is seen equally often.
EVEN = Method(Static(complete, repeats=False), RULES["multi_round_distinct"])


def measure(models: Models, plan: Plan, temperature: float, seed: int) -> Record:
    """What `shapes.of_record` reads.

    contexts: how many. tau: method, budget, K to the mean of expected tokens. acceptance: how often the first, second,
    ... of `slots` children is the one accepted, of all times that their parent is reached. ValueError as `generate`.
    """
    starts = round_starts(models.target, models.tokenizer, plan.openings, _EACH, temperature, seed)
    config = replace(plan.config, temperature=temperature)
    budgets = [int(value or 0) for value in values(plan, "budget")] or [config.budget]
    names = [name for name in MEASURED if name in plan.shaped and starts]
    tried = sorted({k for k in _TRIED if k < config.slots} | {config.slots})
    # Keys are texts, as they are when the record was read from a file.
    taus = {name: {str(budget): {str(k): 0.0 for k in tried} for budget in budgets} for name in names}
    sums = torch.zeros(2, config.slots, dtype=torch.float64)

    @torch.inference_mode()
    def look(pair: Pair, index: int, device: torch.device) -> None:
        for k in tried if names else ():
            wide = replace(config, anchors=0, slots=k, budget=max(budgets))
            tree, p = _drafted(pair, wide, METHODS[names[0]], draw_uniforms(wide, [seed], index, device))
            for budget in budgets:
                # Level by level from the left: a smaller tree is the beginning of a larger one.
                size = min(budget, tree.tokens.shape[1])
                less, there = pruned(tree, range(size)), p[:, : size + 1]
                for name in names:
                    reach = expected.REACH[METHODS[name].rule](less, there)
                    taus[name][str(budget)][str(k)] += float(expected.tokens(less, reach)[0]) / len(starts)
        if "sequoia" in plan.shaped:
            even = replace(config, anchors=0, budget=max(*budgets, config.slots))
            tree, p = _drafted(pair, even, EVEN, draw_uniforms(even, [seed], index, device))
            sums.add_(rates(tree, p, even).cpu())

    for index, start in enumerate(starts):

        def play(sampler: Sampler, pair: Pair, uniforms: Uniforms, index: int = index) -> tuple[Tree, Path]:
            look(pair, index, uniforms.draw.device)
            return play_round(sampler, pair, uniforms)

        least = Sampler(replace(config, anchors=0, slots=1, depth=1, budget=1), METHODS["chain"])
        for _ in generate(models.target, models.drafter, least, [start], [seed], Limits(1), play=play):
            pass
    found = (sums[0] / sums[1]).tolist() if bool((sums[1] > 0).all()) else []
    return {
        "contexts": len(starts),
        "tau": taus,
        "acceptance": [max(round(rate, 6), _LEAST if i == 0 else 0.0) for i, rate in enumerate(found)],
    }


def _drafted(pair: Pair, config: Config, method: Method, uniforms: Uniforms) -> tuple[Tree, Tensor]:
    """A tree and p at its rows, both over the few tokens that matter."""
    watched = Watched(pair, lambda: None)
    sampler = Sampler(config, method)
    tree, _ = play_round(sampler, watched, uniforms)
    return narrowed(tree, target_law(sampler, watched.seen[0]))


def rates(tree: Tree, p: Tensor, config: Config) -> Tensor:
    """float64 [2, slots]: how often each child of the parents that have all of them is the one accepted; how often
    such a parent is reached, once for every child. Summed over N trees."""
    turns = in_turn(siblings_of(tree, p), repeats=False)
    reach = expected.distinct(tree, p)
    place = {path: row for row, path in enumerate(complete(config), start=1)} | {(): 0}
    whole = [place[path] for path, family in families(complete(config)).items() if len(family) == config.slots]
    weight = reach[:, whole].unsqueeze(-1).expand(-1, -1, config.slots)
    each = (turns.accepted + turns.after_all)[:, whole]
    return torch.stack([(weight * each).sum((0, 1)), weight.sum((0, 1))])
