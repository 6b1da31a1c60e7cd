"""Lesson 13: heads that keep several tokens, read from paths that arrive."""

import numpy as np
import torch
from scipy.optimize import linprog

from course.replicate.stored import Measured
from mini_attn import data, heads, mixtures, models, newton, optim, svm, train

N, T = 3, 4  # sequences and tokens, as published
RADII = (0.5, 1.0, 2.0, *(4 * 2 ** (k / 4) for k in range(17)))  # 4 to 64, a quarter octave apart
SHOWN = (16.0, 32.0)  # radii at which all runs are compared, where they have arrived
FAR = 2048.0  # a radius for the path whose two parts are solved apart: there the remainder is read
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


def parts(tokens, s, W_dir, W):
    """W_fin of the mixture s, and the multiple of W_dir that fits W best beside it, (trials, 1, 1)."""
    W_fin = svm.solve(
        svm.ratio_problem(tokens.X, tokens.z, s > 0, s.clamp(min=1e-300).log()), throw=False
    ).value
    c = ((W - W_fin) * W_dir).sum((-1, -2), keepdim=True) / W_dir.square().sum((-1, -2), keepdim=True)
    return W_fin, c


def remainder(tokens, s, W_dir, W) -> torch.Tensor:
    """r = W - W_fin - c W_dir, perpendicular to W_dir."""
    W_fin, c = parts(tokens, s, W_dir, W)
    return W - W_fin - c * W_dir


def along(tokens, s, W_dir, r, W) -> torch.Tensor:
    """1 - correlation of W with its three parts, W_fin + c W_dir + r, (trials,)."""
    W_fin, c = parts(tokens, s, W_dir, W)
    return apart(W, W_fin + c * W_dir + r)


def read(tokens, head, loss: str, radii=RADII):
    """The path of each trial, its last two radii with residual 1e-6 at most, and what they say is kept."""
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
    leads = fall(tokens, solution.value, winner)
    error = (rates * solution.objective[:, None, None] - leads).abs().amax((-1, -2))
    error = error.masked_fill(solution.objective == 0, torch.inf)  # W_dir = 0 foresees no rate
    return path, last, end, log_s, kept, solution, error


def mixture_runs(kind: str, d: int, *, trials: int, seed: int) -> dict:
    """Paths with Newton steps, the tokens they keep, the predictions; and descent as published."""
    tokens, head, loss = problem(kind, d, trials, seed)
    path, last, end, log_s, kept, solution, error = read(tokens, head, loss)
    R = path.radii[last]
    optimal = torch.as_tensor(solution.status == "optimal")
    result = {
        "last": R.float(),
        "error": error.nan_to_num(torch.inf).float(),  # of the rates, in units of 1 / ||W_dir||
        "accepted": optimal & (error < 0.5) & (R >= 16),
        "label": tokens.y.to(torch.int8),
        "kept": kept.sum(-1).to(torch.int8),
        "at_last": predictions(tokens, kept, solution.value, log_s, end).T.float(),
    }
    s = log_s.exp() * kept
    s = mixtures.on_face(head, tokens, s / s.sum(-1, keepdim=True))
    far = mixtures.mixture_path(head, tokens, s, [*SHOWN, 128, 512, FAR], loss)
    r = remainder(tokens, s, solution.value, far["W"][-1])
    r = r.masked_fill((far.residual[-1] > 1e-6)[:, None, None], torch.nan)
    for k, radius in enumerate(SHOWN):
        row = int((path.radii - radius).abs().argmin())
        W = path["W"][row]
        here = torch.log_softmax(torch.einsum("bntd,bde,bne->bnt", tokens.X, W, tokens.z), -1)
        there = predictions(tokens, kept, solution.value, here, W).T.float()
        result[f"at_{radius:g}"] = there.masked_fill((path.residual[row] > 1e-6)[:, None], torch.nan)
        three = along(tokens, s, solution.value, r, W)
        result[f"three_{radius:g}"] = three.masked_fill(path.residual[row] > 1e-6, torch.nan).float()
        own = remainder(tokens, s, solution.value, far["W"][k])  # how far r has still to go, by its length
        result[f"drift_{radius:g}"] = ((own - r).norm(dim=(-1, -2)) / own.norm(dim=(-1, -2))).float()
    result["remainder"] = r.norm(dim=(-1, -2)).float()
    result["apart_32"] = apart(W, far["W"][k]).float()  # where both arrive they should agree
    settled, best = s, mixtures.best_mixture(head, tokens, steps=60)
    result["best"] = (best - s).abs().amax(-1) < 1e-4  # of each sequence: there is no better mixture
    act = KINDS[kind][0] if kind != "relu" else "relu"
    plain = heads.MLPHead(d, d, trials, act, 1.0 if kind == "relu" else head.scale, init=head.V)
    model = models.CrossAttention(d, trials=trials, head=plain)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps=2001, progress=False)
    s, W = model.attention(tokens).detach(), model.W.detach()
    between = ((s > 1e-6) & (s <= 1e-3)).any(-1).any(-1)
    result["public"] = ~between & (s <= 1e-6).any(-1).any(-1)
    result["norm_public"] = W.norm(dim=(-1, -2)).float()
    result["at_descent"] = predictions(tokens, kept, solution.value, s.log(), W).T.float()
    result["three_descent"] = along(tokens, settled, solution.value, r, W).float()
    own = s > 1e-3  # as the public code reads what descent keeps
    W_dir = svm.solve(svm.mixture_problem(tokens.X, tokens.z, own), throw=False).value
    result["at_public"] = predictions(tokens, own, W_dir, s.log(), W).T.float()
    return result


