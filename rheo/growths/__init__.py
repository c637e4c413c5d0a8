"""Growth rules: which slots a parent has and what each is worth, or what the whole tree is. One rule a file, one line
here."""

from rheo.growth import Growth, TreeGrowth
from rheo.growths import calibrated, rheo, topk
from rheo.growths.chain import Chain
from rheo.growths.static import Static
from rheo.sequoia import optimal
from rheo.shapes import complete

__all__ = ["GROWTHS", "TREE_GROWTHS", "Growth", "TreeGrowth"]

GROWTHS: dict[str, Growth] = {"rheo": rheo.plan, "topk": topk.plan, "calibrated": calibrated.plan}
TREE_GROWTHS: dict[str, TreeGrowth] = {
    "chain": Chain(),
    "independent": Static(complete, repeats=True),
    "sequoia": Static(optimal, repeats=False),
}
