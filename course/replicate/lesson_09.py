"""Lesson 09 at length: head and prompt trained together on random problems, and the SVMs they go to."""

import numpy as np
import torch
from torch import Tensor

from course.replicate.stored import Measured
from mini_attn import data, geometry, heads, models, optim, svm, train
from mini_attn.sweep.design import batch_seed

N, T, D = 4, 4, 6


def problems(trials, shape, **cell):
    """Tokens (trials, n, T, d) and labels (trials, n) of a stored sweep, as arrays: its batches of 120.

    Args:
        shape: n, T and d. cell: the values of the sweep's parameters that are not paired.
    """
    drawn = [
        data.random_tokens(*shape, trials=120, seed=batch_seed(0, cell, first))
        for first in range(0, trials, 120)
    ]
    return [torch.cat([getattr(tokens, part) for tokens in drawn]).numpy() for part in "Xy"]


def _at_choice(X, y, choice):
    """Tensors of the keys, labels and choice, the solved label SVM, the outputs at it, and S."""
    keys, labels, selected = torch.tensor(X), torch.tensor(y), torch.tensor(choice)
    x = keys.gather(-2, selected[..., None, None].expand(*selected.shape, 1, keys.shape[-1])).squeeze(-2)
    head = svm.solve(svm.label_problem(x, labels))
    u = labels * (x @ head.value[..., None]).squeeze(-1)
    return keys, labels, selected, head, u, u < 1 + 1e-4


def two_svms(X, y, choice):
    """The Att-SVM's and the relaxed solution, (R, d) each, outputs u* at v_mm, (R, n), and ||v_mm||, (R,).

    Args:
        X, y, choice: R runs, (R, n, T, d), (R, n) and (R, n), integers.
    """
    keys, _, selected, head, u, S = _at_choice(X, y, choice)
    solved = [svm.solve(svm.token_problem(keys, selected, side.to(u))).value for side in (S | True, S)]
    return [part.numpy() for part in (*solved, u, head.value.norm(dim=-1))]


def lead_errors(law, p, X, y, choice):
    """The largest error of `law`, exercise 09.3, in the leads of the comparisons that push, for each run:
    at two steps, at the second with g = 1, and whether every sequence is in S, 1 or 0.

    A run is left out where p chooses otherwise at the second step, a further condition of section 9.5 fails,
    a multiplier or a g is below 1e-3, or fewer than two comparisons push.

    Args:
        law: of g, mu and lam, (m,) each; the multipliers carry a factor. p: (2, R, d). The rest: see
            `two_svms`.
    """
    keys, labels, selected, head, _, S = _at_choice(X, y, choice)
    problem = svm.token_problem(keys, selected, S.to(keys))
    prompt = svm.solve(problem)
    p = torch.tensor(p)
    same = ((keys @ p[1][:, None, :, None]).squeeze(-1).argmax(-1) == selected).all(-1)
    i = torch.arange(X.shape[1]).repeat_interleave(X.shape[2] - 1)  # the sequence of each comparison
    v_mm, p_rel = (solved.value[..., None] for solved in (head, prompt))
    equal = (problem.a @ p_rel).squeeze(-1) < problem.r + 1e-5
    factors = labels[:, i] * (problem.a @ v_mm).squeeze(-1)
    errors = []
    for k in same.nonzero().squeeze(-1).tolist():
        push, out = equal[k] & S[k][i], prompt.dual[k][~S[k][i]]
        a, g, mu, lam = problem.a[k][push], factors[k][push], head.dual[k][i[push]], prompt.dual[k][push]
        least = min(g.min(), lam.min(), head.dual[k][S[k]].min())
        if least < 1e-3 or (out > 1e-6).any() or len(a) < 2 or torch.linalg.matrix_rank(a) < len(a):
            continue
        leads = a @ p[:, k].mT
        rest = (leads - leads.min(0).values).mT.numpy()
        g, mu, lam = (part.numpy() for part in (g, mu, lam))
        first, second = abs(rest - law(g, mu, lam)).max(axis=1)
        plain = abs(rest[1] - law(np.ones(len(g)), mu, lam)).max()
        errors.append([first, second, plain, float(S[k].all())])
    return errors


def train_both(tokens, ratio, steps, lr=0.1):
    """Normalised steps of length lr for p and ratio lr for v, from zero: the trained model."""
    (trials,) = tokens.trials
    model = models.PromptAttention(D, trials=trials, head=heads.LinearHead(D, trials=trials))
    groups = [{"params": [model.p]}, {"params": [model.head.v], "lr": ratio * lr}]
    train.fit(model, tokens, optim.NormalizedGD(groups, lr=lr, batch_dims=1), steps, progress=False)
    return model.requires_grad_(False)


