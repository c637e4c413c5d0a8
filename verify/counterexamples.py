"""Packaged cases that show where probe-first verification is not the best rule. All are lossless.

one_node_with_fillers: a single node with one filler. RRSw accepts always, probe-first does not, so with
fillers probe-first neither dominates RRSw nor attains the transport bound.
whole_tree: no fillers, and still RRSw's round accepts more. Whether the anchor keeps its child depends on
which token the probe is, and probe-first accepts the anchor mostly beside the wrong one. One token is never
drafted.
whole_tree_full_support: the same effect where the draft may propose every token at the root.
"""

from __future__ import annotations

from pathlib import Path

from verify.cases import Case, load

FOLDER = Path(__file__).with_name("data") / "counterexamples"
NAMES = ("one_node_with_fillers", "whole_tree", "whole_tree_full_support")


def counterexample(name: str) -> Case:
    """One of NAMES, with its exact expectations for every method. CaseError if there is no such file."""
    return load(FOLDER / f"{name}.json")
