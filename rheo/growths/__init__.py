"""Growth rules: which slots a parent has and what each is worth. One rule a file, one line here."""

from collections.abc import Callable

from rheo.config import Config
from rheo.growths import calibrated, rheo, topk
from rheo.slots import SlotPlan
from rheo.truncation import Draft

Growth = Callable[[Draft, Config], SlotPlan]

GROWTHS: dict[str, Growth] = {"rheo": rheo.plan, "topk": topk.plan, "calibrated": calibrated.plan}
