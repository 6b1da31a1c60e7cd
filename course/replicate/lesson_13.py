"""Lesson 13: heads that keep several tokens, read from paths that arrive."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import nnls
from scipy.special import expit, log_softmax, ndtr, softmax

from course.replicate.stored import Measured, measured
from mini_attn import data, heads, mixtures, models, newton, optim, svm, train

N, T = 3, 4  # sequences and tokens, as published
RADII = (0.5, 1.0, 2.0, *(4 * 2 ** (k / 4) for k in range(17)))  # 4 to 64, a quarter octave apart
BAR = 0.005  # attention below it, after 3,000 steps: lost
KINDS = {  # activation, scale, and the loss
    "gelu": ("gelu", 4.0, "logistic"),
    "tanh": ("tanh", 4.0, "logistic"),
    "relu": ("gelu", 256.0, "linear"),  # nearly a ReLU; the linear loss does not saturate with the scale
}


def problem(kind: str, d: int, trials: int, seed: int):
    """Tokens, labels of both kinds with a -1 among them, as published, and f = 1^T act(scale V x)."""
    drawn = data.random_tokens(N, T, d, trials=trials, seed=seed)
    pattern = torch.randint(0, 2**N - 1, (trials, 1), generator=torch.Generator().manual_seed(seed))
    y = 2.0 * ((pattern >> torch.arange(N)) & 1).to(drawn.y) - 1.0  # all patterns but that of three +1
    tokens = data.TokenData(drawn.X, drawn.z, y, drawn.v)
    act, scale, loss = KINDS[kind]
    return tokens, heads.MLPHead(d, d, trials, act, scale, seed=seed), loss


def fall(tokens: data.TokenData, W: torch.Tensor, winner: torch.Tensor) -> torch.Tensor:
    """How far each logit lies behind the winner's, (..., n, T)."""
    h = torch.einsum("...ntd,...de,...ne->...nt", tokens.X, W, tokens.z)
    return h.gather(-1, winner) - h


