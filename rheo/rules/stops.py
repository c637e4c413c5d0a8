"""Where rounds may stop and what they emit there: what a rule for the whole tree says."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rheo.distributions import counting


@dataclass(frozen=True)
class Stops:
    """Stop densities of N trees of R + 1 rows: s_u(y), the probability to follow the tree to u, emit y and stop there.

    masses: float64 [N, R + 1], their sums over y. outside: [N, R + 1, V], each in a scale of its own, without the
    tokens [N, R + 1, S] of `tokens` (int64), whose weights in the same scale are `inside` (float64).
    """

    masses: Tensor
    outside: Tensor
    tokens: Tensor
    inside: Tensor

    def density(self, rows: Tensor) -> Tensor:
        """The weights [N, V] of the tokens emitted by requests that stop at `rows`, int64 [N]."""
        n, height = self.masses.shape
        here = rows + counting(n, rows.device, step=height)
        outside, tokens, inside = (
            x.flatten(0, 1).index_select(0, here) for x in (self.outside, self.tokens, self.inside)
        )
        return outside.scatter_add_(-1, tokens, inside.to(outside.dtype))


def expected_accepted(stops: Stops, depths: Tensor) -> Tensor:
    """float64 [N]: the expected accepted drafts of a round, given its tree; depths: int64 [N, R], the nodes'."""
    return (stops.masses[:, 1:] * depths).sum(-1) / stops.masses.sum(-1)
