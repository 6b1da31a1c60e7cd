"""The compiled loops of normalised descent. Trials lie side by side in the last dimension, L, of every array.

The formulas are those of `softmax.logit_gradient`, `gradients` and `optim.NormalizedGD`; a gradient is right
up to a positive factor for each trial, which normalised steps do not see.
"""

import numpy as np
from numba import float64, int64, njit, void

# No fast-math, no fused operations: what is symmetric stays balanced, every processor finds the same digits,
# and a trial that diverges shows it.
_SETTINGS = {"nogil": True, "cache": True, "error_model": "numpy"}
_compiled = njit(**_SETTINGS)
_WEIGHTS, _TOKENS, _STEPS = float64[:, :, ::1], float64[:, :, :, ::1], float64[::1]
_DESCEND = void(int64, int64, _TOKENS, _WEIGHTS, _WEIGHTS, _WEIGHTS, _WEIGHTS, _STEPS, int64)

_INFO = np.finfo(np.float64)
_LOWEST, _TINY, _TIE = float(_INFO.min), float(_INFO.tiny), 4 * float(_INFO.eps)
_SHORT, _LONG = _TINY**0.4, float(_INFO.max) ** 0.4  # between them a norm's squares keep their digits
_LOG2_E = 1.4426950408889634
_LN2, _LN2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum has 20 more digits
_WHOLE = 1.5 * 2.0**52  # a small number added to it is rounded to a whole one, which its last bits then hold
_ONE = 1023 << 52  # the bits of 1.0


@_compiled
def _exp(x, power):
    """x <- exp(x) for x <= 0, and 0 below -708.8; ``power`` is scratch of the same size."""
    for k in range(x.size):
        v = -709.0 if x[k] < -709.0 else x[k]  # whose 2^whole has no bits: 0
        shifted = v * _LOG2_E + _WHOLE
        whole = shifted - _WHOLE
        r = (v - whole * _LN2) - whole * _LN2_REST
        e = 1 / 6227020800  # the series' terms up to r^13 / 13!, |r| < 0.35
        e = e * r + 1 / 479001600
        e = e * r + 1 / 39916800
        e = e * r + 1 / 3628800
        e = e * r + 1 / 362880
        e = e * r + 1 / 40320
        e = e * r + 1 / 5040
        e = e * r + 1 / 720
        e = e * r + 1 / 120
        e = e * r + 1 / 24
        e = e * r + 1 / 6
        e = e * r + 0.5
        e = e * r + 1.0
        x[k] = e * r + 1.0
        power[k] = shifted
    bits = power.view(np.int64)
    for k in range(x.size):
        bits[k] = (bits[k] << 52) + _ONE  # of 2^whole
    for k in range(x.size):
        x[k] *= power[k]


@_compiled
def _product(rows, matrix, out):
    """out_i <- matrix^T rows_i."""
    out[:] = 0.0
    n, d, L = rows.shape
    for i in range(n):
        for j in range(d):
            for a in range(matrix.shape[1]):
                for b in range(L):
                    out[i, a, b] += rows[i, j, b] * matrix[j, a, b]


@_compiled
def _outer_products(left, right, out):
    """out <- sum_i left_i right_i^T."""
    out[:] = 0.0
    n, d, L = left.shape
    for j in range(d):
        for a in range(right.shape[1]):
            for i in range(n):
                for b in range(L):
                    out[j, a, b] += left[i, j, b] * right[i, a, b]


@_compiled
def _step(weights, gradient, size, norm, length):
    d, m, L = weights.shape
    for j in range(d):
        for a in range(m):
            for b in range(L):
                weights[j, a, b] -= length * (gradient[j, a, b] / size[b] / norm[b])


@_compiled
def _queries(kind, z, K, Q, zQ, q):
    """q_i of every sequence: p, W z_i or K Q^T z_i."""
    n, d, L = z.shape
    m = K.shape[1]
    if kind == 0:
        for j in range(d):
            for b in range(L):
                q[0, j, b] = K[j, 0, b]
        return
    if kind == 2:
        _product(z, Q, zQ)
    right = z if kind == 1 else zQ
    for i in range(n):
        for j in range(d):
            for b in range(L):
                q[i, j, b] = K[j, 0, b] * right[i, 0, b]
            for a in range(1, m):
                for b in range(L):
                    q[i, j, b] += K[j, a, b] * right[i, a, b]


