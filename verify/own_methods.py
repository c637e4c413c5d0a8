"""Methods that are not the project's: a user's own growth or rule, named by file, through the same proof.

What is proven of the project's growths, that slots not reached need not be drawn, is not taken for granted: every
probe is drawn, and whole trees are enumerated. A tree of fixed shape alone is composed node by node.
"""

from __future__ import annotations

from reference.growth import TreeGrowth
from reference.growths.static import Static
from reference.methods import Method
from reference.rules import Rule, TreeRule
from verify.cases import Case
from verify.classes import layered_trees
from verify.contract import RAISED, SamplerError, found, said
from verify.enumeration import InconclusiveError
from verify.judgement import Judgement, judge_law, judge_reference
from verify.laws import compose, draft_of, exact_stops, target_of


def own_method(spec: str) -> Method:
    """The object with `growth` and `rule` that `package.module:name` or `path/file.py:name` names.

    growth: (Draft, Config) -> SlotPlan, or a TreeGrowth. rule: a Rule or a TreeRule. SamplerError if it is none.
    """
    named = found(spec, "method", "name")
    if named is None:
        raise SamplerError(f"{spec}: there is no {spec.rpartition(':')[2]} in it")
    growth, rule = getattr(named, "growth", None), getattr(named, "rule", None)
    if not (callable(growth) or isinstance(growth, TreeGrowth)):
        raise SamplerError(f"{spec}: its growth is {type(growth).__name__}, must be a function or have a method grow")
    if not isinstance(rule, Rule | TreeRule):
        raise SamplerError(f"{spec}: its rule is {type(rule).__name__}, must be a Rule or a TreeRule")
    return Method(growth, rule)


def judge_own(case: Case, name: str, method: Method, limit: int | None = None) -> Judgement:
    """The law of a user's method on a case. InconclusiveError beyond `limit` trees, SamplerError for what it raises."""
    try:
        if isinstance(method.growth, Static):
            return judge_reference(case, name, limit, method)
        trees = list(layered_trees(draft_of(case), case.config, method, limit))
        law = compose(trees, exact_stops(target_of(case), method.rule))
        return judge_law(case, name, law, trees)
    except InconclusiveError:
        raise
    except RAISED as error:
        raise SamplerError(f"{name}: raised {said(error)}") from error
