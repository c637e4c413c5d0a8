"""Growth rules: which slots a parent has and what each is worth. One rule a file, one line here."""

from collections.abc import Callable

from reference.growths import calibrated, rheo, topk
from reference.slots import SlotPlan
from reference.truncation import Draft
from rheo.config import Config

Growth = Callable[[Draft, Config], SlotPlan]

GROWTHS: dict[str, Growth] = {"rheo": rheo.plan, "topk": topk.plan, "calibrated": calibrated.plan}
