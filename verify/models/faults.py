"""Broken readers of the target: faults that logits from the same caches cannot show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from unittest.mock import patch

import torch
from torch import Tensor

from rheo.models import generation, target
from rheo.models.cache import TreeCache, keep
from rheo.models.target import Target
from rheo.tree import Path, Tree


class StaleRow(Target):
    """The newest row of every round's context is not written: it stays another token's of the tree."""

    def accept(self, path: Path) -> None:
        with patch.object(target, "keep", _keep_a_stale_row):
            super().accept(path)


def _keep_a_stale_row(cache: TreeCache, columns: Tensor, counts: Tensor) -> TreeCache:
    last = (counts - 1).unsqueeze(-1)
    kept = columns.gather(1, last)
    return keep(cache, columns.scatter(1, last, torch.where(kept > 0, kept - 1, 1)), counts)


class KeptSibling(Target):
    """In place of the newest accepted draft another child of its parent is kept."""

    tree: Tree

    def logits(self, tree: Tree) -> Tensor:
        self.tree = tree
        return super().logits(tree)

    def accept(self, path: Path) -> None:
        last = (path.lengths - 2).clamp(min=0).unsqueeze(-1)
        row = path.rows.gather(1, last)
        sibling = siblings(self.tree).gather(1, (row - 1).clamp(min=0)) + 1
        super().accept(replace(path, rows=path.rows.scatter(1, last, torch.where(row > 0, sibling, row))))


class SiblingLogits(Target):
    """Each node is verified with the logits of another child of its parent."""

    def logits(self, tree: Tree) -> Tensor:
        logits = super().logits(tree)
        rows = torch.cat([torch.zeros_like(self.newest), siblings(tree) + 1], 1)
        return logits.gather(1, rows.unsqueeze(-1).expand_as(logits))


class ShiftedPosition(Target):
    """The first drafted node stands one position too far."""

    def logits(self, tree: Tree) -> Tensor:
        depths = tree.depths.clone()
        depths[:, 0] += 1
        return super().logits(replace(tree, depths=depths))


FAULTS: dict[str, type[Target]] = {
    "stale row": StaleRow,
    "kept sibling": KeptSibling,
    "sibling's logits": SiblingLogits,
    "shifted position": ShiftedPosition,
}


@contextmanager
def broken(fault: str | None) -> Iterator[None]:
    """Whatever is generated meanwhile reads the target with one of FAULTS; None for none."""
    with nullcontext() if fault is None else patch.object(generation, "Target", FAULTS[fault]):
        yield


def siblings(tree: Tree) -> Tensor:
    """int64 [N, R]: to each node the first other child of its parent; itself where there is none."""
    same = (tree.parents.unsqueeze(-1) == tree.parents.unsqueeze(1)) & tree.occupied.unsqueeze(1)
    same &= ~torch.eye(same.shape[-1], dtype=torch.bool, device=same.device)
    itself = torch.arange(same.shape[-1], device=same.device).expand(len(same), -1)
    return torch.where(same.any(-1), same.to(torch.int8).argmax(-1), itself)
