"""Mutants whose acceptance or residual is wrong: a verification rule with one term exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from rheo.decoding import Pair, Sampler
from rheo.distributions import counting, residual
from rheo.rules import Rule
from rheo.rules.children import Children, accepts
from rheo.tree import Path, Tree
from rheo.uniforms import Uniforms
from verify.mutants.drafts import drafted, whole
from verify.mutants.mutant import Mutant, with_rule

Term = Callable[[Tensor, Children], Tensor]  # p [N, V], children -> a ratio [N, 1], or weights [N, V]


def ratio(p: Tensor, children: Children) -> Tensor:
    """p(x) / q~(x) of the probe x: what its coin is compared with."""
    return p.gather(-1, children.probe) / children.drawn


def rest(p: Tensor, children: Children) -> Tensor:
    """What a rejected probe leaves of p."""
    return residual(p, children.tail, children.law)


def probe_first(ratio: Term = ratio, rest: Term = rest) -> Rule:
    """RheoSampling's rule from its two terms; p where there is no probe."""

    def rule(p: Tensor, children: Children, coin: Tensor) -> Tensor:
        probed = children.drawn > 0
        accepted = probed & (coin.unsqueeze(-1) < ratio(p, children))
        left = torch.where(probed, rest(p, children), p)
        return torch.where(accepted, point(children.probe, p), left)

    return rule


def point(tokens: Tensor, p: Tensor) -> Tensor:
    """All mass on tokens int64 [N, 1], as [N, V]."""
    return one_hot(tokens.squeeze(-1), p.shape[-1]).to(p.dtype)


