"""A run's progress as a file: killed at any moment, it goes on from there to the same verdict."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rheo.files import write_text
from verify.goodness import Evidence
from verify.plan import Plan
from verify.run import Progress
from verify.shards import Pit
from verify.tally import Ruling, Tally

_VERSION = 2


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: one line with the file and the reason."""


def identity(plan: Plan) -> dict[str, Any]:
    """What must be the same for a run to be gone on with: the sampler's own text too, where it is one file."""
    where = str(plan.sampler).rpartition(":")[0]
    source = Path(where).read_bytes() if where.endswith(".py") and Path(where).is_file() else b""
    trials = repr([(t.name, t.toy, t.length, sorted(t.settings.items())) for t in plan.trials])
    return {
        "sampler": str(plan.sampler),
        "source": hashlib.sha256(source).hexdigest()[:16],
        "trials": hashlib.sha256(trials.encode()).hexdigest()[:16],
        "sizes": [list(sizes) for sizes in plan.sizes],
        "claims": asdict(plan.claims),
        "seed": plan.seed,
    }


def save(path: Path, plan: Plan, progress: Progress) -> None:
    """Write the progress of a plan; the file is replaced in one step."""
    record = {
        "kind": "checkpoint",
        "version": _VERSION,
        "identity": identity(plan),
        "looks": progress.looks,
        "seconds": progress.seconds,
        "tests": [asdict(test) for test in progress.tests],
        "tallies": [_tally_record(tally) for tally in progress.tallies],
    }
    write_text(path, json.dumps(record) + "\n")


def load(path: Path, plan: Plan) -> Progress:
    """The saved progress. CheckpointError for a file of another run, or one that `save` did not write."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["kind"] != "checkpoint" or record["version"] != _VERSION:
            raise CheckpointError(f"{path}: no checkpoint of this version")
        saved, wanted = record["identity"], identity(plan)
        other = [key for key in wanted if saved.get(key) != wanted[key]]
        if other:
            raise CheckpointError(f"{path}: of another run: its {', '.join(other)} differ; remove it or name another")
        tests = tuple(Ruling(**{**t, "evidence": Evidence(**t["evidence"])}) for t in record["tests"])
        tallies = tuple(_tally(t, trial.cells) for t, trial in zip(record["tallies"], plan.trials, strict=True))
        return Progress(int(record["looks"]), tallies, tests, float(record["seconds"]))
    except CheckpointError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{path}: no checkpoint: {type(error).__name__}: {error}") from None


def _tally_record(tally: Tally) -> dict[str, Any]:
    return {
        "cells": tally.cells.tolist(),
        "pairs": tally.pairs.ravel().tolist(),
        "digests": dict(tally.digests),
        "emitted": dict(tally.emitted),
        "pit": {name: asdict(pit) for name, pit in tally.pit.items()},
    }


def _tally(record: dict[str, Any], k: int) -> Tally:
    pits = {name: Pit(**{**p, "histogram": tuple(p["histogram"])}) for name, p in record["pit"].items()}
    return Tally(
        cells=np.array(record["cells"], dtype=np.int64).reshape(k),
        pairs=np.array(record["pairs"], dtype=np.int64).reshape(-1, k, k),
        digests={int(number): str(digest) for number, digest in record["digests"].items()},
        emitted={int(number): (int(tokens), int(rounds)) for number, (tokens, rounds) in record["emitted"].items()},
        pit=pits,
    )
