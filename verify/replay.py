"""A file that plays a lossy trial again: its toy, its settings, its seed and its looks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rheo.config import Config
from rheo.files import unused, write_text
from verify.battery import Trial
from verify.cases import Case, CaseError, document, parse
from verify.plan import Claims, Plan, planned


def save(plan: Plan, place: int, looks: int, folder: Path) -> Path:
    """The file, in a folder, under a name that no other has."""
    trial = plan.trials[place]
    # A case file's own form of a toy; what it says of a configuration is left out.
    toy = {key: value for key, value in document(Case(trial.name, trial.toy, Config())).items() if key != "config"}
    record = {
        "kind": "replay",
        "version": 1,
        "sampler": str(plan.sampler),
        "name": trial.name,
        "length": trial.length,
        "settings": trial.settings,
        "seed": plan.seed,
        "sizes": list(plan.sizes[place][:looks]),
        "claims": asdict(plan.claims),
        "toy": toy,
    }
    stem = f"{''.join(c if c.isalnum() else '-' for c in str(plan.sampler))[-60:]}-{Path(trial.name).stem}"
    path = unused(folder, stem)
    write_text(path, json.dumps(record, indent=1) + "\n")
    return path


def load(path: Path, sampler: str | None) -> Plan:
    """The plan of a file; sampler: another than the one it names. CaseError for anything that `save` did not write."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record["kind"] != "replay" or record["version"] != 1:
            raise CaseError(str(path), "kind", "no replay file of this version")
        toy = parse(json.dumps({**record["toy"], "config": {"anchors": 0, **_ANY}}), str(path)).toy
        trial = Trial(str(record["name"]), toy, int(record["length"]), dict(record["settings"]))
        sizes = (tuple(int(size) for size in record["sizes"]),)
        numbers = (record["seed"], record["length"], *record["sizes"])
        whole = all(isinstance(n, int) and 0 <= n <= _LARGEST for n in numbers)
        if not whole or trial.length < 1 or not sizes[0] or sizes[0][0] < 1 or [*sizes[0]] != sorted(sizes[0]):
            raise CaseError(str(path), "", "a seed of at least 0, a length and growing sizes of at least 1 are needed")
        claims = Claims(**record["claims"])
        return planned(sampler or str(record["sampler"]), (trial,), claims, int(record["seed"]), sizes)
    except CaseError:
        raise
    except OSError as error:
        raise CaseError(str(path), "", error.strerror or str(error)) from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CaseError(str(path), "", f"no replay file: {type(error).__name__}: {error}") from None


_LARGEST = 1 << 40
_ANY = {"slots": 1, "beam": 1, "depth": 1, "budget": 1}
