"""How sure one may be of a share that was counted."""

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
    if not 0 < level < 1:
        raise ValueError(f"level = {level}; expected a probability between 0 and 1, such as 0.95")
    successes, trials = successes * 1.0, trials * 1.0  # short integers overflow, and a bool has no sign
    failures = trials - successes
    for count in (successes, failures):
        if not _all(count >= 0):
            raise ValueError("successes must be counts from 0 to trials, and trials counts from 0")
    z2 = float(ndtri((1 + level) / 2)) ** 2

    def low(k):
        # the (m == 0) in the denominators is there for no trials: k (m - k) is 0 as well
        half = (z2 * (k * (trials - k) / (trials + (trials == 0)) + z2 / 4)) ** 0.5
        return (k > 0) * (k + z2 / 2 - half) / (trials + z2)

    return low(successes), 1 - low(failures)


def _all(condition) -> bool:
    return bool(condition.all()) if hasattr(condition, "all") else bool(condition)