def apart(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """1 - correlation of matrices, from their distance: accurate where it is tiny."""
    A, B = (M / M.norm(dim=(-1, -2), keepdim=True) for M in (A, B))
    return (A - B).square().sum((-1, -2)) / 2


def predictions(tokens, kept, W_dir, log_s, W) -> torch.Tensor:
    """1 - correlation of W with W_fin + R W_dir (best R), W_dir, and the SVM of one token, (3, trials)."""
    W_fin = svm.solve(svm.ratio_problem(tokens.X, tokens.z, kept, log_s), throw=False).value
    R = ((W - W_fin) * W_dir).sum((-1, -2)) / W_dir.square().sum((-1, -2))
    one = svm.solve(svm.attention_problem(tokens.X, tokens.z, log_s.argmax(-1)), throw=False).value
    return torch.stack([apart(W, M) for M in (W_fin + R[..., None, None] * W_dir, W_dir, one)])


def costs_and_lags(tokens, head, s, kept, loss="logistic") -> tuple[torch.Tensor, torch.Tensor]:
    """Costs at the best shares of the kept tokens (s a guess) and lags in their SVM, (trials, n, T) each."""
    prices = mixtures.costs(head, tokens, mixtures.on_face(head, tokens, s * kept), loss)
    W_dir = svm.solve(svm.mixture_problem(tokens.X, tokens.z, kept), throw=False).value
    return prices, fall(tokens, W_dir, s.argmax(-1, keepdim=True))


class Reading(NamedTuple):
    """What the end of a path says, each with a first dimension for the trials."""

    R: torch.Tensor  # the last radius with residual 1e-6 at most
    end: torch.Tensor  # W at R
    log_s: torch.Tensor
    kept: torch.Tensor
    solution: svm.Solution
    error: torch.Tensor  # the largest difference of N times the rates of falling behind and the SVM's lags


def read(tokens, head, loss: str, radii=RADII) -> Reading:
    """The tokens that each path keeps, from its last two radii with residual 1e-6 at most."""
    trials, d = tokens.y.shape[0], tokens.X.shape[-1]
    path = newton.newton_path(models.CrossAttention(d, trials=trials, head=head), tokens, radii, loss)
    last = (path.residual <= 1e-6).sum(0).clamp(min=2) - 1
    each = torch.arange(trials)
    end, before = path["W"][last, each], path["W"][last - 1, each]
    log_s = torch.log_softmax(torch.einsum("bntd,bde,bne->bnt", tokens.X, end, tokens.z), -1)
    winner = log_s.argmax(-1, keepdim=True)
    gone = (path.radii[last] - path.radii[last - 1])[:, None, None]
    rates = (fall(tokens, end, winner) - fall(tokens, before, winner)) / gone
    kept, solution = mixtures.kept_tokens(tokens.X, tokens.z, rates)
    lags = fall(tokens, solution.value, winner)
    error = (rates * solution.objective[:, None, None] - lags).abs().amax((-1, -2))
    error = error.masked_fill(solution.objective == 0, torch.inf)  # W_dir = 0 foresees no rate
    return Reading(path.radii[last], end, log_s, kept, solution, error)


def mixture_runs(kind: str, d: int, *, trials: int, seed: int) -> dict:
    """Paths with Newton steps, the tokens they keep, and three predictions of their last W."""
    tokens, head, loss = problem(kind, d, trials, seed)
    R, end, log_s, kept, solution, error = read(tokens, head, loss)
    optimal = torch.as_tensor(solution.status == "optimal")
    inner = head.scale * torch.einsum("bntd,bkd->bntk", tokens.X, head.V)
    at_end = head.scale * tokens.mix(log_s.exp()) @ head.V.mT
    corners = torch.eye(T).to(tokens.X)[(tokens.y[..., None] * head(tokens.X)).argmax(-1)]
    prices, lags = costs_and_lags(tokens, head, log_s.exp(), kept, loss)
    least = prices.masked_fill(kept, torch.inf).argmin(-1, keepdim=True)
    none = kept.all(-1)
    smooth = kind != "relu"  # nearly kinked, the best mixture is slow to find
    best = mixtures.best_mixture(head, tokens) > 1e-6 if smooth else torch.zeros_like(kept)
    return {
        "last": R.float(),
        "error": error.nan_to_num(torch.inf).float(),  # of the rates, in units of 1 / ||W_dir||
        "accepted": optimal & (error < 0.5) & (R >= 16),
        "label": tokens.y.to(torch.int8),
        "kept": kept.sum(-1).to(torch.int8),
        "best": (kept == best).all(-1),  # the best mixture's tokens (False for the ReLU: not asked)
        "rises": (mixtures.costs(head, tokens, corners, loss) < -1e-9).any(-1),  # an edge from the best token
        "corner": (at_end.abs() < 2**0.5).sum(-1).to(torch.int8),  # units V_k with scale |V_k.xbar| < sqrt(2)
        "certified": (inner.abs() <= 2**0.5).all(-1).all(-1),  # gelu is convex there
        # cost and lag of the dropped token with the least cost; inf where all are kept
        "cost": prices.gather(-1, least)[..., 0].masked_fill(none, torch.inf).float(),
        "lag": lags.gather(-1, least)[..., 0].masked_fill(none, torch.inf).float(),
        "at_last": predictions(tokens, kept, solution.value, log_s, end).T.float(),
    }


def downhill(X, y, V, rows, W, activation):
    """Where the mean logistic loss falls fastest, with length 1, however small the gradient is: (B, d, d).

    For f = sum_k act(4 V_k.x), tokens X (B, n, T, d) and rows x_it z_i^T (B, n T, d d).
    """
    h = (rows @ W.reshape(len(W), -1, 1)).reshape(X.shape[:3])
    s, first = softmax(h, axis=-1), np.eye(h.shape[-1], dtype=bool)[h.argmax(axis=-1)]
    f, slope = _head((s[..., None, :] @ X)[..., 0, :], V, activation)
    value = (X @ slope[..., None])[..., 0]
    value -= value[first].reshape(*h.shape[:2], 1)
    gain = value - (s * value).sum(axis=-1, keepdims=True)
    log_s = np.where(first, -np.inf, log_softmax(h, axis=-1))
    s = np.exp(log_s - log_s.max(axis=(-1, -2), keepdims=True))  # but the first, to a scale of each run
    push = (y * expit(-y * f))[..., None] * s * gain
    push -= first * push.sum(axis=-1, keepdims=True)
    G = (push.reshape(len(W), 1, -1) @ rows).reshape(W.shape)
    return G / np.linalg.norm(G, axis=(1, 2), keepdims=True)


def descend(tokens, head, eta: float, marks) -> np.ndarray:
    """W after each number of normalised steps in marks, (marks, trials, d, d), from 0; scale 4 only.

    Between two steps, so that the bounce cancels. Attention below 1e-308 counts: only its ratios in a run do.
    """
    X, z, y, V = (A.numpy() for A in (tokens.X, tokens.z, tokens.y, head.V))
    B, n, t, d = X.shape
    rows = (X[..., None] * z[:, :, None, None]).reshape(B, n * t, d * d)
    W, at, marks = np.zeros((B, d, d)), [], set(map(int, marks))
    for j in range(1, max(marks) + 1):
        W = W + eta * downhill(X, y, V, rows, W, head.activation)
        if j in marks:
            at.append(W + eta / 2 * downhill(X, y, V, rows, W, head.activation))
    return np.stack(at)


def _head(q, V, activation):
    """f and its gradient at q (..., d), for f = sum_k act(4 V_k.x), gelu or tanh; q may be complex."""
    inner = 4 * q @ np.swapaxes(V, -1, -2)
    if activation == "tanh":
        outer = np.tanh(inner)
        return outer.sum(axis=-1), 4 * (1 - outer**2) @ V
    normal = ndtr(inner)
    slope = 4 * (normal + inner * np.exp(-(inner**2) / 2) / np.sqrt(2 * np.pi)) @ V
    return (inner * normal).sum(axis=-1), slope


class Flow:
    """Gradient flow of one run, dW/dt = -gradient of the mean logistic loss, in its logits h = (h_it).

    With the rows x_it z_i^T, K their Gram matrix and push_it = -dL/dh_it, it is dh/dt = K push(h): n T
    numbers, whatever d.
    """

    def __init__(self, X, z, y, V, activation="gelu"):
        self.X, self.y, self.V, self.activation = X, y, V, activation
        self.rows = (X[..., None] * z[:, None, None]).reshape(*X.shape[:2], -1)
        flat = self.rows.reshape(X.shape[0] * X.shape[1], -1)
        self.K = flat @ flat.T

    def push(self, h):
        """-dL/dh (..., n, T)."""
        e = np.exp(h - h.real.max(axis=-1, keepdims=True))
        s = e / e.sum(axis=-1, keepdims=True)
        f, slope = _head((s[..., None, :] @ self.X)[..., 0, :], self.V, self.activation)
        value = (self.X @ slope[..., None])[..., 0]
        value = value - np.take_along_axis(value, h.real.argmax(axis=-1)[..., None], axis=-1)
        gain = value - (s * value).sum(axis=-1, keepdims=True)
        return (self.y / (1 + np.exp(self.y * f)))[..., None] * s * gain / len(self.y)

    def jacobian(self, h):
        """Of K push, (nT, nT), from steps of 1e-30 i, exact to rounding."""
        m = h.size
        steps = (h.ravel() + 1e-30j * np.eye(m)).reshape(m, *self.X.shape[:2])
        return self.K @ self.push(steps).imag.reshape(m, m).T / 1e-30

    def steepest(self, h) -> float:
        """H_max, the largest curvature of the loss in W."""
        return float(-np.linalg.eigvals(self.jacobian(h)).real.min())

    def pulls(self, kept, h, t: float):
        """pi_u = c_u s_u t / n of the dropped tokens u at the time t, (m,), and K, (m, m).

        K is the Gram matrix of their rows (x_ia - x_iu) z_i^T, a kept, perpendicular to those of kept tokens.
        """
        rows = self.rows[np.arange(len(kept)), kept.argmax(axis=-1)][:, None] - self.rows
        equal, free = rows[kept], rows[~kept]
        free = free - free @ np.linalg.pinv(equal) @ equal
        return -t * self.push(h)[~kept], free @ free.T


def first_return(growth, pi, K, s, now: float, until: float) -> float:
    """The first time from now to until at which a lost token has attention BAR again, or inf.

    d log|pi| / d log t = growth(pi, K), and attention, s now, is proportional to |pi| / t.
    """
    start = np.log(np.abs(pi))

    def pulls(q):
        return np.sign(pi) * np.exp(np.minimum(q, 40.0))

    def back(u, q):
        return (np.log(s) + q - start - (u - np.log(now))).max() - np.log(BAR)

    back.terminal = True
    found = solve_ivp(
        lambda u, q: np.clip(growth(pulls(q), K), -1e6, 1e6),
        np.log([now, until]),
        start,
        "LSODA",
        events=back,
        rtol=1e-6,
    )
    return float(np.exp(found.t[-1])) if len(found.t_events[0]) else np.inf


def return_runs(d: int, steps: int, kind: str = "gelu", eta: float = 0.1, *, trials: int, seed: int) -> dict:
    """Normalised steps of length eta: which runs mix, pi and K after 3,000, and when a lost token is back.

    Lost is what has attention below 1/2 % after 3,000 steps; a token is back when it is above that again.
    `pi`, `K`, `costs` and `s`, the attention, are of the lost tokens after 3,000 steps, filled up with zeros.
    `unrest` is how far the kept tokens are from their best shares then.
    """
    tokens, head, _ = problem(kind, d, trials, seed)
    X, z, y, V = (A.numpy() for A in (tokens.X, tokens.z, tokens.y, head.V))
    marks = np.unique(np.geomspace(3000, steps, 200).round().astype(int))
    h = np.einsum("bntd,jbde,bne->bjnt", X, descend(tokens, head, eta, marks), z)
    s = softmax(h, axis=-1)
    kept = s > BAR
    on_kept = torch.tensor(s[:, 0] * kept[:, 0])
    unrest = np.abs(s[:, 0] - mixtures.on_face(head, tokens, on_kept).numpy()).max(axis=(1, 2))
    most = N * (T - 1) - 1  # lost tokens of a run with a mixture
    pi, costs, low = (np.zeros((trials, most), np.float32) for _ in range(3))
    K = np.zeros((trials, most, most), np.float32)
    mixes = np.zeros(trials, dtype=bool)
    back = np.full(trials, np.inf, np.float32)
    for run in range(trials):
        first = kept[run, 0]
        mixes[run] = (first.sum(-1) > 1).any() and not first.all()
        if mixes[run]:
            flow, m = Flow(X[run], z[run], y[run], V[run], kind), (~first).sum()
            time = 2 * 3000 / flow.steepest(h[run, 0])
            pi[run, :m], K[run, :m, :m] = flow.pulls(first, h[run, 0], time)
            low[run, :m] = s[run, 0][~first]
            costs[run, :m] = N * pi[run, :m] / time / low[run, :m]
            above = kept[run][:, ~first].any(-1)
            if above.any():
                back[run] = marks[above.argmax()]
    return {
        "mixes": mixes,
        "pi": pi,
        "K": K,
        "costs": costs,
        "s": low,
        "unrest": unrest.astype(np.float32),
        "back": back,
    }


def rest_shares(d: int, steps: int, kind: str = "gelu", eta: float = 0.1, *, trials: int, seed: int) -> dict:
    """The problems of `return_runs`: the smallest share at rest of the tokens not lost after 3,000 steps."""
    tokens, head, _ = problem(kind, d, trials, seed)
    W = torch.tensor(descend(tokens, head, eta, [3000])[0])
    s = torch.einsum("bntd,bde,bne->bnt", tokens.X, W, tokens.z).softmax(-1)
    rest = mixtures.on_face(head, tokens, s * (s > BAR))
    return {"least": rest.masked_fill(s <= BAR, torch.inf).amin((-1, -2)).float()}


class Lost(NamedTuple):
    """Runs of descent that mix and have lost a token which would help."""

    pulls: list  # (pi, K, s) of each, after 3,000 steps
    hold: np.ndarray  # whether the box's conditions hold then, as the lesson puts them in numbers
    back: np.ndarray  # the steps after which a lost token is back, or inf
    flow: np.ndarray  # the same by gradient flow from step 3,000 on, to 3e12; nan where not all hold


def conditions(rests, costs, s) -> np.ndarray:
    """Whether all conditions of the lesson hold, for runs at rest, and costs and attention of lost tokens."""
    return rests & (np.where(costs < 0, costs, -np.inf).max(axis=1) < -0.01) & (s.max(axis=1) < 0.004)


def lost_of(found) -> Lost:
    """What `return_runs`, `rest_shares` and `flow_returns` say of the same problems, (problems, ...) each."""
    pi, K, costs, s, unrest, least, back, flow = (
        np.asarray(found[name]) for name in ("pi", "K", "costs", "s", "unrest", "least", "back", "flow")
    )
    lost = np.flatnonzero((pi < 0).any(axis=1))
    on = [pi[run] != 0 for run in lost]  # filled up with zeros
    pulls = [
        tuple(A.astype(float) for A in (pi[run][at], K[run][np.ix_(at, at)], s[run][at]))
        for run, at in zip(lost, on, strict=True)
    ]
    hold = conditions((unrest < BAR) & (least > BAR), costs, s)
    return Lost(pulls, hold[lost], back[lost], flow[lost])


def lost_runs() -> Lost:
    """From the stored sweeps 13.fresh, 13.fresh_rest and 13.fresh_flow, both kinds of heads."""
    found = measured("13.fresh").load()
    for name in ("rest", "flow"):
        found = found.assign(measured(f"13.fresh_{name}").load())
    found = found.squeeze(("steps", "eta"))
    parts = [found.sel(kind=kind) for kind in found.kind]
    return lost_of({name: np.concatenate([A for part in parts for A in part[name].values]) for name in found})


def least_Lambda(pi, K) -> float:
    """The least lag of a lost token that helps (pi < 0) in the SVM with those that harm alone as dropped.

    min_a a^T K a / 2 - sum_t a_t    subject to    a >= 0, over those that harm: a are its multipliers.
    """
    harms = pi > 0
    if not harms.any():
        return 0.0  # no SVM; and nnls crashes on an empty matrix
    low = np.linalg.cholesky(K[np.ix_(harms, harms)] + 1e-10 * np.eye(harms.sum()))
    multipliers, _ = nnls(low.T, np.linalg.solve(low, np.ones(harms.sum())))
    return float((K[np.ix_(~harms, harms)] @ multipliers).min())


def flow_return(flow: Flow, h, held, steps=(3000, 3e12)) -> float:
    """The step at which gradient flow from the logits h (n, T), at steps[0], has a lost token back, or inf.

    j steps are the time 2 j / H_max. Flow is followed in log time, until steps[1]. A pull of -1e5 counts as
    back: the rest takes less than about 1e-5 of the time, too little for the solver.
    """
    time, (now, until) = 2 * steps[0] / flow.steepest(h), steps

    def back(u, h):
        h = h.reshape(held.shape)
        s, pulls = softmax(h, axis=-1)[~held], -np.exp(u) * flow.push(h)[~held]
        return np.log(max(s.max() / BAR, -pulls.min() / 1e5))

    back.terminal = True
    found = solve_ivp(
        lambda u, h: np.exp(u) * (flow.K @ flow.push(h.reshape(held.shape)).ravel()),
        np.log([time, time * until / now]),
        h.ravel(),
        "BDF",
        jac=lambda u, h: np.exp(u) * flow.jacobian(h.reshape(held.shape)),
        events=back,
        rtol=1e-6,
        atol=1e-8,
    )
    return float(now * np.exp(found.t[-1]) / time) if len(found.t_events[0]) else np.inf


def flow_returns(d: int, steps: int, kind: str = "gelu", eta: float = 0.1, *, trials: int, seed: int) -> dict:
    """The problems of `return_runs`: when flow from step 3,000 on, to 3e12, has a lost token back, or inf.

    Nan where no lost token helps, or not all conditions of the lesson hold.
    """
    tokens, head, _ = problem(kind, d, trials, seed)
    X, z, y, V = (A.numpy() for A in (tokens.X, tokens.z, tokens.y, head.V))
    h = np.einsum("bntd,bde,bne->bnt", X, descend(tokens, head, eta, [3000])[0], z)
    s = softmax(h, axis=-1)
    held = s > BAR
    rest = mixtures.on_face(head, tokens, torch.tensor(s * held)).numpy()
    rests = ((np.abs(s - rest) < BAR) & (rest > BAR) | ~held).all(axis=(1, 2))
    found = np.full(trials, np.nan, np.float32)
    for k in np.flatnonzero(rests & (held.sum(axis=-1) > 1).any(axis=-1) & ~held.all(axis=(1, 2))):
        flow, low = Flow(X[k], z[k], y[k], V[k], kind), s[k][~held[k]]
        costs = -N * flow.push(h[k])[~held[k]] / low
        if (costs < 0).any() and conditions(True, costs[None], low[None]).all():
            found[k] = flow_return(flow, h[k], held[k])
    return {"flow": found}


def published_runs(d: int, *, trials: int, seed: int) -> dict:
    """The published experiment: 2,001 normalised steps with a ReLU, kept is s > 1e-3, and the run's verdict."""  # noqa: E501
    tokens, head, _ = problem("relu", d, trials, seed)
    model = models.CrossAttention(d, trials=trials, head=heads.MLPHead(d, d, trials, "relu", init=head.V))
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps=2001, progress=False)
    s, W = model.attention(tokens).detach(), model.W.detach()
    kept = s > 1e-3
    W_dir = svm.solve(svm.mixture_problem(tokens.X, tokens.z, kept), throw=False).value
    between = (s > 1e-6) & ~kept
    return {
        "public": ~between.any(-1).any(-1) & (s <= 1e-6).any(-1).any(-1),
        "norm": W.norm(dim=(-1, -2)).float(),
        "flat": (head_output(head.V, tokens.mix(s)) < 1e-6).any(-1),
        "apart": predictions(tokens, kept, W_dir, s.log(), W).T.float(),
    }


