"""A method of one's own goes through the same proof as the family, and one that is broken or unknown is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Rheo
from verify.gate import DATA

pytestmark = pytest.mark.exact

OWN = """
from reference.growths import rheo
from reference.methods import METHODS, Method
from reference.rules import RULES, Rule
from reference.rules.children import Verdict
from dataclasses import dataclass, replace

def low(draft, config):
    plan = rheo.plan(draft, config)
    return plan if plan.proxy is None else replace(plan, proxy=plan.proxy / 100)

def always(p, children, choose, depth):
    return Verdict(children.probe, p)

@dataclass(frozen=True)
class Raises:
    def grow(self, draft_at, config, choose):
        raise RuntimeError("out of leaves")

right = Method(rheo.plan, RULES["probe_first"])
late = Method(low, RULES["probe_first"])
hasty = Method(rheo.plan, Rule(always, always))
chain = METHODS["chain"]
sequoia = METHODS["sequoia"]
raises = Method(Raises(), RULES["probe_first"])
no_rule = Method(rheo.plan, None)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize(
    ("name", "status"),
    [("right", 0), ("late", 1), ("hasty", 1), ("chain", 0), ("sequoia", 0)],
)
def test_a_users_own_method_goes_through_the_same_proof(rheo: Rheo, own: Path, name: str, status: int) -> None:
    """Were probes drawn late, one that fillers outrank would seem right: the fillers are not known before it."""
    case = DATA / "counterexamples" / "one_node_with_fillers.json"
    seen, out, _ = rheo("law", case, "--method", f"{own}:{name}", "--json")
    assert seen == status
    assert f'"method": "{own}:{name}"' in out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "there is no nothing in it"),
        ("no_rule", "its rule is NoneType"),
        ("low", "its growth is NoneType"),
        ("low.growth", "there is no low.growth in it"),
        ("raises", "raised RuntimeError: out of leaves"),
    ],
)
def test_a_users_broken_method_is_one_line(rheo: Rheo, own: Path, name: str, said: str) -> None:
    status, out, err = rheo("law", DATA / "toys" / "ties.json", "--method", f"{own}:{name}", "--json")
    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_method_nobody_knows_is_one_line(rheo: Rheo) -> None:
    status, out, err = rheo("law", DATA / "toys" / "ties.json", "--method", "medusa")
    assert (status, out) == (2, "")
    assert "'medusa' is none of rheo," in err
