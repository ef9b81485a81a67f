"""A statistical check: rows drawn at random instead of all of them.

Rows are drawn on both sides, each row with the same chance. Those of the master are looked for on the slave, which
finds missing and different ones; those of the slave on the master, which finds extra ones. With d of n wrong, at
most the share `upper_bound(n, d)` of all rows is wrong, with a confidence of 95 % (Clopper and Pearson).
"""

from functools import lru_cache
from math import exp, lgamma, log, log1p

CONFIDENCE = 0.95


@lru_cache
def upper_bound(checked: int, wrong: int) -> float:
    """The share of wrong rows that is not exceeded, with a confidence of 95 %. 1.0 where nothing was checked.

    The largest share under which as few as `wrong` of `checked` come up with a chance of 5 %.
    """
    if checked == 0 or wrong >= checked:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        if _at_most(checked, wrong, share) > 1 - CONFIDENCE:
            low = share
        else:
            high = share
    return high


def _at_most(checked: int, wrong: int, share: float) -> float:
    """The chance of `wrong` or fewer out of `checked`, each with the chance `share`."""
    if share <= 0.0:
        return 1.0
    if share >= 1.0:
        return 0.0
    return sum(
        exp(lgamma(checked + 1) - lgamma(n + 1) - lgamma(checked - n + 1) + n * log(share)
            + (checked - n) * log1p(-share))
        for n in range(wrong + 1)
    )  # fmt: skip
