"""Growth rules: which slots a parent has and what each is worth, or what the whole tree is. One rule a file, one line
here."""

from reference.growth import Growth, TreeGrowth
from reference.growths import calibrated, rheo, topk
from reference.growths.chain import Chain
from reference.growths.static import Static, with_replacement, without_replacement
from rheo.sequoia import optimal
from rheo.shapes import complete

__all__ = ["GROWTHS", "TREE_GROWTHS", "Growth", "TreeGrowth"]

GROWTHS: dict[str, Growth] = {"rheo": rheo.plan, "topk": topk.plan, "calibrated": calibrated.plan}
TREE_GROWTHS: dict[str, TreeGrowth] = {
    "chain": Chain(),
    "independent": Static(complete, with_replacement),
    "sequoia": Static(optimal, without_replacement),
}
