"""Expected tokens of all methods and variants at the same round starts, along one text.

The text goes on by each method in turn: they are lossless, so its law is the target's, and no method chooses where
the rounds of all begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rheo.decoding import Pair, Sampler, play_round, processing
from rheo.growth import TreeGrowth
from rheo.methods import METHODS
from rheo.models.generation import Limits, generate
from rheo.tree import Path, Tree
from rheo.uniforms import Uniforms, draw_uniforms
from rheo.verification import verify
from verify.benchmark import depth_one, expected
from verify.benchmark.clock import Watched, between, marker
from verify.benchmark.plan import BASE, Plan, Variant, variants
from verify.benchmark.texts import Models, Record, target_law


@dataclass(frozen=True)
class Drafted:
    """One tree at a context: the methods that draft it, one's path, and what was seen; draft and growth in seconds."""

    variant: Variant
    methods: tuple[str, ...]
    tree: Tree
    path: Path
    watched: Watched
    draft: float
    growth: float


def compare(models: Models, plan: Plan, prompt: Sequence[int], at_temperature: float, seed: int) -> Record:
    """Every variant's trees at up to plan.contexts round starts of one text. ValueError as `generate`."""
    todo = variants(plan, at_temperature)
    stride = plan.max_new_tokens / plan.contexts
    starts: list[int] = []
    found: list[Record] = []
    emitted = [0]

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        index = len(emitted) - 1
        turn = plan.drafted[index % len(plan.drafted)]
        due = sum(emitted) >= len(starts) * stride and len(starts) < plan.contexts
        groups = [(variant, names) for variant in todo for names in variant.groups]
        # The tree that the text goes on with comes last: the pair's caches are then those of its round.
        last = next(group for group in groups if group[0].name == BASE and turn in group[1])
        others = [group for group in groups if group is not last] if due else []
        looks = []
        for variant, names in (*others, last):
            # Equal configurations draw with equal uniforms.
            own = draw_uniforms(variant.config, [seed], index, uniforms.probe.device)
            drafted = _draft(pair, variant, names, turn if turn in names else names[0], own)
            looks += [_look(drafted, own)] if due else []
        if due:
            starts.append(sum(emitted))
            found.append({"first": index == 0, "trees": looks})
        emitted.append(int(drafted.path.lengths[0]))
        return drafted.tree, drafted.path

    sampler = Sampler(todo[0].config, METHODS[plan.drafted[0]])  # every round is played by another
    limits = Limits(plan.max_new_tokens, models.eos)
    for _ in generate(models.target, models.drafter, sampler, [prompt], [seed], limits, play=play):
        pass
    return {"starts": starts, "variants": _variants(todo, found), "depth_one": _nodes(found)}


def _draft(pair: Pair, variant: Variant, names: tuple[str, ...], method: str, uniforms: Uniforms) -> Drafted:
    """Play a round by one of the methods that draft the same tree."""
    watched = Watched(pair, marker(uniforms.probe.device))
    begin = watched.mark()
    tree, path = play_round(Sampler(variant.config, METHODS[method]), watched, uniforms)
    draft = sum(between(*call) for call in watched.drafts)
    grown = between(begin, watched.targets[0][0])
    return Drafted(variant, names, tree, path, watched, draft, grown - draft)


@torch.inference_mode()
def _look(drafted: Drafted, uniforms: Uniforms) -> Record:
    """What one tree is worth to its methods, what each of them emits on it, and what its root's draft is like."""
    tree, config = drafted.tree, drafted.variant.config
    sampler = Sampler(config, METHODS[drafted.methods[0]])
    logits, process = drafted.watched.seen[0], processing(sampler)
    p = target_law(sampler, logits)
    reaches = {name: expected.REACH[METHODS[name].rule](tree, p) for name in drafted.methods}
    return {
        "variant": drafted.variant.name,
        "draft": drafted.draft,
        "growth": drafted.growth,
        "methods": {
            name: {
                "tau": float(expected.tokens(tree, reach)[0]),
                "reach": expected.by_depth(tree, reach, config.depth)[0].tolist(),
                "emitted": int(verify(tree, logits, uniforms, process, METHODS[name].rule).lengths[0]),
            }
            for name, reach in reaches.items()
        },
        "root": _root(drafted, sampler, p[0, 0]),
        "probe": _probe(tree, p, next(iter(reaches.values()))) if _has_probes(drafted) else None,
        "node": _node(drafted, p[0, 0]) if drafted.variant.name == BASE else None,
    }


