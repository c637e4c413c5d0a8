"""Samplers that are wrong on purpose, as a user meets them: whole subjects, one fault each. One family a file.

Any of them can be put under test as `verify.mutants:NAME`. What catches which is in docs/mutants.md.
"""

from __future__ import annotations

from verify.mutants import drafts, randomness, rules, targets, transport, trees
from verify.mutants.mutant import Mutant
from verify.subjects import Factory

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for family in (randomness, drafts, targets, rules, trees, transport)
    for mutant in family.MUTANTS
}


def __getattr__(name: str) -> Factory:
    """The factory of a mutant by its name."""
    if name in MUTANTS:
        return MUTANTS[name].subject
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