@_compiled
def _logits(kind, X, q, h):
    n, T, d, L = X.shape
    for i in range(n):
        of = 0 if kind == 0 else i
        for t in range(T):
            for b in range(L):
                h[i, t, b] = X[i, t, 0, b] * q[of, 0, b]
            for j in range(1, d):
                for b in range(L):
                    h[i, t, b] += X[i, t, j, b] * q[of, j, b]


@_compiled
def _pulls(loss, h, scores, s, lead, slope, share, power):
    """h <- the loss's gradient in the logits h, but for a factor for each trial; s <- e^(h - max h)."""
    n, T, L = h.shape
    best, of_best, size, total, margin = np.empty(L), np.empty(L), np.empty(L), np.empty(L), np.empty(L)
    for i in range(n):
        for b in range(L):
            best[b], of_best[b], size[b] = h[i, 0, b], scores[i, 0, b], abs(scores[i, 0, b])
        for t in range(1, T):
            for b in range(L):
                more = h[i, t, b] > best[b]
                best[b] = h[i, t, b] if more else best[b]
                of_best[b] = scores[i, t, b] if more else of_best[b]
                size[b] = max(size[b], abs(scores[i, t, b]))
        for t in range(T):
            for b in range(L):
                h[i, t, b] -= best[b]
                s[i, t, b] = h[i, t, b]
                difference = of_best[b] - scores[i, t, b]
                lead[i, t, b] = difference if abs(difference) > _TIE * size[b] else 0.0
    _exp(s.reshape(-1), power)
    # in logs: s_it |l'|, but for 1 / sum_t s_it and, of the logistic loss, 1 / (1 + e^-|margin|)
    for i in range(n):
        for b in range(L):
            total[b], margin[b] = 0.0, 0.0
        for t in range(T):
            for b in range(L):
                total[b] += s[i, t, b]
                margin[b] += s[i, t, b] * scores[i, t, b]
        for b in range(L):
            share[i, b] = 1 / total[b]
            margin[b] *= share[i, b]
            slope[i, b] = -abs(margin[b])
            margin[b] = 0.0 if loss == 0 or (loss == 1 and margin[b] < 0.0) else margin[b]
        for t in range(T):
            for b in range(L):
                h[i, t, b] = h[i, t, b] - margin[b] if lead[i, t, b] != 0.0 else -np.inf
    if loss == 1:
        _exp(slope.reshape(-1), power)
    # the largest of them that pulls, in each trial, is taken out
    best[:] = _LOWEST
    for i in range(n):
        for t in range(T):
            for b in range(L):
                best[b] = max(best[b], h[i, t, b])
    for i in range(n):
        for t in range(T):
            for b in range(L):
                h[i, t, b] -= best[b]
    _exp(h.reshape(-1), power)
    for i in range(n):
        for b in range(L):
            size[b] = share[i, b] / (1 + slope[i, b]) if loss == 1 else share[i, b]
            total[b] = 0.0
        for t in range(T):
            for b in range(L):
                h[i, t, b] *= size[b] * lead[i, t, b]
                total[b] += h[i, t, b]
        for b in range(L):
            total[b] *= share[i, b]
        for t in range(T):
            for b in range(L):
                h[i, t, b] -= s[i, t, b] * total[b]


@_compiled
def _gradients(kind, X, z, u, K, Q, zQ, r, rK, into_K, into_Q):
    n, T, d, L = X.shape
    if kind == 0:
        into_K[:] = 0.0
        for i in range(n):
            for t in range(T):
                for j in range(d):
                    for b in range(L):
                        into_K[j, 0, b] += u[i, t, b] * X[i, t, j, b]
        return
    r[:] = 0.0
    for i in range(n):
        for t in range(T):
            for j in range(d):
                for b in range(L):
                    r[i, j, b] += u[i, t, b] * X[i, t, j, b]
    right = z if kind == 1 else zQ
    _outer_products(r, right, into_K)
    if kind == 2:
        _product(r, K, rK)
        _outer_products(z, rK, into_Q)


