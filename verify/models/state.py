"""A run's progress as a file: a run that was stopped goes on from there, batch by batch, to the same verdict."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rheo.files import write_text
from verify.checkpoint import CheckpointError
from verify.models.checks import Checked
from verify.models.plan import Plan
from verify.models.run import Progress
from verify.models.scores import Scores

_KIND, _VERSION = "models checkpoint", 1


def identity(plan: Plan, names: dict[str, str]) -> dict[str, Any]:
    """What must be the same for a run to be gone on with. names: of the models, as they were asked for."""
    prompts = hashlib.sha256(repr(plan.prompts).encode()).hexdigest()[:16]
    config = {key: str(value) for key, value in asdict(plan.config).items()}
    limits = {"max_new_tokens": plan.limits.max_new_tokens, "eos": sorted(plan.limits.eos)}
    fixed = {key: getattr(plan, key) for key in ("tokens", "seed", "alpha", "beta")}
    return {**names, "methods": list(plan.methods), "config": config, "prompts": prompts, "limits": limits, **fixed}


def save(path: Path, plan: Plan, names: dict[str, str], progress: Progress) -> None:
    """Replace the file by the progress, whole or not at all. OSError."""
    document = {
        "kind": _KIND,
        "version": _VERSION,
        "identity": identity(plan, names),
        "checks": {method: asdict(checks) for method, checks in progress.checks.items()},
        "scores": {part: _encoded(scores) for part, scores in progress.scores.items()},
    }
    write_text(path, json.dumps(document) + "\n")


def load(path: Path, plan: Plan, names: dict[str, str]) -> Progress:
    """The saved progress. CheckpointError for a file of another run, or one that `save` did not write; OSError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["kind"] != _KIND or document["version"] != _VERSION:
            raise CheckpointError(f"{path}: no checkpoint of a run on models, of this version")
        saved, wanted = document["identity"], identity(plan, names)
        other = [key for key in wanted if saved.get(key) != wanted[key]]
        if other:
            raise CheckpointError(f"{path}: of another run: its {', '.join(other)} differ; remove it or name another")
        return Progress(
            {part: _decoded(scores) for part, scores in document["scores"].items()},
            {method: Checked(**checks) for method, checks in document["checks"].items()},
        )
    except CheckpointError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{path}: no checkpoint: {type(error).__name__}: {error}") from None


def _encoded(scores: Scores) -> dict[str, Any]:
    return {
        "pit": {order: pit.tolist() for order, pit in scores.pit.items()},
        "strata": {kind: labels.tolist() for kind, labels in scores.strata.items()},
        "impossible": scores.impossible,
        "requests": scores.requests,
    }


def _decoded(values: dict[str, Any]) -> Scores:
    return Scores(
        {order: np.array(pit, dtype=np.float64) for order, pit in values["pit"].items()},
        {kind: np.array(labels, dtype=np.int64) for kind, labels in values["strata"].items()},
        int(values["impossible"]),
        int(values["requests"]),
    )
