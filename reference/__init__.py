"""The algorithm in NumPy, written to be read beside the paper.

Every array holds either float64 or fractions.Fraction (dtype object); the code is the same for both.
"""
