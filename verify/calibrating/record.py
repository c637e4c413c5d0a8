"""What a calibration run has seen, as a file to go on from, and what came of it, as a calibration file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rheo.calibration import Calibration, Curve
from rheo.config import TREE_KEYS
from verify.calibrating.observed import Observed
from verify.calibrating.run import METHOD, Plan, Progress, Seen


class SeenError(ValueError):
    """A file that cannot be gone on from: one line that names it."""


def settings(plan: Plan, names: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for. names: of the models and where texts begin."""
    config = {key: getattr(plan.config, key) for key in TREE_KEYS}
    asked = {"texts": len(plan.starts), "each": plan.each, "seed": plan.seed}
    return {**names, "method": METHOD, "config": config, **asked}


def save(path: Path, asked: Mapping[str, Any], progress: Progress) -> None:
    """Replace the file by the progress, whole or not at all. OSError."""
    arrays: dict[str, Any] = {"settings": np.array(json.dumps(asked))}
    for temperature, seen in progress.items():
        arrays[f"{temperature}/contexts"] = np.array(seen.contexts)
        arrays[f"{temperature}/complete"] = np.array(seen.complete)
        arrays |= {f"{temperature}/{f.name}": getattr(seen.observed, f.name) for f in fields(Observed)}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        scratch.write_bytes(content.getvalue())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def load(path: Path, asked: Mapping[str, Any]) -> Progress:
    """The saved progress. SeenError for a file of another run, or one that `save` did not write; OSError."""
    try:
        with np.load(path) as arrays:
            saved = json.loads(str(arrays["settings"]))
            other = [key for key in asked if saved.get(key) != asked[key]]
            if other:
                raise SeenError(f"{path}: of another run: its {', '.join(other)} differ; remove it or name another")
            names = [name.removesuffix("/contexts") for name in arrays if name.endswith("/contexts")]
            return {
                float(name): Seen(
                    int(arrays[f"{name}/contexts"]),
                    Observed(*(arrays[f"{name}/{f.name}"] for f in fields(Observed))),
                    bool(arrays[f"{name}/complete"]),
                )
                for name in names
            }
    except SeenError:
        raise
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise SeenError(f"{path}: holds no slots that rheo calibrate has seen: {error}") from None


def document(fits: Mapping[float, Calibration], made: Mapping[str, Any]) -> dict[str, Any]:
    """A calibration file: what `rheo.calibration.from_json` reads, its numbers as decimals, and how it was made."""
    curves = {
        f"{temperature:g}": {f.name: [_points(c) for c in getattr(fit, f.name)] for f in fields(Calibration)}
        for temperature, fit in sorted(fits.items())
    }
    return {"made": dict(made), "temperatures": curves}


def dumps(found: Mapping[str, Any]) -> str:
    """The file's text, a curve a line."""
    heats = [
        f"  {json.dumps(heat)}: {{\n"
        + ",\n".join(
            f"   {json.dumps(slot)}: [\n" + ",\n".join(f"    {json.dumps(curve)}" for curve in curves) + "\n   ]"
            for slot, curves in fit.items()
        )
        + "\n  }"
        for heat, fit in found["temperatures"].items()
    ]
    made = json.dumps(found["made"], allow_nan=False)
    return f'{{\n "made": {made},\n "temperatures": {{\n' + ",\n".join(heats) + "\n }\n}\n"


def _points(curve: Curve) -> list[list[float]]:
    return [[float(x), float(value)] for x, value in curve]
