"""Auditing traces into a lifetime, and keeping the lifetime in a file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rheo.files import write_text
from verify import eprocess
from verify.lifetime import Lifetime, Plan, Seen, count
from verify.trace import TraceError, read

_VERSION = 1


class StateError(ValueError):
    """A file that is no saved lifetime."""


def audit(lifetime: Lifetime, path: Path) -> Iterator[tuple[Lifetime, float]]:
    """The lifetime after every chunk of a trace, and the share of the trace that was read.

    A trace is known by its content. Rows that the lifetime has counted before are passed over, also where the file has
    grown since; of a trace that is complete, nothing comes. A malformed or unreadable one counts for nothing: the
    lifetime without it comes, then TraceError.
    """
    without = lifetime
    try:
        if path.exists() and not path.is_file():
            raise TraceError(f"{path}: not a regular file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            digests = _digests(file, {size, *(seen.size for seen in lifetime.seen)})
            known = [seen for seen in lifetime.seen if digests.get(seen.size) == seen.sha256]
            if any(seen.complete and seen.size == size for seen in known):
                return
            if lifetime.before is not None and lifetime.seen[-1] in known:
                without = lifetime.before  # it was left off; if it is malformed, nothing of it counts
            else:
                without = replace(lifetime, before=None)
            others = tuple(seen for seen in lifetime.seen if seen not in known)
            counted = max((seen.rows for seen in known), default=0)
            trace, rows = read(file, str(path), size), 0
            if lifetime.tokens and trace.order != lifetime.order:
                raise TraceError(f"{path}: its order is {trace.order!r}, that of the traces before {lifetime.order!r}")
            for chunk in trace.chunks:
                fresh = chunk.after(max(counted - rows, 0))
                rows += len(chunk)
                if len(fresh):
                    seen = (*others, Seen(str(path), size, digests[size], rows))
                    lifetime = count(replace(lifetime, order=trace.order, seen=seen, before=without), fresh, str(path))
                yield lifetime, chunk.done
        yield replace(lifetime, seen=(*others, Seen(str(path), size, digests[size], rows, True)), before=None), 1.0
    except (TraceError, OSError) as error:
        yield without, 1.0
        if isinstance(error, OSError):
            raise TraceError(f"{path}: {error.strerror or error}") from error
        raise


def _digests(file: BinaryIO, sizes: Iterable[int]) -> dict[int, str]:
    """SHA-256 of the first bytes of a file, for all sizes that it has. Leaves the file at its start."""
    digest, at, found = hashlib.sha256(), 0, {}
    for size in sorted(sizes):
        while at < size and (block := file.read(min(1 << 20, size - at))):
            digest.update(block)
            at += len(block)
        if at == size:
            found[size] = digest.hexdigest()
    file.seek(0)
    return found


def save(path: Path, lifetime: Lifetime) -> None:
    """Replace the file by the lifetime, whole or not at all. OSError."""
    state = _encoded(lifetime)
    write_text(path, json.dumps({"kind": "audit state", "version": _VERSION, "sha256": _seal(state), "state": state}))


def load(path: Path) -> Lifetime:
    """A saved lifetime. StateError for anything that `save` did not write; OSError."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        kind, version, seal, state = (values[key] for key in ("kind", "version", "sha256", "state"))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StateError(f"{path}: no saved state of an audit") from None
    if kind != "audit state" or version != _VERSION:
        raise StateError(
            f"{path}: of kind {kind!r} and version {version!r}, not a state of an audit of version {_VERSION}"
        )
    if seal != _seal(state):
        raise StateError(f"{path}: damaged, its content does not give its sha256")
    return _decoded(state)


def _seal(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def _encoded(lifetime: Lifetime) -> dict[str, Any]:
    return {
        "plan": asdict(lifetime.plan),
        "order": lifetime.order,
        "eprocess": json.loads(eprocess.dumps(lifetime.eprocess)),
        "bins": lifetime.bins.tolist() if lifetime.plan.tokens is not None else None,
        "impossible": lifetime.impossible,
        "first_impossible": lifetime.first_impossible,
        "seen": [asdict(seen) for seen in lifetime.seen],
        "before": None if lifetime.before is None else _encoded(lifetime.before),
    }


def _decoded(state: dict[str, Any]) -> Lifetime:
    empty = Lifetime(Plan(**state["plan"]))
    return replace(
        empty,
        order=state["order"],
        eprocess=eprocess.loads(json.dumps(state["eprocess"])),
        bins=empty.bins if state["bins"] is None else np.array(state["bins"], dtype=np.int64),
        impossible=state["impossible"],
        first_impossible=state["first_impossible"],
        seen=tuple(Seen(**seen) for seen in state["seen"]),
        before=None if state["before"] is None else _decoded(state["before"]),
    )