def _at_most(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    accepted = (children.drawn > 0) & (coin.unsqueeze(-1) <= ratio(p, children))
    return torch.where(accepted, point(children.probe, p), rest(p, children))


def _typical(p: Tensor, children: Children) -> Tensor:
    """Medusa's criterion: likely enough in itself, or for so flat a p; 1 or 0 in place of a ratio."""
    entropy = -torch.special.xlogy(p, p).sum(-1, keepdim=True)
    return (p.gather(-1, children.probe) > (0.3 * (-entropy).exp()).clamp(max=0.09)).to(p.dtype)


def _second_chance(p: Tensor, children: Children) -> Tensor:
    rejected: Tensor = 1 - ratio(p, children).clamp(max=1)
    return 1 - rejected * rejected


def _without_probe(p: Tensor, children: Children) -> Tensor:
    left = p.scatter(-1, children.probe, 0.0)
    return torch.where(left.sum(-1, keepdim=True) > 0, left, p)


def _unclamped(p: Tensor, children: Children) -> Tensor:
    return (p.scatter_add(-1, children.tail, -children.law)).abs()


def _next_id(p: Tensor, children: Children) -> Children:
    vocab = p.shape[-1]
    return replace(children, probe=(children.probe + 1) % vocab, tail=(children.tail + 1) % vocab)


def unfiltered(p: Tensor) -> Tensor:
    """A p that top-p made, as it may have been before: what p rules out holds an eighth of the mass."""
    out = (p == 0).to(p.dtype)
    return torch.where(out.any(-1, keepdim=True), (7 * p + out / out.sum(-1, keepdim=True)) / 8, p)


def unbiased(p: Tensor) -> Tensor:
    """A p that a logit bias of 1 for every odd token made, as it was before."""
    raw = p * torch.exp(-(counting(p.shape[-1], p.device) % 2).to(p.dtype))
    return raw / raw.sum(-1, keepdim=True)


def _whole_law(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """Where the tree carries q in place of q~, renormalised for the acceptance but not for the residual."""
    total = children.law.sum(-1, keepdim=True)
    return probe_first(ratio=lambda p, c: ratio(p, c) * total)(p, children, coin)


def _with_whole_law(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
    broken = replace(sampler, method=replace(sampler.method, rule=_whole_law))
    return drafted(declared=whole)(broken, pair, uniforms)


def _mass_forgotten(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """RRSw that tests the probe against p itself, not against what the rejected anchors left of it."""
    anchors = children.anchors.clamp(min=0)
    on_anchors = torch.where(children.anchors >= 0, p.gather(-1, anchors), 0.0)
    beside = p.scatter_add(-1, anchors, -on_anchors)
    accepted = accepts(beside, children, coin)
    mass = beside.sum(-1, keepdim=True)
    left = torch.where(children.drawn > 0, residual(beside / mass, children.tail, children.law), beside)
    left = torch.where(accepted, point(children.probe, p), left)
    left = mass * left / left.sum(-1, keepdim=True)
    return torch.where(mass > 0, left, 0.0).scatter_add(-1, anchors, on_anchors)


def _each_against_p(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """Child after child is accepted with p(x), also when earlier ones were rejected."""
    anchors = children.anchors.clamp(min=0)
    on_anchors = torch.where(children.anchors >= 0, p.gather(-1, anchors), 0.0)
    rejected = (1 - on_anchors).cumprod(-1)
    taken = on_anchors * torch.cat([torch.ones_like(rejected[:, :1]), rejected[:, :-1]], -1)
    left = p.scatter_add(-1, anchors, -on_anchors).clamp(min=0)
    left = left / left.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    return (rejected[:, -1:] * left).scatter_add(-1, anchors, taken)


def _likeliest_child(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """A child that is the target's likeliest token is taken, whatever the temperature."""
    best = p.argmax(-1, keepdim=True)
    return torch.where((children.anchors == best).any(-1, keepdim=True), point(best, p), p)


def _rule(name: str, fault: str, symptom: str, ratio: Term = ratio, rest: Term = rest) -> Mutant:
    return Mutant(name, fault, symptom, play=with_rule(probe_first(ratio, rest)))


MUTANTS = (
    Mutant(
        "accepts_on_at_most",
        "a probe is accepted on u <= a: at u = 0 also where p rules it out",
        "the comparison of published pseudocode, taken literally",
        play=with_rule(_at_most),
    ),
    _rule(
        "threshold_below_one",
        "a probe is accepted with probability p / (0.8 q~)",
        "a threshold in front of the acceptance probability",
        ratio=lambda p, c: ratio(p, c) / 0.8,
    ),
    _rule(
        "typical_acceptance",
        "a probe is accepted where p makes it typical",
        "typical acceptance offered beside lossless modes",
        ratio=_typical,
    ),
    _rule(
        "ratio_upside_down",
        "a probe is accepted with probability q~ / p",
        "the two models exchanged in the acceptance",
        ratio=lambda p, c: 1 / ratio(p, c),
    ),
    _rule(
        "one_hot_acceptance",
        "a probe is accepted with probability p(x), and its residual is that of q~",
        "a sampled draft accepted as one-hot and rejected as sampled",
        ratio=lambda p, c: p.gather(-1, c.probe),
    ),
    _rule(
        "duplicate_accepted_twice",
        "a rejected probe is tested once more as if it were another child",
        "a token proposed twice and tested twice against the same p",
        ratio=_second_chance,
    ),
    _rule(
        "draft_offset_missing",
        "the acceptance reads p at the next token's id",
        "ids of a draft's own vocabulary looked up in the target's",
        ratio=lambda p, c: ratio(p, _next_id(p, c)),
    ),
    _rule(
        "draft_offset_shifted",
        "the residual subtracts q~ at the next tokens' ids",
        "a draft's vocabulary mapped with an offset that is off by one",
        rest=lambda p, c: rest(p, _next_id(p, c)),
    ),
    _rule(
        "top_p_left_out_of_acceptance",
        "the acceptance reads p as it was before top-p",
        "top-p applied where tokens are drawn, not where they are tested",
        ratio=lambda p, c: ratio(unfiltered(p), c),
    ),
    _rule(
        "top_p_left_out_of_residual",
        "the residual is that of p as it was before top-p",
        "top-p applied where tokens are tested, not where they are drawn",
        rest=lambda p, c: rest(unfiltered(p), c),
    ),
    _rule(
        "bias_left_out_of_acceptance",
        "the acceptance reads p without its logit bias",
        "a logit bias or penalty applied where tokens are drawn, not where they are tested",
        ratio=lambda p, c: ratio(unbiased(p), c),
    ),
    _rule(
        "bias_left_out_of_residual",
        "the residual is that of p without its logit bias",
        "a logit bias or penalty applied where tokens are tested, not where they are drawn",
        rest=lambda p, c: rest(unbiased(p), c),
    ),
    _rule(
        "softmax_residual",
        "a rejection draws from softmax(max(0, p - q~))",
        "softmax in place of the normalised residual",
        rest=lambda p, c: torch.softmax(rest(p, c), -1),
    ),
    _rule(
        "token_residual",
        "a rejection takes only the probe's token out of p",
        "a residual that subtracts only the drafted token's mass",
        rest=_without_probe,
    ),
    _rule(
        "no_residual",
        "a rejection draws from p",
        "the rejected position sampled again as if nothing had been drafted",
        rest=lambda p, c: p,
    ),
    _rule(
        "unclamped_residual",
        "a rejection draws from |p - q~|",
        "a residual without its clamp at zero",
        rest=_unclamped,
    ),
    _rule(
        "greedy_residual",
        "a rejection takes the likeliest token of the residual",
        "a recovered token by argmax",
        rest=lambda p, c: point(rest(p, c).argmax(-1, keepdim=True), p),
    ),
    Mutant(
        "residual_of_q",
        "the residual is max(0, p - q), with the q from which the anchors were not taken out",
        "a residual from the draft's whole law beside an acceptance by the tail's",
        play=_with_whole_law,
    ),
    Mutant(
        "rrsw_mass_forgotten",
        "RRSw tests its probe against p, not against what the anchors left of it",
        "a running residual that is not renormalised between candidates",
        method="rrsw",
        play=with_rule(_mass_forgotten),
    ),
    Mutant(
        "siblings_each_against_p",
        "every child is accepted with p(x), whichever were rejected before it",
        "candidates tested one by one without a running residual",
        method="topk",
        play=with_rule(_each_against_p),
    ),
    Mutant(
        "likeliest_child_taken",
        "a child that is the target's likeliest token is always accepted",
        "greedy verification at a temperature above zero",
        method="topk",
        play=with_rule(_likeliest_child),
    ),
)