def softened(tokens, selected, v_norm, u, ratio) -> Tensor:
    """p(kappa), (trials, d), for the kappa with kappa ||v_mm|| = ratio ||p(kappa)||, by bisection.

        p(kappa) = argmin ||p||   subject to   (k_i,alpha_i - k_it) . p >= max(0, 1 - kappa (u_i - 1))

    Args:
        selected: alpha, (trials, n). v_norm: ||v_mm||, (trials,). u: signed outputs at v_mm, (trials, n).
    """
    low, high = torch.zeros_like(v_norm), torch.full_like(v_norm, 100.0)
    for _ in range(25):
        kappa = (low + high) / 2
        side = (1 - kappa[:, None] * (u - 1)).clamp(0, 1)
        p = svm.solve(svm.token_problem(tokens.keys, selected, side), throw=False).value
        above = kappa * v_norm > ratio * p.norm(dim=-1)
        low, high = torch.where(above, low, kappa), torch.where(above, kappa, high)
    return p


def joint(speed, steps, *, trials, seed):
    """Random problems with n = T = 4, d = 6: cosines of p to the SVMs of the tokens it selected, and of v.

    "apart": tight and relaxed SVM differ, cosine below .99. "soft": a sequence with less than .99 of its
    attention on every token. "choice": the selected tokens as one number.
    """
    tokens = data.random_tokens(n=N, T=T, d=D, trials=trials, seed=seed)
    model = train_both(tokens, speed, steps)
    attention = model.attention(tokens)
    selected = geometry.selected_tokens(attention)
    x = tokens.X.gather(-2, selected[..., None, None].expand(trials, N, 1, D)).squeeze(-2)
    v_mm = svm.solve(svm.label_problem(x, tokens.y), throw=False).value
    u = tokens.y * (x @ v_mm[..., None]).squeeze(-1)
    S = u < 1 + 1e-4
    sides = {"tight": torch.ones_like(u), "relaxed": S.to(u)}
    limits = {
        name: svm.solve(svm.token_problem(tokens.keys, selected, side), throw=False).value
        for name, side in sides.items()
    }
    limits["softened"] = softened(tokens, selected, v_mm.norm(dim=1), u, speed)
    return {
        **{name: geometry.cosine(model.p, limit) for name, limit in limits.items()},
        "v": geometry.cosine(model.head.v, v_mm),
        "apart": geometry.cosine(limits["tight"], limits["relaxed"]) < 0.99,
        "soft": (attention.amax(-1) < 0.99).any(-1),
        "choice": (selected * T ** torch.arange(N)).sum(-1).to(torch.int16),
    }


SIZES = {3: (2, 5), 4: (4, 6), 6: (3, 9), 8: (3, 12)}  # T and d of the problems with n sequences


def descend_as_one(tokens, steps, lr=0.1):
    """Steps of length lr down the gradient of the pair (v, p), from zero: the two at the end.

    Gradients are divided by the largest slope of a trial, which underflows.
    """
    X, y = tokens.X, tokens.y
    p = v = torch.zeros_like(X[:, 0, 0])
    for _ in range(steps):
        h = (X @ p[:, None, :, None])[..., 0]
        s, scores = h.softmax(-1), y[..., None] * (X @ v[:, None, :, None])[..., 0]
        u = (s * scores).sum(-1)
        slope = -torch.nn.functional.softplus(u)
        slope = (slope - slope.amax(1, keepdim=True)).exp()
        first = h.argmax(-1, keepdim=True)[..., None].expand(*X.shape[:2], 1, X.shape[-1])
        on_v = ((slope * y)[..., None] * (s[..., None] * X).sum(-2)).sum(1)
        push = slope[..., None] * s * (scores - u[..., None])  # adds up to 0 over the tokens
        on_p = (push[..., None] * (X - X.gather(-2, first))).sum((1, 2))
        norm = torch.hypot(on_v.norm(dim=1), on_p.norm(dim=1))[:, None]
        v, p = v + lr * on_v / norm, p + lr * on_p / norm
    return v, p


def foretold(a, g, mu, p):
    """How far the leads a p of the m comparisons that push are from the law of exercise 09.3, and its rate.

    The rate is the smallest eigenvalue of (a a^T) diag(lam) on differences of leads (its rows add up to 1).
    NaN, NaN where the law's conditions do not hold, or fewer than two push.

    Args:
        a: (m, d). g, mu: (m,).
    """
    if len(a) < 2 or min(g.min(), mu.min()) < 1e-6 or torch.linalg.matrix_rank(a) < len(a):
        return torch.nan, torch.nan
    lam = torch.linalg.solve(a @ a.T, torch.ones_like(g))  # all have the lead 1
    c, lead = (g * mu / lam).log(), a @ p
    error = (lead - lead.min() - c + c.min()).abs().max()
    matrix = a @ a.T * lam
    return float(error), float(torch.linalg.eigvals(matrix[1:, 1:] - matrix[0, 1:]).real.min())


