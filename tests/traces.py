"""Traces to audit, and the command that audits them, for the tests."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]


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