def _has_probes(drafted: Drafted) -> bool:
    """One a node, that is, beside tokens that are not drawn."""
    return not isinstance(METHODS[drafted.methods[0]].growth, TreeGrowth) and drafted.tree.tail_law.shape[-1] > 0


def _root(drafted: Drafted, sampler: Sampler, p: Tensor) -> Record:
    """Mass of the support under p and q, and the overlap of p with q untruncated."""
    logits = drafted.watched.root[0][:, -1:]
    q, tempered = torch.softmax(logits.double(), -1)[0, 0], target_law(sampler, logits)[0, 0]
    support = drafted.tree.support[0, 0]
    return {
        "p": float(p[support].sum()),
        "q": float(q[support].sum()),
        "overlap": float(torch.minimum(p[: len(tempered)], tempered).sum()),
    }


def _probe(tree: Tree, p: Tensor, reach: Tensor) -> Record:
    """Nodes with children and how many of their probes survived; these probes' acceptance, weighted by reach."""
    probes = expected.probes_of(tree, p)
    parents = set(tree.parents[tree.occupied].tolist())
    weight = torch.where(probes.there, reach, 0.0)
    return {
        "parents": len(parents),
        "survived": int(probes.there.sum()),
        "weight": float(weight.sum()),
        "accepted": float((weight * expected.acceptance(probes)).sum()),
    }


def _node(drafted: Drafted, p: Tensor) -> Record:
    """By method, the root with all its children: how many, what is accepted, and the bounds."""
    tree, support = drafted.tree, drafted.tree.support[0, 0]
    fixed = isinstance(METHODS[drafted.methods[0]].growth, TreeGrowth)
    slots = int((tree.depths[0] == 1).sum()) if fixed else drafted.variant.config.slots
    beside = p.index_fill(0, support, 0.0).sum().unsqueeze(0)
    node = depth_one.Node(p[support], beside, tree.tail_law[0, 0], tree.anchors, slots)
    rules = {name: depth_one.AT_ONE_NODE[METHODS[name].rule] for name in drafted.methods}
    return {
        name: {
            "candidates": slots,
            "accepted": rule.accepted(node),
            "bound": rule.bound(node),
            "likeliest": depth_one.likeliest(p, slots),
        }
        for name, rule in rules.items()
    }


def _variants(todo: list[Variant], found: list[Record]) -> Record:
    """The trees of all contexts, gathered by variant: values of each context, sums of the rest."""
    gathered: Record = {}
    for variant in dict.fromkeys(each.name for each in todo):
        every = [(at["first"], [t for t in at["trees"] if t["variant"] == variant]) for at in found]
        methods = [name for each in todo if each.name == variant for name in each.methods]
        describing = [(first, _describing(trees, methods)) for first, trees in every]
        # At the first context the drafter reads the prompt besides.
        timed = [tree for first, tree in describing if not first]
        gathered[variant] = {
            "methods": {name: _method(name, [t for _, trees in every for t in trees]) for name in methods},
            "root": _sums([tree["root"] for _, tree in describing]),
            "probe": _sums([tree["probe"] for _, tree in describing if tree["probe"] is not None]),
            "timed": {"trees": len(timed), **_sums([{key: t[key] for key in ("draft", "growth")} for t in timed])},
        }
    return gathered


def _describing(trees: Sequence[Record], methods: Sequence[str]) -> Record:
    """The tree that the draft is described by: of the first method whose growth has probes, else of the first."""
    probing = [tree for tree in trees if tree["probe"] is not None] or trees
    return min(probing, key=lambda tree: min(map(methods.index, tree["methods"])))


def _method(name: str, trees: list[Record]) -> Record:
    values = [tree["methods"][name] for tree in trees if name in tree["methods"]]
    return {
        "tau": [value["tau"] for value in values],
        "emitted": [value["emitted"] for value in values],
        "reach": [sum(column) for column in zip(*(value["reach"] for value in values), strict=True)],
    }


def _sums(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: sum(record[key] for record in records) for key in records[0]} if records else {}


def _nodes(found: list[Record]) -> list[Record]:
    """By method, the roots of every context."""
    return [
        {name: value for tree in at["trees"] if tree["node"] is not None for name, value in tree["node"].items()}
        for at in found
    ]
