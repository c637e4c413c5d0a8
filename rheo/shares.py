"""What growth by mass takes for worth a node of the budget, in the reference and in torch."""

from __future__ import annotations

from fractions import Fraction

# The mass that the last node of a tree takes over, times the budget. Measured, and of little influence: docs/search.md.
LEAST_SHARE = Fraction(5, 11)