def head_output(V: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """f = 1^T relu(V x)."""
    return torch.relu(x @ V.mT).sum(-1)


MEASURED = [
    Measured(
        "13.fresh",
        "Runs of descent with a mixture: the pulls of lost tokens, and when one is back.",
        return_runs,
        {"kind": ["gelu", "tanh"], "eta": [0.05], "d": [5, 6], "steps": [60_000]},
        trials=200,
        batch=200,
        seed=2,
        minutes=2,
    ),
    Measured(
        "13.fresh_rest",
        "The problems of 13.fresh: the smallest share at rest of the tokens not lost.",
        rest_shares,
        {"kind": ["gelu", "tanh"], "eta": [0.05], "d": [5, 6], "steps": [60_000]},
        trials=200,
        batch=200,
        seed=2,
        minutes=0.25,
    ),
    Measured(
        "13.fresh_flow",
        "The problems of 13.fresh: when flow from step 3,000 on has a lost token back.",
        flow_returns,
        {"kind": ["gelu", "tanh"], "eta": [0.05], "d": [5, 6], "steps": [60_000]},
        trials=200,
        batch=200,
        seed=2,
        minutes=0.5,
    ),
    Measured(
        "13.runs",
        "Paths of three heads: tokens kept, whether an edge rises, three predictions of W.",
        mixture_runs,
        {"kind": list(KINDS), "d": [4, 6, 8, 10]},
        trials=200,
        batch=50,
        minutes=1,
    ),
    Measured(
        "13.published",
        "The published experiment: descent with a ReLU, and how well three predictions fit its W.",
        published_runs,
        {"d": [4, 6, 8, 10]},
        trials=1000,
        batch=100,
        minutes=1,
    ),
]
