"""The Euclidean problem in rational arithmetic: the shortest W without rounding, or a ray that refutes it."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

Rows = list[list[int]]


def integer_rows(a, b, r) -> tuple[Rows, list[int], list[Fraction]]:
    """The rows a_j b_j' and right-hand sides of floats as integers, each row times a positive number.

    Args:
        a: (m, d1) and b: (m, d2), nested lists of floats, or None for b = 1. r: (m,) floats or Fractions.

    Returns:
        rows (m, d1 d2), right-hand sides (m,), and the numbers that they were multiplied with (m,).
    """
    rows, right, factors = [], [], []
    for j, bound in enumerate(r):
        left = [Fraction(x) for x in a[j]]
        other = [Fraction(1)] if b is None else [Fraction(x) for x in b[j]]
        entries = [x * y for x in left for y in other] + [Fraction(bound)]
        common = lcm(*(x.denominator for x in entries))
        whole = [x.numerator * (common // x.denominator) for x in entries]
        shared = gcd(*whole) or 1
        rows.append([x // shared for x in whole[:-1]])
        right.append(whole[-1] // shared)
        factors.append(Fraction(common, shared))
    return rows, right, factors


def shortest(
    rows: Rows, r: list[int], equality: list[bool], first: list[int] = (), most: int | None = None
) -> tuple[list[Fraction] | None, list[Fraction] | None]:
    """min ||w||_2 subject to rows_j . w >= r_j, or = r_j where equality[j].

    The dual active-set method: rows that w misses come in one by one, w stays the shortest for the rows in
    the set. Each new row makes w longer, so no set comes twice and the method ends.

    Args:
        rows, r: integers.
        first: rows to try before others.
        most: give up where more rows than this have to hold exactly.

    Returns:
        w and weights lambda >= 0 (of any sign on equalities) with w = sum_j lambda_j rows_j and
        lambda_j (rows_j . w - r_j) = 0: proof that w is the shortest. Where no w exists None and a ray,
        sum_j lambda_j rows_j = 0 and sum_j lambda_j r_j > 0. None and None where it gave up.

    Source: Goldfarb & Idnani, "A numerically stable dual method for solving strictly convex quadratic
        programs" (1983).
    """
    size = [_dot(row, row) for row in rows]
    preferred, d = set(first), len(rows[0]) if rows else 0
    w, common = [0] * d, 1  # w / common
    held, weight, sign = [], [], []
    while True:
        missing = []
        for j, row in enumerate(rows):
            miss = r[j] * common - _dot(row, w)
            if miss > 0 or (miss < 0 and equality[j]):
                urgent = (equality[j], j in preferred, 2 * miss.bit_length() - size[j].bit_length())
                missing.append((urgent, j, miss))
        if not missing:
            return [Fraction(x, common) for x in w], _weights(len(rows), held, weight, sign)
        _, new, miss = max(missing)
        flip = 1 if miss > 0 else -1
        row, bound, own = [flip * x for x in rows[new]], flip * r[new], Fraction(0)
        while True:
            active = [[s * x for x in rows[j]] for j, s in zip(held, sign, strict=True)]
            gram = [[_dot(x, y) for y in active] + [_dot(x, row)] for x in active]
            share, scale = _solve(gram)  # row = sum_i share_i / scale active_i + rest / scale
            rest = [scale * x for x in row]
            for s, other in zip(share, active, strict=True):
                rest = [x - s * y for x, y in zip(rest, other, strict=True)]
            length = _dot(rest, rest)
            blocks = [
                (weight[i] * scale / share[i], i)
                for i, j in enumerate(held)
                if share[i] > 0 and not equality[j]
            ]
            if length == 0 and not blocks:
                ray = [*(Fraction(-s, scale) for s in share), Fraction(1)]
                return None, _weights(len(rows), [*held, new], ray, [*sign, flip])
            step, leaving = min(blocks, default=(None, None))
            if length:
                full = Fraction(bound * common - _dot(row, w), common) * scale * scale / length
                if step is None or full <= step:
                    step, leaving = full, None
                w, common = _moved(w, common, rest, step / scale)
            weight = [x - step * s / scale for x, s in zip(weight, share, strict=True)]
            own += step
            if leaving is None:
                held, weight, sign = [*held, new], [*weight, own], [*sign, flip]
                break
            for some in (held, weight, sign):
                del some[leaving]
        if most is not None and len(held) > most:
            return None, None


def _weights(m: int, held: list[int], weight: list[Fraction], sign: list[int]) -> list[Fraction]:
    weights = [Fraction(0)] * m
    for j, x, s in zip(held, weight, sign, strict=True):
        weights[j] = s * x
    return weights


def _dot(x, y):
    return sum(p * q for p, q in zip(x, y, strict=True))


def _moved(w, common, direction, step):
    """(w / common + step * direction) over one new denominator."""
    below = common * step.denominator
    moved = [x * step.denominator + step.numerator * common * y for x, y in zip(w, direction, strict=True)]
    shared = gcd(below, *moved)
    return [x // shared for x in moved], below // shared


def _solve(system):
    """Integers x and a positive s with G x = s g, for the integers (G | g), G positive definite."""
    system, before = [list(line) for line in system], 1
    for i, pivot_line in enumerate(system):
        pivot = pivot_line[i]
        for j, line in enumerate(system):
            if j != i:
                factor = line[i]
                line[i:] = [
                    (pivot * x - factor * y) // before for x, y in zip(line[i:], pivot_line[i:], strict=True)
                ]
                if j < i:
                    line[j] = pivot
        before = pivot
    return [line[-1] for line in system], before
