"""The output has the target's law. Each function raises AssertionError where it does not."""

from __future__ import annotations

from reference import lazy
from reference.choose import Choose
from reference.decoding import Sampler, decode
from reference.distributions import Number
from reference.methods import METHODS, Method
from reference.tree import Tokens
from verify.cases import Case
from verify.enumeration import enumerate_outcomes
from verify.judgement import judge_torch
from verify.laws import Law, exact_law, target_of, total_variation


def has_the_targets_law(case: Case, method: Method, limit: int | None = None) -> None:
    """The output law of one round, continued by the target, is the target's in Fractions.

    TooManyOutcomesError beyond `limit` classes.
    """
    law, _ = exact_law(case, method, limit)
    assert total_variation(law, target_of(case), case.config.depth + 1) == 0


def exact_sampler(case: Case, method: Method) -> Sampler:
    """The reference on a case, in Fractions, drawing only the probes that it keeps."""
    return Sampler(case.toy.target.exact, case.toy.draft.exact, case.config, method, lazy.grow)


def rounds_have_the_targets_law(case: Case, sampler: Sampler, rounds: int, limit: int | None = None) -> None:
    """The joint law of several rounds, continued by the target, is the target's: every round continues the last.

    sampler: such as `exact_sampler` gives. TooManyOutcomesError beyond `limit` ways that the rounds can fall.
    """

    def run(choose: Choose) -> Tokens:
        return tuple(token for path in decode(sampler, (), rounds, lambda _: choose) for token in path.tokens)

    stops: dict[Tokens, Number] = {}
    for outcome in enumerate_outcomes(run, limit):
        stops[outcome.result] = stops.get(outcome.result, 0) + outcome.mass
    assert total_variation(Law(stops), target_of(case), rounds * (case.config.depth + 1)) == 0


def torch_has_the_targets_law(case: Case, method: str) -> None:
    """The torch sampler, measured from outside in float64."""
    judged = judge_torch(case, method)
    assert judged.lossless, judged.faults
    assert abs(judged.accepted - float(exact_law(case, METHODS[method])[0].accepted)) < 1e-9
