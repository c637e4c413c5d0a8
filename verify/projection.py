"""How fast a pair would decode on another GPU: a projection from memory bandwidth, no measurement. See
docs/reproduce.md for what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

# tau / speed-up = (t_verify + t_draft) / t_AR: the least and the most of the six rows of the paper.
PAPER_RATIO = (1.71, 1.79)


@dataclass(frozen=True)
class Projection:
    """Tokens a second: of one token after the other, and the least and the most with a draft tree."""

    autoregressive: float
    low: float
    high: float


def project(weights: float, bandwidth: float, tau: float, ratio: tuple[float, float] = PAPER_RATIO) -> Projection:
    """One request, decoding bound by reading the weights once a forward: t_AR = weights / bandwidth.

    weights: bytes that a token reads. bandwidth: bytes a second. tau: tokens a round, measured. ratio: least and most
    of a round's time over t_AR, positive; that of one's own run is tau / speed-up. Speed-up is tau over the ratio.
    """
    autoregressive = bandwidth / weights
    least, most = ratio
    return Projection(autoregressive, autoregressive * tau / most, autoregressive * tau / least)
