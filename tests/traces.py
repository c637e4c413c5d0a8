"""Traces to audit, as columns and as files, the lifetime after them, and the command that audits them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from verify import audit as auditing
from verify.lifetime import Lifetime, Plan
from verify.trace import read

Columns = dict[str, NDArray[Any]]

ALPHA, BETA = 1e-9, 1e-6  # the command's own


def contexts(rng: np.random.Generator, n: int, keep: float = 1.0, vocab: int = 12) -> tuple[NDArray[Any], ...]:
    """p and q [n, vocab] of n contexts, and tokens [n] drawn from keep * p + (1 - keep) * q."""
    p, q = rng.dirichlet(np.full(vocab, 0.5), size=n), rng.dirichlet(np.full(vocab, 0.5), size=n)
    drawn = keep * p + (1 - keep) * q
    tokens = (drawn.cumsum(1) < rng.random((n, 1)) * drawn.sum(1, keepdims=True)).sum(1)
    return p, q, np.minimum(tokens, vocab - 1)


def rows(n: int, seed: int = 0) -> Columns:
    """The columns of a right trace: tokens drawn from p, ranked by id."""
    p, _, tokens = contexts(np.random.default_rng(seed), n, vocab=4)
    before = np.where(np.arange(4) < tokens[:, None], p, 0).sum(1)
    return {"p_token": np.take_along_axis(p, tokens[:, None], 1)[:, 0], "p_before": before}


GOOD = rows(40)
LABELLED = {**GOOD, "q_token": GOOD["p_before"], "request": np.arange(40) // 8, "position": np.arange(40) % 8}


def saved(path: Path, columns: Columns) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **columns)  # type: ignore[arg-type]
    else:
        listed = [values.tolist() for values in columns.values()]
        lines = (json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*listed, strict=True))
        path.write_text("".join(lines))
    return path


def cut(columns: Columns, *where: int) -> list[Columns]:
    edges = [0, *where, len(columns["p_token"])]
    return [{name: values[a:b] for name, values in columns.items()} for a, b in pairwise(edges)]


def npz(columns: dict[str, Any], deflated: bool = False) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if deflated else np.savez)(file, **columns)
    return file.getvalue()


def jsonl(columns: dict[str, Any]) -> bytes:
    listed = {name: np.asarray(values).tolist() for name, values in columns.items()}
    return "".join(
        json.dumps(dict(zip(listed, row, strict=True))) + "\n" for row in zip(*listed.values(), strict=True)
    ).encode()


def everything(data: bytes, name: str) -> tuple[str, dict[str, list[Any]]]:
    trace = read(io.BytesIO(data), name, len(data))
    chunks = list(trace.chunks)
    return trace.order, {key: [x for chunk in chunks for x in chunk.columns[key].tolist()] for key in chunks[0].columns}


def whole(path: Path, plan: Plan, begun: Lifetime | None = None) -> Lifetime:
    """The lifetime after a trace, step by step."""
    state = begun or Lifetime(plan)
    for step in auditing.audit(state, path):
        state = step[0]
    return state


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """`rheo audit` in this process: status, standard output, standard error."""
    status = audit(*arguments)
    return (status, *capsys.readouterr())


def audit(*arguments: object) -> int:
    from rheo.cli import main as cli

    sys.argv = ["rheo", "audit", *map(str, arguments)]
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def audit_in_small_steps(traces: list[Path], state: Path, tokens: int) -> None:
    """The same in a process that may be killed: it saves its state after every few rows."""
    import rheo.cli.audit
    import verify.trace

    rheo.cli.audit._SAVE_SECONDS = 0
    verify.trace.ROWS, verify.trace._BYTES = 100, 5_000
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        sys.exit(audit(*traces, "--state", state, "--tokens", tokens))
