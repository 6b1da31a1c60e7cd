"""How sure one may be of a share that was counted."""

import math

from scipy.special import ndtri


def wilson(successes, trials, level: float = 0.95):
    """Wilson's interval for a share, from k successes in m trials.

    With z the (1 + level)/2 quantile of the normal distribution, these are the shares q that the count does
    not refute: (k/m - q)^2 <= z^2 q (1 - q) / m, that is

        (k + z^2/2 -+ z sqrt(k (m - k) / m + z^2/4)) / (m + z^2).

    Unlike k/m -+ z sqrt(...), it has a width at k = 0 and k = m, and its coverage is near ``level`` there.

        hits = result.outcome == "global"
        low, high = wilson(hits.sum("trial"), hits.sizes["trial"])

    Args:
        successes: k, a number or an array: numpy, torch, an xarray DataArray.
        trials: m, likewise.
        level: how often the interval should hold the true share.

    Returns:
        (low, high), of the arguments' kind; (0, 1) where there were no trials.

    Raises:
        ValueError: a count outside 0 to m, or a level outside (0, 1).

    Source: E. B. Wilson. "Probable Inference, the Law of Succession, and Statistical Inference." JASA, 1927.
    Introduced in lesson 12.
    """
    if not 0 < level < (1 + level) / 2 < 1:
        raise ValueError(f"level = {level}; expected a probability between 0 and 1, such as 0.95")
    successes, trials = _double(successes), _double(trials)  # short numbers overflow or round
    failures = trials - successes
    for count in (successes, failures):
        if not _all((count >= 0) & (count < math.inf)):
            raise ValueError("successes must be finite counts from 0 to trials, and trials counts from 0")
    z2 = float(ndtri((1 + level) / 2)) ** 2

    # the (m == 0) in the denominator is there for no trials: k (m - k) is 0 as well
    half = (z2 * (successes * (failures / (trials + (trials == 0))) + z2 / 4)) ** 0.5
    middle = successes + z2 / 2
    low = (successes > 0) * (middle - half) / (trials + z2)
    high = (failures > 0) * (middle + half) / (trials + z2) + (failures == 0)
    return low, high


def _double(count):
    """A number or an array of them in float64."""
    if hasattr(count, "double"):
        return count.double()
    return count.astype(float) if hasattr(count, "astype") else float(count)


def _all(condition) -> bool:
    return bool(condition.all()) if hasattr(condition, "all") else bool(condition)
