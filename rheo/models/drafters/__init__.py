"""Drafters: what they are before any request, and at the contexts of some. One kind a file."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from torch import Tensor

from rheo.calibration import Calibration
from rheo.config import Config
from rheo.tree import Frontier, Path, Tree


class Drafting(Protocol):
    """A drafter at the contexts of N requests; it keeps caches of its own, over the context and over the tree."""

    def draft(self, frontier: Frontier) -> Tensor:
        """Logits [N, b, V] of the frontier's nodes, untempered.

        A round calls it depth by depth; the root starts it, or starts it anew.
        """
        ...

    def accept(self, tree: Tree, path: Path, features: Tensor) -> None:
        """End the round: drop what was drafted, and read what was emitted before the next draft.

        features: [N, w, F], right-aligned, the target's at the tokens before each of those emitted.
        """
        ...

    def select(self, requests: Tensor) -> None:
        """Go on with those requests int64 [n] alone."""
        ...


class Drafter(Protocol):
    """What drafts for any requests."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of the target whose inputs are its features; most drafters want none."""
        ...

    def start(self, contexts: Tensor, lengths: Tensor, features: Tensor) -> Drafting:
        """Take up contexts int64 [N, L] of `lengths` [N].

        features: [N, L - 1, F], right-aligned, the target's at all tokens but the newest.
        """
        ...


def calibrated(config: Config, drafter: Drafter) -> Config:
    """The configuration with a calibration: its own, else that which the drafter was loaded with, else the default."""
    own = getattr(drafter, "calibration", None)  # of those that `load_drafter` made from a folder that holds one
    return config if config.calibration else replace(config, calibration=own or Calibration())


def default_method(config: Config, drafter: Drafter) -> str:
    """The method of which most tokens a round are expected (docs/search.md); adaptive growth needs fitted curves."""
    fitted = config.calibration or getattr(drafter, "calibration", None)
    return "adaptive-transport" if fitted else "rheo-transport"
