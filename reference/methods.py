"""Methods by name: a growth rule with the verification rule that makes it lossless."""

from __future__ import annotations

from dataclasses import dataclass

from reference.growths import GROWTHS, TREE_GROWTHS, Growth, TreeGrowth
from reference.rules import RULES, TREE_RULES, Rule, TreeRule


@dataclass(frozen=True)
class Method:
    """What a parent's slots are, and how the tree is verified."""

    growth: Growth | TreeGrowth
    rule: Rule | TreeRule


METHODS: dict[str, Method] = {
    "rheo": Method(GROWTHS["rheo"], RULES["probe_first"]),
    "rrsw": Method(GROWTHS["rheo"], RULES["rrsw"]),
    "topk": Method(GROWTHS["topk"], RULES["point_mass"]),
    "rheo-transport": Method(GROWTHS["rheo"], TREE_RULES["transport"]),
    "calibrated": Method(GROWTHS["calibrated"], RULES["probe_first"]),
    "calibrated-transport": Method(GROWTHS["calibrated"], TREE_RULES["transport"]),
    "adaptive-transport": Method(GROWTHS["adaptive"], TREE_RULES["transport"]),
    "chain": Method(TREE_GROWTHS["chain"], RULES["probe_first"]),
    "block": Method(TREE_GROWTHS["chain"], TREE_RULES["transport"]),
    "specinfer": Method(TREE_GROWTHS["independent"], RULES["multi_round"]),
    "spectr": Method(TREE_GROWTHS["independent"], RULES["k_seq"]),
    "sequoia": Method(TREE_GROWTHS["sequoia"], RULES["multi_round"]),
}
SLOTTED = tuple(name for name, method in METHODS.items() if not isinstance(method.growth, TreeGrowth))  # by slots
PAPER = ("rheo", "rrsw", "topk")  # what is compared unless a method is named