@_compiled
def _norms(into_K, into_Q, norm, size):
    """The gradient's norm, of which no square under- or overflows."""
    d, m, L = into_K.shape
    for b in range(L):
        norm[b], size[b] = 0.0, 1.0
    for j in range(d):
        for a in range(m):
            for b in range(L):
                norm[b] += into_K[j, a, b] * into_K[j, a, b] + into_Q[j, a, b] * into_Q[j, a, b]
    for b in range(L):
        norm[b] = np.sqrt(norm[b])
        if not _SHORT < norm[b] < _LONG:
            size[b] = _TINY
            for j in range(d):
                for a in range(m):
                    size[b] = max(size[b], max(abs(into_K[j, a, b]), abs(into_Q[j, a, b])))
            norm[b] = 0.0
            for j in range(d):
                for a in range(m):
                    norm[b] += (into_K[j, a, b] / size[b]) ** 2 + (into_Q[j, a, b] / size[b]) ** 2
            norm[b] = max(np.sqrt(norm[b]), _TINY)


@_compiled
def _side_by_side(x, start, out):
    """Trials from ``start`` on, (trials, rows, columns) -> (rows, columns, L); what they all share, too."""
    for b in range(out.shape[2]):
        of = min(start + b, len(x) - 1)  # the last trial fills the last block
        for i in range(x.shape[1]):
            for j in range(x.shape[2]):
                out[i, j, b] = x[of, i, j]


@njit(_DESCEND, **_SETTINGS)  # compiled, or read from where it was kept, with the import
def descend(kind, loss, keys, queries, values, first, second, lengths, L):
    """Take steps of these lengths in every trial; the weights are changed in place.

    Args:
        kind: 0 for p, 1 for W, 2 for K and Q.
        loss: 0 linear, 1 logistic, 2 exponential.
        keys, queries, values: k_it, (trials, n, T, d), z_i, (trials, n, d), and y_i gamma_it, (trials,
            n, T), or (1, ...) where all trials share them.
        first, second: p (trials, d, 1) or W (trials, d, d), twice; or K and Q, (trials, d, m).
        lengths: of the steps, (steps,).
        L: trials side by side.
    """
    trials, d, m = first.shape
    _, n, T, _ = keys.shape
    X, z, scores = np.zeros((n, T, d, L)), np.zeros((n, d, L)), np.zeros((n, T, L))
    K, Q = np.zeros((d, m, L)), np.zeros((d, m, L))
    into_K, into_Q = np.zeros((d, m, L)), np.zeros((d, m, L))
    q, r, zQ, rK = np.zeros((n, d, L)), np.zeros((n, d, L)), np.zeros((n, m, L)), np.zeros((n, m, L))
    h, s, lead, power = np.zeros((n, T, L)), np.zeros((n, T, L)), np.zeros((n, T, L)), np.zeros(n * T * L)
    slope, share, norm, size = np.zeros((n, L)), np.zeros((n, L)), np.zeros(L), np.zeros(L)
    for start in range(0, trials, L):
        if start == 0 or len(keys) > 1:
            _side_by_side(keys.reshape(len(keys), n * T, d), start, X.reshape(n * T, d, L))
            _side_by_side(queries, start, z)
            _side_by_side(values, start, scores)
        _side_by_side(first, start, K)
        if kind == 2:
            _side_by_side(second, start, Q)
        for length in lengths:
            _queries(kind, z, K, Q, zQ, q)
            _logits(kind, X, q, h)
            _pulls(loss, h, scores, s, lead, slope, share, power)
            _gradients(kind, X, z, h, K, Q, zQ, r, rK, into_K, into_Q)
            _norms(into_K, into_Q, norm, size)
            _step(K, into_K, size, norm, length)
            if kind == 2:
                _step(Q, into_Q, size, norm, length)
        for b in range(min(L, trials - start)):
            for j in range(d):
                for a in range(m):
                    first[start + b, j, a] = K[j, a, b]
                    if kind == 2:
                        second[start + b, j, a] = Q[j, a, b]
