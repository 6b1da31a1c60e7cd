"""Families of hard-margin problems that are hard on solvers, in batches of one shape, from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mini_attn import svm

P = svm.HardMarginProblem


@dataclass
class Batch:
    """Problems of one shape.

    Attributes:
        problem: with one leading dimension.
        strict: "optimal" is wrong where no W exists, however little is missing (integers, large delta).
        family: its name, once it is known.
    """

    problem: P
    strict: bool = False
    family: str = ""


def _tensor(x, dtype=torch.float64):
    return torch.as_tensor(np.ascontiguousarray(x), dtype=dtype)


def _batch(a, b, r, equality=None, strict=False):
    equality = None if equality is None else torch.as_tensor(equality)
    return Batch(P(_tensor(a), None if b is None else _tensor(b), _tensor(r), equality), strict)


def _size(rng, most=12):
    """m, d1 and d2; d2 = 0 stands for a vector unknown."""
    return int(rng.integers(1, most + 1)), int(rng.integers(1, 5)), int(rng.choice([0, 0, 1, 2, 3]))


def _factors(rng, count, m, d1, d2):
    return rng.normal(size=(count, m, d1)), rng.normal(size=(count, m, d2)) if d2 else None


def _reach(a, b, W):
    return np.einsum("kmi,ki->km", a, W) if b is None else np.einsum("kmi,kij,kmj->km", a, W, b)


def _unknown(rng, count, d1, d2):
    return rng.normal(size=(count, d1, d2) if d2 else (count, d1))


def _powers(rng, low, high, shape):
    return 10.0 ** rng.uniform(low, high, shape)


def _planted_factors(rng, count, least=0.1):
    """Rows of any shape with <A_j, W> >= least for a W of length near 1."""
    m, d1, d2 = _size(rng)
    a, b = _factors(rng, count, m, d1, d2)
    W = _unknown(rng, count, d1, d2)
    reach = _reach(a, b, W)
    a = np.where(reach < 0, -1, 1)[..., None] * a
    return a * (1 + least / np.abs(reach).clip(least / 9))[..., None], b, W


def random(rng, count):
    """Gaussian label, token and attention problems, feasible or not."""
    kind, n, T, d = rng.integers(3), int(rng.integers(1, 7)), int(rng.integers(2, 5)), int(rng.integers(1, 6))
    X = _tensor(rng.normal(size=(count, n, T, d)))
    chosen = torch.as_tensor(rng.integers(0, T, (count, n)))
    if kind == 0:
        return Batch(svm.label_problem(X[:, :, 0], torch.as_tensor(rng.choice([-1, 1], (count, n)))))
    if kind == 1:
        return Batch(svm.token_problem(X, chosen))
    return Batch(svm.attention_problem(X[..., :4], _tensor(rng.normal(size=(count, n, d)))[..., :4], chosen))


def integers(rng, count):
    """Entries in -3..3: ties, duplicates, empty rows, m = 0, d = 1."""
    m, d1, d2 = _size(rng, 8)
    m = m if rng.random() > 0.05 else 0
    most = int(rng.integers(1, 4))
    a = rng.integers(-most, most + 1, (count, m, d1))
    b = rng.integers(-most, most + 1, (count, m, d2)) if d2 else None
    r = rng.integers(-2, 3, (count, m)) if rng.random() < 0.5 else np.ones((count, m))
    equality = rng.random((count, m)) < 0.2 if rng.random() < 0.4 else None
    return _batch(a, b, r, equality, strict=True)


def one_hot(rng, count):
    """Tokens and queries that are unit vectors: many equal rows; T = 1 and n = 1 too."""
    n, T, d = int(rng.integers(1, 6)), int(rng.integers(1, 5)), int(rng.integers(1, 5))
    X = _tensor(np.eye(d)[rng.integers(0, d, (count, n, T))])
    chosen = torch.as_tensor(rng.integers(0, T, (count, n)))
    if rng.random() < 0.5:
        return Batch(svm.token_problem(X, chosen), strict=True)
    return Batch(
        svm.attention_problem(X, _tensor(np.eye(d)[rng.integers(0, d, (count, n))]), chosen), strict=True
    )


def contradictory(rng, count):
    """A row and its opposite, which miss each other or overlap by delta = 1e-15 to 1."""
    a, b, W = _planted_factors(rng, count)
    r = 0.5 * _reach(a, b, W)
    delta = 10.0 ** -rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 400.0])
    side = rng.choice([-1, 1], (count, 1))
    opposite = -r[:, :1] * (1 + side * delta)
    a, r = np.concatenate([a, -a[:, :1]], 1), np.concatenate([r, opposite], 1)
    b = None if b is None else np.concatenate([b, b[:, :1]], 1)
    return _batch(a, b, r, strict=delta >= 1e-3)


def near_parallel(rng, count):
    """Pairs of rows u and -u + angle v, angle 1e-1 to 1e-9: feasible, and W is long."""
    _, d1, d2 = _size(rng)
    d1, pairs = d1 + 1, int(rng.integers(1, 3))
    u, v = rng.normal(size=(2, count, pairs, d1))
    angle = 10.0 ** -rng.integers(1, 10, (count, pairs, 1)).astype(float)
    a = np.concatenate([u, -u + angle * v], 1)
    if rng.random() < 0.3:
        a = np.concatenate(
            [np.eye(d1)[:1] + 0 * u[:, :1], angle[:, :1] * np.eye(d1)[1:2] - np.eye(d1)[:1]], 1
        )
    b = None
    if d2:
        b = np.tile(rng.normal(size=(count, 1, d2)), (1, a.shape[1], 1))
    r = np.ones(a.shape[:2]) if rng.random() < 0.7 else rng.uniform(0.5, 2, a.shape[:2])
    return _batch(a, b, r)


def thin_margins(rng, count):
    """A planted W reaches every row with a margin of 1e-6 to 1e-12: W is that long."""
    m, d1, d2 = _size(rng)
    a, b = _factors(rng, count, m, d1 + 1, d2)
    W = _unknown(rng, count, d1 + 1, d2)
    W /= np.linalg.norm(W.reshape(count, -1), axis=1).reshape(-1, *[1] * (W.ndim - 1))
    image = W if b is None else np.einsum("kij,kmj->kmi", W, b)  # <a b', W> = a . image
    image = np.broadcast_to(image[:, None] if b is None else image, a.shape)
    margin = 10.0 ** -rng.integers(6, 13) * (1 + rng.exponential(size=(count, m)))
    a = a - (np.sum(a * image, -1) - margin)[..., None] * image / np.sum(image * image, -1)[..., None]
    return _batch(a, b, np.ones((count, m)))


def row_scales(rng, count):
    """Rows times 1e+-3, 1e+-8 or 1e+-150 in one problem; the right-hand side goes along or stays 1."""
    a, b, W = _planted_factors(rng, count)
    power = float(rng.choice([3, 8, 150]))
    scale = 10.0 ** (power * rng.integers(-1, 2, a.shape[:2]))
    r = 0.5 * _reach(a, b, W)
    if rng.random() < 0.5:
        return _batch(a * scale[..., None], b, r * scale)
    return _batch(a * scale[..., None], b, np.ones(a.shape[:2]))


def signs(rng, count):
    """Right-hand sides of both signs and zero, planted or not."""
    m, d1, d2 = _size(rng, 16)
    a, b = _factors(rng, count, m, d1, d2)
    if rng.random() < 0.3:
        return _batch(a, b, rng.choice([-2.0, -0.3, 0.0, 0.7, 1.0], (count, m)))
    W = _unknown(rng, count, d1, d2)
    slack = rng.choice([0.01, 0.1, 1.0]) * np.abs(rng.normal(size=(count, m)))
    return _batch(a, b, _reach(a, b, W) - slack)


def relaxed(rng, count):
    """Token problems in which some sequences need no lead."""
    n, T, d = int(rng.integers(1, 6)), int(rng.integers(2, 5)), int(rng.integers(1, 5))
    keys, chosen = rng.normal(size=(count, n, T, d)), rng.integers(0, T, (count, n))
    if rng.random() < 0.3:
        keys = keys.round()
    lead = rng.choice([0.0, 1.0], (count, n), p=[0.6, 0.4])
    return Batch(svm.token_problem(_tensor(keys), torch.as_tensor(chosen), _tensor(lead)))


def equalities(rng, count):
    """Equality rows: consistent, redundant, or contradictory by delta."""
    a, b, W = _planted_factors(rng, count)
    whole = rng.random() < 0.5
    if whole:  # whole numbers: consistent without rounding
        a, W = a.round(), W.round()
        b = None if b is None else b.round()
    reach = _reach(a, b, W)
    equality = rng.random(reach.shape) < rng.choice([0.3, 1.0])
    r = np.where(equality, reach, reach - np.abs(reach) / 2)
    kind = rng.integers(3)
    if kind:
        a, r, equality = (np.concatenate([x, x[:, :1]], 1) for x in (a, r, equality))
        b = None if b is None else np.concatenate([b, b[:, :1]], 1)
        equality[:, 0] = equality[:, -1] = True
        r[:, 0] = r[:, -1] = reach[:, 0]
        if b is None and a.shape[1] > 2 and rng.random() < 0.5:  # the sum of two rows, rounded
            a[:, -1], equality[:, 1] = a[:, 0] + a[:, 1], True
            r[:, 1], r[:, -1] = reach[:, 1], reach[:, 0] + reach[:, 1]
    delta = 10.0 ** -rng.choice([0, 1, 2, 3, 5, 7, 8, 9, 10, 12, 14.0]) if kind == 2 else 0
    r[:, -1] += delta * np.abs(r[:, -1])
    return _batch(a, b, r, equality, strict=whole and not 0 < delta < 1e-3)


def empty_rows(rng, count):
    """Rows of zeros with right-hand sides of any sign among good ones."""
    a, b, W = _planted_factors(rng, count)
    r = 0.5 * _reach(a, b, W)
    nothing = rng.random(r.shape) < 0.4
    r = np.where(nothing, rng.choice([-1.0, 0.0, 1.0, -1e-12], r.shape, p=[0.45, 0.4, 0.05, 0.1]), r)
    if b is not None and rng.random() < 0.5:
        b = np.where(nothing[..., None], 0, b)
    else:
        a = np.where(nothing[..., None], 0, a)
    equality = nothing & (rng.random(r.shape) < 0.1) if rng.random() < 0.3 else None
    return _batch(a, b, r, equality)


def ragged(rng, count):
    """Masks, with numbers of any kind in the padding; sometimes no row counts."""
    whole = signs(rng, count).problem
    mask = torch.as_tensor(rng.random(whole.r.shape) < rng.choice([0.2, 0.7]))
    a = torch.where(mask[..., None], whole.a, rng.choice([np.nan, np.inf, 1e300, 5.0]))
    return Batch(P(a, whole.b, whole.r, mask=mask))


def close_tokens(rng, count):
    """Tokens at a distance of 1e-3 to 1e-10 from the selected one."""
    n, T, d = int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(1, 5))
    keys, chosen = rng.normal(size=(count, n, T, d)), rng.integers(0, T, (count, n))
    for k in range(count):
        i = rng.integers(n)
        near = (chosen[k, i] + 1) % T
        keys[k, i, near] = keys[k, i, chosen[k, i]] + 10.0 ** -rng.integers(3, 11) * rng.normal(size=d)
    if rng.random() < 0.5:
        return Batch(svm.token_problem(_tensor(keys), torch.as_tensor(chosen)))
    z = _tensor(rng.normal(size=(count, n, int(rng.integers(1, 4)))))
    differences = svm.token_problem(_tensor(keys), torch.as_tensor(chosen))
    return Batch(P(differences.a, z.repeat_interleave(T - 1, 1), differences.r))


def single_precision(rng, count):
    """Other families, rounded to float32."""
    family = (random, integers, signs, near_parallel, equalities, row_scales)[rng.integers(6)]
    while True:
        batch = family(rng, count)
        parts = [
            None if x is None else x.float() for x in (batch.problem.a, batch.problem.b, batch.problem.r)
        ]
        if all(x is None or x.isfinite().all() for x in parts):
            return Batch(P(*parts, batch.problem.equality), strict=family is integers)


def extreme_sizes(rng, count):
    """All rows, or all right-hand sides, times 1e+-150, or near the end of the range of float64."""
    a, b, W = _planted_factors(rng, count)
    r = 0.5 * _reach(a, b, W)
    kind = rng.integers(5)
    if kind == 0:
        return _batch(a * 10.0 ** rng.choice([-150, 150]), b, r)
    if kind == 1:
        return _batch(a, b, r * 10.0 ** rng.choice([-150, 150]))
    if kind == 2:
        scale = 10.0 ** rng.choice([-150, 150])
        return _batch(a * scale, None if b is None else b * scale, r)
    if kind == 3:  # denormal rows, too small to matter, among rows near the end of the range
        denormal = rng.random(r.shape) < 0.4
        scale = np.where(denormal, 1e-310, 1e-306)
        return _batch(a * scale[..., None], b, np.where(denormal, -1, r * scale))
    left, right = ((300, 300), (300, 0), (-300, -300), (-300, 0))[rng.integers(4)]
    return _batch(a * 10.0**left, b, r * 10.0**right)


def wide_rows(rng, count):
    """Entries of very different size inside a row; planted or not."""
    a, b, W = _planted_factors(rng, count)
    reach = float(rng.choice([3, 8, 100]))
    a = a * _powers(rng, -reach, reach, a.shape)
    if rng.random() < 0.5:
        return _batch(a, b, np.ones(a.shape[:2]))
    made = _reach(a, b, W)
    return _batch(np.where(made < 0, -1, 1)[..., None] * a, b, np.abs(made) / 2)


def many_rows(rng, count):
    """2,001 to 3,000 rows: right-hand sides of both signs, planted tokens, relaxed tokens, labels flipped."""
    kind, m, d = rng.integers(4), int(rng.integers(2001, 3000)), int(rng.integers(2, 20))
    a, w = rng.normal(size=(count, m, d)), rng.normal(size=d)
    if kind == 0:
        return _batch(a, None, a @ w - 0.1 * np.abs(rng.normal(size=(count, m))))
    if kind == 1:
        flipped = rng.random((count, m)) < rng.choice([0.01, 0.5])
        X, y = a[..., :5], np.where(a[..., 0] < 0, -1, 1) * np.where(flipped, -1, 1)
        return Batch(svm.label_problem(_tensor(X), torch.as_tensor(y)), strict=True)
    keys = _tensor(rng.normal(size=(count, m // 5 + 1, 6, d)))
    chosen = (keys @ _tensor(w)).argmax(-1)
    lead = None if kind == 2 else _tensor(rng.choice([0.0, 1.0], chosen.shape, p=[0.9, 0.1]))
    return Batch(svm.token_problem(keys, chosen, lead))


def mixtures(rng, count):
    """Attention problems that keep several tokens of a sequence, direction or ratios: any number of
    equalities, dependent ones, tokens twice, sequences that share a query."""
    n, T, d = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
    X, z = rng.normal(size=(count, n, T, d)), rng.normal(size=(count, n, int(rng.integers(1, 4))))
    kind = rng.integers(4)
    if kind == 0:  # ties
        X, z = X.round(), z.round()
    if kind == 1:  # each token may be another's copy, nearly
        copy = np.take_along_axis(X, rng.integers(0, T, (count, n, T, 1)), 2)
        X = copy + rng.choice([0, 1e-12, 1e-8, 1e-4]) * X
    if kind == 2:
        z[:] = z[:, :1]
    kept = rng.random((count, n, T)) < rng.choice([0.3, 0.6, 1.0])
    kept[..., 0] |= ~kept.any(-1)
    X, z, kept = _tensor(X), _tensor(z), torch.as_tensor(kept)
    if rng.random() < 0.7:
        return Batch(svm.mixture_problem(X, z, kept), strict=kind == 0)
    log_s = _tensor(rng.normal(size=(count, n, T)).round(1))
    return Batch(svm.ratio_problem(X, z, kept, log_s))


def mixed(rng, count):
    """Problems of all families in one batch, padded with columns of zeros and masked rows."""
    sources = [f for f in FAMILIES.values() if f not in (mixed, many_rows, single_precision)]
    ones = [sources[rng.integers(len(sources))](rng, 1).problem for _ in range(count)]
    return Batch(stack(ones))


def stack(problems):
    """One batch of the problems, each of which has a leading dimension."""
    rows = max(p.r.shape[1] for p in problems)
    d1 = max(p.a.shape[2] for p in problems)
    d2 = max(1 if p.b is None else p.b.shape[2] for p in problems)
    parts = {"a": (rows, d1), "b": (rows, d2), "r": (rows,), "equality": (rows,), "mask": (rows,)}
    made = {name: [] for name in parts}
    for p in problems:
        b = torch.ones_like(p.r)[..., None] if p.b is None else p.b
        mask = torch.ones_like(p.r, dtype=torch.bool) if p.mask is None else p.mask
        for name, part in (("a", p.a), ("b", b), ("r", p.r), ("equality", p.is_equality), ("mask", mask)):
            for one in part:
                room = one.new_zeros(parts[name])
                room[tuple(slice(k) for k in one.shape)] = one
                made[name].append(room)
    return P(**{name: torch.stack(some) for name, some in made.items()})


FAMILIES = {
    "random": random,
    "integers": integers,
    "one-hot": one_hot,
    "contradictory": contradictory,
    "near-parallel": near_parallel,
    "thin margins": thin_margins,
    "row scales": row_scales,
    "signs": signs,
    "relaxed": relaxed,
    "equalities": equalities,
    "empty rows": empty_rows,
    "ragged": ragged,
    "close tokens": close_tokens,
    "float32": single_precision,
    "extreme sizes": extreme_sizes,
    "wide rows": wide_rows,
    "many rows": many_rows,
    "mixed": mixed,
    "mixtures": mixtures,
}