def pair(n, steps, *, trials, seed):
    """Random problems, (v, p) trained as one vector, near plain descent's path: each sequence at the end.

    The choice of a sequence is the token with 0.99 of its attention; if none has so much, of the two
    heaviest that with the larger score.

    "Delta": the smallest lead of a sequence in S. "u_min": the smallest signed output. "relaxed": the cosine
    of p to the relaxed SVM. "error", "rate": see `foretold`, for runs in which every sequence is decided. The
    others for each sequence, (trials, 8), NaN where there are fewer: "most", its largest attention; "choice",
    its number; "lead", of the choice over the other of the two heaviest; "tau", this lead at the relaxed
    SVM's p; "output", the signed output of the mixed tokens at v_mm, "upper" and "lower" those of the choice
    and of the other; "in_S", 1 or 0.
    """
    T, d = SIZES[n]
    tokens = data.random_tokens(n=n, T=T, d=d, trials=trials, seed=seed)
    v, p = descend_as_one(tokens, steps)

    def along(w):  # x_it . w
        return (tokens.X @ w[:, None, :, None])[..., 0]

    s = along(p).softmax(-1)
    (most, _), two = s.topk(2, dim=-1).values.unbind(-1), s.topk(2, dim=-1).indices
    scores = (tokens.y[..., None] * along(v)).gather(-1, two)
    turn = (most < 0.99) & (scores[..., 1] > scores[..., 0])
    choice, other = torch.where(turn[..., None], two.flip(-1), two).split(1, dim=-1)
    x = tokens.X.gather(-2, choice[..., None].expand(trials, n, 1, d)).squeeze(-2)
    label = svm.solve(svm.label_problem(x, tokens.y), throw=False)
    outputs = tokens.y[..., None] * along(label.value)
    S = outputs.gather(-1, choice).squeeze(-1) < 1 + 1e-4
    problem = svm.token_problem(tokens.keys, choice.squeeze(-1), S.to(x))
    relaxed = svm.solve(problem, throw=False)

    def leads(w):
        return (along(w).gather(-1, choice) - along(w).gather(-1, other)).squeeze(-1)

    error, rate = torch.full((2, trials), torch.nan)
    pushing, rows_in_S = relaxed.dual > 1e-6, S.repeat_interleave(T - 1, dim=-1)
    for k in (most > 0.99).all(-1).nonzero().squeeze(-1).tolist():
        if not (pushing[k] & ~rows_in_S[k]).any():
            a = problem.a[k][pushing[k]]
            i = torch.arange(n).repeat_interleave(T - 1)[pushing[k]]
            g = tokens.y[k][i] * (a @ label.value[k])
            error[k], rate[k] = foretold(a, g, label.dual[k][i], p[k])

    def padded(z):
        return torch.nn.functional.pad(z.float(), (0, max(SIZES) - n), value=torch.nan)

    return {
        "Delta": leads(p).masked_fill(~S, torch.inf).amin(-1).float(),
        "u_min": (s * tokens.y[..., None] * along(v)).sum(-1).amin(-1).float(),
        "relaxed": geometry.cosine(p, relaxed.value),
        "error": error,
        "rate": rate,
        "most": padded(most),
        "lead": padded(leads(p)),
        "tau": padded(leads(relaxed.value)),
        "choice": padded(choice.squeeze(-1)),
        "output": padded((s * outputs).sum(-1)),
        "upper": padded(outputs.gather(-1, choice).squeeze(-1)),
        "lower": padded(outputs.gather(-1, other).squeeze(-1)),
        "in_S": padded(S),
    }


MEASURED = [
    Measured(
        "09.joint",
        "Head and prompt trained together: directions at three speeds of the head, early and late.",
        joint,
        {"speed": [0.125, 1.0, 8.0], "steps": [3000, 30_000]},
        trials=360,
        batch=120,
        paired=("speed", "steps"),
        minutes=5,
    ),
    Measured(
        "09.pair",
        "Head and prompt trained as one vector, near plain descent's path: which sequences are undecided.",
        pair,
        {"n": [3, 4, 6, 8], "steps": [3000, 30_000]},
        trials=240,
        batch=120,
        paired=("steps",),
        minutes=2,
    ),
]
