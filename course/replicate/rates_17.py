"""What lesson 17 predicts of each run, what papers state, and whether a measured exponent agrees."""

from __future__ import annotations

import math

STATED = {  # upper bounds, of the angle or (m) of the margin's gap, for linear models (L) or attention (A)
    "GD": "1/log j, L (Soudry et al. 2018)",
    "NGD": "j^-1/2, A (Vasudeva et al. 2024); 1/j, L (Ji & Telgarsky 2021)",
    "sign, decaying": "m: log j / j^1/2, L (Fan et al. 2025)",
    "spectral, decaying": "m: log j / j^1/2, L (Fan et al. 2025)",
}
ROOT = "between the gap and its root"
_BOTH = {  # of p and W: an exponent of the angle, or the two that it is to lie between
    "GD": (-1.0, "law 1"),
    "NGD": (-1.0, "law 1"),
    "Polyak": (-1.0, "laws 1, 2"),
    "growing": (-1.0, "law 2"),
    "linear": (-1.0, "law 2"),
    "mirror 3": (-0.5, "law 1"),
    "mirror 1.5": (-1.0, "law 2"),
    "sign": ((-1.0, -0.5), ROOT),
    "Adam, .95": ((-1.0, -0.5), ROOT),
    "sign, decaying": ((-0.5, -0.25), ROOT),
    "sign, long": (0.0, "long steps miss the limit"),
}
NOT_YET = {"growing", "mirror 1.5"}  # their exponents still change at the last step
PREDICTED = {(parameter, name): said for name, said in _BOTH.items() for parameter in ("p", "W")} | {
    ("W", "spectral"): ((-1.0, -0.5), ROOT),
    ("W", "spectral, decaying"): ((-0.5, -0.25), ROOT),
}


def verdict(parameter: str, optimiser: str, exponent: float) -> tuple[str, str]:
    """A word on a measured exponent, right to 0.1, and the prediction as text."""
    if (parameter, optimiser) == ("KQ", "spectral"):
        return "comes near and leaves", ""
    if math.isnan(exponent):
        return "no limit known", ""
    said, why = PREDICTED.get((parameter, optimiser), (None, ""))
    if said is None:
        return ("no exponent predicted" if parameter == "KQ" else "slowed or elsewhere"), ""
    low, high = said if isinstance(said, tuple) else (said, said)
    agrees = low - 0.1 < exponent < high + 0.1
    text = f"{said:.2g}" if low == high else f"{low:.2g} to {high:.2g}"
    if not agrees:
        return ("not yet" if optimiser in NOT_YET else "differs"), text
    return f"{'as predicted' if low == high else 'in its band'}, {why}", text
