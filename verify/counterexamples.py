"""Packaged cases that show where a rule that is usually better is not. All are lossless.

one_node_with_fillers: a single node with one filler. RRSw accepts always, probe-first does not, so with
fillers probe-first neither dominates RRSw nor attains the transport bound.
whole_tree: no fillers, and still RRSw's round accepts more. Whether the anchor keeps its child depends on
which token the probe is, and probe-first accepts the anchor mostly beside the wrong one. One token is never
drafted.
whole_tree_full_support: the same effect where the draft may propose every token at the root.
transport_behind: two tokens, two probes, and transport accepts less than probe-first. A refused probe hands what it
covered to the whole tree, away from the branch where a filler would have caught it.
"""

from __future__ import annotations

from pathlib import Path

from verify.cases import Case, load

FOLDER = Path(__file__).with_name("data") / "counterexamples"
NAMES = ("one_node_with_fillers", "whole_tree", "whole_tree_full_support", "transport_behind")


def counterexample(name: str) -> Case:
    """One of NAMES, with exact expectations, at least for the paper's methods. CaseError if there is no such file."""
    return load(FOLDER / f"{name}.json")