def downhill(tokens, head, rows: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    """Where the mean logistic loss falls fastest, with length 1, however small the gradient is."""
    h = (rows @ W.flatten(-2)[..., None]).unflatten(-2, tokens.X.shape[-3:-1])[..., 0]
    first = torch.nn.functional.one_hot(h.argmax(-1), h.shape[-1]).bool()
    s = h.softmax(-1)
    x = (s[..., None, :] @ tokens.X)[..., 0, :]
    f, slope, _ = head.linearised(x)
    value = tokens.y[..., None] * (tokens.X @ slope[..., None]).squeeze(-1)
    value = value - value[first].unflatten(0, h.shape[:-1])[..., None]
    gain = value - (s * value).sum(-1, keepdim=True)
    log_s = h.log_softmax(-1).masked_fill(first, -torch.inf)
    s = (log_s - log_s.amax((-1, -2), keepdim=True)).exp()  # of all but the first, to a scale of each run
    push = torch.sigmoid(-tokens.y * f)[..., None] * s * gain
    push = push - first * push.sum(-1, keepdim=True)
    G = (push.flatten(-2)[..., None, :] @ rows).reshape(W.shape)
    return G / G.norm(dim=(-1, -2), keepdim=True)


def branch_runs(d: int, *, trials: int, seed: int) -> dict:
    """The set that descent keeps after 6,000 and 60,000 steps, beside the path's, and whether it can stay.

    A set is what has attention above j^(-1/2) after j steps. It can stay (the conditions of a branch) where
    the shares rest on it and each of its dropped tokens with lead 1 has a positive cost.
    """
    tokens, head, loss = problem("gelu", d, trials, seed)
    *_, kept, _, error = read(tokens, head, loss)
    rows = (tokens.X[..., None] * tokens.z[:, :, None, None]).flatten(-2).flatten(1, 2)
    W, at, lengths = torch.zeros(trials, d, d, dtype=torch.float64), {}, {}
    for j in range(1, 60_001):
        W = W + 0.1 * downhill(tokens, head, rows, W)
        if j in (2000, 6000, 20_000, 60_000):
            at[j] = W + 0.05 * downhill(tokens, head, rows, W)
            lengths[f"length_{j}"] = at[j].norm(dim=(-1, -2)).float()
    result = {"label": tokens.y.to(torch.int8), "kept": kept, "accepted": error < 0.5, **lengths}
    for j in (6000, 60_000):
        s = torch.einsum("bntd,bde,bne->bnt", tokens.X, at[j], tokens.z).softmax(-1)
        own = s > j**-0.5
        solution = svm.solve(svm.mixture_problem(tokens.X, tokens.z, own), throw=False)
        lead = fall(tokens, solution.value, s.argmax(-1, keepdim=True))
        rest = s * own
        rest = mixtures.on_face(head, tokens, rest / rest.sum(-1, keepdim=True))
        cost = mixtures.costs(head, tokens, rest)
        result |= {f"own_{j}": own, f"s_{j}": s.float(), f"lead_{j}": lead.float(), f"cost_{j}": cost.float()}
        near, level = (rest - s * own).abs() < 0.02, cost.where(own, 0.0).abs() < 1e-6
        result[f"rests_{j}"] = (near & level).all(-1)
        result[f"N_{j}"] = solution.objective.float()
    return result


def fates(branches, d: int, comes_back) -> dict:
    """What the stored "13.branches" say of one d: sets after 60,000 steps, helping tokens, powers, clock.

    Only runs count whose path is read for certain and mixes somewhere.

    Args:
        branches: the stored sweep.
        d: one of its dimensions.
        comes_back: lead, cost -> which tokens come back, the lesson's exercise 13.4.
    """
    of = {name: values.values for name, values in branches.sel(d=d).items()}
    kept = of["kept"] > 0
    runs = (of["accepted"] > 0) & (kept.sum(-1) > 1).any(-1)
    of, kept = {name: values[runs] for name, values in of.items()}, kept[runs]
    (own_6, s_6, lead_6, cost_6, rests_6), (own, s, lead, cost, rests) = (
        [of[f"{name}_{j}"] for name in ("own", "s", "lead", "cost", "rests")] for j in (6000, 60_000)
    )
    same, plus = (own == kept).all(-1), of["label"] > 0
    back = ((own == 0) & comes_back(lead, cost)).any(-1)
    settled = ~same & ~back & (rests > 0)
    largest = np.where((own == 0) & (cost < 0), lead, 0).max(-1)

    changed = (own_6 != own).any(-1)
    alone = (rests_6 > 0).all(-1, keepdims=True) & (changed.sum(-1, keepdims=True) == changed)
    helps = (
        (own_6 == 0) & (cost_6 < 0) & alone[..., None]
    )  # outside after 6,000 steps, the other sets settled
    slow = s > s_6 / 10
    at_1, above = helps & comes_back(lead_6, cost_6), helps & (lead_6 > 1.1)

    known = same.all(-1)
    clear = (own == 0) & known[:, None, None] & (lead > 1.05) & (s > 1e-30)
    power, rule = np.log10(s_6[clear] / s[clear]), lead[clear]
    near = [(np.abs(power / guess - 1) < 0.1).sum() for guess in (rule, 1, rule.mean())]
    grown = of["length_60000"] - of["length_6000"]
    return {
        "sets": [
            x.sum() for x in (same, settled & plus, settled & ~plus, ~same & back, ~same & ~back & ~settled)
        ],
        "held": largest[settled & ~plus],
        "helping": [x.sum() for x in (at_1 & slow, at_1, above & slow, above)],
        "powers": [*near, clear.sum()],
        "clock": grown[known] / (of["N_60000"][known] * np.log(10)),
    }


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


def kink_runs(d: int, *, trials: int, seed: int) -> dict:
    """The best mixtures of a ReLU head, exactly: a token where y = +1, a linear program where y = -1."""
    tokens, head, _ = problem("relu", d, trials, seed)
    X, V, y = tokens.X.numpy(), head.V.numpy(), tokens.y.numpy()
    kept, kinks, flat = (np.zeros((trials, N), dtype=dtype) for dtype in ("int8", "int8", "bool"))
    for i, k in np.ndindex(trials, N):
        if y[i, k] > 0:
            s = np.eye(T)[np.maximum(X[i, k] @ V[i].T, 0).sum(-1).argmax()]
        else:
            s = least_relu(X[i, k] @ V[i].T)
        inner = s @ X[i, k] @ V[i].T
        kept[i, k], kinks[i, k] = (s > 1e-9).sum(), (np.abs(inner) < 1e-9).sum()
        flat[i, k] = y[i, k] < 0 and np.maximum(inner, 0).sum() < 1e-9
    return {"label": y.astype("int8"), "kept": kept, "kinks": kinks, "flat": flat}


def least_relu(inner: np.ndarray) -> np.ndarray:
    """argmin_s sum_k relu((s inner)_k) over mixtures s (T,), inner (T, hidden): a vertex of a linear program.

    min sum_k r_k    subject to    r_k >= (s inner)_k,  r >= 0,  s >= 0,  sum_t s_t = 1
    """
    tokens, hidden = inner.shape
    found = linprog(
        np.r_[np.zeros(tokens), np.ones(hidden)],
        A_ub=np.c_[inner.T, -np.eye(hidden)],
        b_ub=np.zeros(hidden),
        A_eq=np.r_[np.ones(tokens), np.zeros(hidden)][None],
        b_eq=[1.0],
        method="highs-ds",
    )
    return found.x[:tokens]


MEASURED = [
    Measured(
        "13.branches",
        "The tokens that descent keeps after 6,000 and 60,000 steps, the path's, and whether sets can stay.",
        branch_runs,
        {"d": [4, 6, 10]},
        trials=200,
        batch=100,
        minutes=6,
    ),
    Measured(
        "13.runs",
        "Paths of three heads: tokens kept, three predictions of W, and descent as published.",
        mixture_runs,
        {"kind": list(KINDS), "d": [4, 6, 8, 10]},
        trials=200,
        batch=50,
        minutes=4,
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
    Measured(
        "13.kinks",
        "Best mixtures of a ReLU head: tokens kept, hidden units at their kink, flat minima.",
        kink_runs,
        {"d": [4, 6, 8, 10]},
        trials=500,
        batch=50,
        minutes=0.5,
    ),
]
