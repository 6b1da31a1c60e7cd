"""What lesson 11 measured at length: the published figure, runs in log time, ranks, where runs rest."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from course.replicate.stored import Measured
from mini_attn import data, flow, geometry, models, optim, svm, train
from mini_attn.softmax import softmax, textbook_softmax

EPS = torch.finfo(torch.float64).eps  # the number in the public code, as a ridge and in its normaliser
SIZES = {"published": (6, 8, 10), "other": (4, 5, 14)}  # n, T, d
STEPS = (500, 1000, 2000, 8000)
VARIANTS = {  # name: (softmax, ridge, added to the gradient's norm)
    "public code": (textbook_softmax, EPS, EPS),
    "no ridge": (textbook_softmax, 0.0, EPS),
    "exact": (softmax, EPS, EPS),
    "exact, no ridge": (softmax, 0.0, EPS),
    "no eps at all": (textbook_softmax, 0.0, 0.0),
}


def start(d: int, m: int, trials: int, seed: int) -> Tensor:
    """K and Q as torch's nn.Linear starts them, U(-1/sqrt d, 1/sqrt d): (2, trials, d, m)."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(2, trials, d, m, generator=generator, dtype=torch.float64) - 1) / d**0.5


def public_descent(tokens: data.TokenData, KQ: Tensor, variant: str, steps: tuple[int, ...]) -> Tensor:
    """W = K Q^T after the given numbers of steps, (len(steps), trials, d, d), as the public code trains:
    each factor's gradient is divided by its norm plus eps, steps have length 0.1, and a ridge is added."""
    attend, ridge, added = VARIANTS[variant]
    K, Q = (w.clone().requires_grad_() for w in KQ)
    kept = []
    for step in range(1, max(steps) + 1):
        h = tokens.compare(tokens.z @ (K @ Q.mT).mT)
        outputs = (attend(h) * tokens.values).sum(-1)
        loss = nn.functional.softplus(-tokens.y * outputs).mean(-1).sum()
        if ridge:
            loss = loss + ridge * (K.square().sum() + Q.square().sum())
        with torch.no_grad():
            for w, g in zip((K, Q), torch.autograd.grad(loss, (K, Q)), strict=True):
                norm = g.flatten(1).norm(dim=1)[:, None, None] + added
                w -= 0.1 * torch.where(norm > 0, g / norm, 0.0)
            if step in steps:
                kept.append(K @ Q.mT)
    return torch.stack(kept)


def compared(W: Tensor, tokens: data.TokenData, norm: str = "nuc") -> tuple[Tensor, svm.Solution, Tensor]:
    """Cosine of W with the SVM of the tokens it selects, (trials,), that solution, and their logits at W."""
    h = tokens.compare(tokens.z @ W.mT)
    problem = svm.attention_problem(tokens.X, tokens.z, geometry.selected_tokens(h))
    solution = svm.solve(problem, norm=norm, throw=False)
    return geometry.cosine(W, solution.value), solution, h


def figure(size: str, variant: str, *, trials: int, seed: int) -> dict[str, Tensor]:
    """The published run of (K, Q) and what is left when parts of it are taken away; (trials, STEPS)."""
    n, T, d = SIZES[size]
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    path = public_descent(tokens, start(d, d, trials, seed), variant, STEPS)
    found = {"nuclear": [], "frobenius": []}
    for W in path:
        found["nuclear"].append(compared(W, tokens)[0])
        found["frobenius"].append(compared(W, tokens, "fro")[0])
    found["length"] = list(torch.linalg.matrix_norm(path, "nuc"))
    return {name: torch.stack(values, -1).float() for name, values in found.items()}


LEADS = (20.0, 100.0, 200.0)  # to here the steps are resolved
NORMS = tuple(10.0**k for k in range(2, 15, 2))  # from here on every step is half a percent


def log_time(start: float, m: int, *, trials: int, seed: int) -> dict[str, Tensor]:
    """Gradient flow of (K, Q), N(0, start^2), with m columns: what S says at lead 100 of the growth until
    200, and where the run is in log time. Size 6, 8, 10."""
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    model = models.FactoredAttention(10, m, trials=trials, scale=start, seed=seed)
    early = flow.follow(model, tokens, LEADS)
    S = flow.forces(early.W, tokens)
    xi, c, zeta = torch.linalg.svd(S[1])
    xi, zeta = xi[..., 0], zeta[..., 0, :]
    total = early.K.square() + early.Q.square()
    newcomer = torch.einsum("td,ltdm->ltm", xi, early.K) + torch.einsum("td,ltdm->ltm", zeta, early.Q)
    grown = [torch.log(x[2] / x[1]) for x in (newcomer.square().sum(-1), total.sum((-1, -2)))]
    singular = torch.linalg.svdvals(early.W[1])
    share = torch.einsum("td,tde,te->t", xi, early.W[1], zeta) / singular[..., 0]
    power = (c[..., 0] + torch.einsum("td,tde,te->t", xi, S[2], zeta)) / 2
    found = {"c": c[..., 0], "power": power, "measured": grown[0] / grown[1], "share": share}
    late = flow.follow(model, tokens, [10.0 * x for x in NORMS], turn=0.005, move=torch.inf, max_steps=16_000)
    for name, path in (("early", early.W), ("late", late.W)):
        rows = [compared(W, tokens) for W in path]
        lead = [geometry.margins(h, geometry.selected_tokens(h)).amin((-1, -2)) for _, _, h in rows]
        lengths = torch.linalg.matrix_norm(path, "nuc")
        found[f"cosine_{name}"] = torch.stack([row[0] for row in rows], -1)
        found[f"margin_{name}"] = (
            torch.stack(lead) / lengths / torch.stack([s.margin for _, s, _ in rows])
        ).T
        found[f"length_{name}"] = lengths.T
        spectrum = torch.linalg.svdvals(path)
        found[f"rank_{name}"] = (spectrum > 0.01 * spectrum[..., :1]).sum(-1).T
    found["goal"] = torch.linalg.svdvals(rows[-1][1].value)  # of the SVM of the tokens at the end
    found = {name: values.float() for name, values in found.items()}
    found["reached"] = early.reached[-1] & late.reached[-1]
    return found


TOLERANCES = {
    "loose": 1e-3,
    "middle": 1e-5,
    "tight": 1e-7,
}  # relative gaps at which the nuclear solver may stop


def ranks(n_T: str, d: int, *, trials: int, seed: int) -> dict[str, Tensor]:
    """Ranks of both SVMs of the best tokens: what a threshold of 1e-7 reports, and what is proved.

    -1 where the problem is proved infeasible, -2 where the solver leaves it open.
    """
    n, T = map(int, n_T.split(", "))
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    problem = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    euclidean = svm.solve(problem, norm="fro", throw=False)
    proved, solved = (torch.as_tensor(euclidean.status == word) for word in ("infeasible", "optimal"))

    def reported(W: Tensor) -> Tensor:
        rank = (torch.linalg.svdvals(W.nan_to_num()) > 1e-7).sum(-1)
        return torch.where(proved, -1, torch.where(solved, rank, -2))

    found = {"frobenius": reported(euclidean.value)}
    for name, tol in TOLERANCES.items():
        nuclear = svm.solve(problem, norm="nuc", tol=tol, throw=False)
        found[name] = reported(nuclear.value)
    bound = svm.certified_rank(problem, nuclear)
    found["certified"] = torch.where(found["frobenius"] < 0, found["frobenius"], bound)
    return found


# What the published figure owes to each of its parts. These sweeps have functions of their own: a stored
# sweep is tied to those that it was made with.


def without_eps(size: str, variant: str, *, trials: int, seed: int) -> dict[str, Tensor]:
    """The rows of `figure` without eps in the norm, on its problems and starts; (trials, 4)."""
    n, T, d = SIZES[size]
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    KQ = start(d, d, trials, seed)
    ridge = EPS if variant.endswith("ridge") else 0.0
    if variant.startswith("textbook"):
        found, steps, past = [], 0, KQ
        for at in STEPS:
            past = stepped(past, tokens, at - steps, 0.1, textbook_softmax, ridge, 0.0)
            found.append(past[0] @ past[1].mT)
            steps = at
        path = torch.stack(found)
    else:  # exact however far out: log-scaled
        model = models.FactoredAttention(d, d, trials=trials)
        with torch.no_grad():
            model.K.copy_(KQ[0])
            model.Q.copy_(KQ[1])
        groups = [{"params": [model.K]}, {"params": [model.Q]}]
        optimizer = optim.NormalizedGD(groups, lr=0.1, batch_dims=1)
        how = {"record": {"W": lambda model: model.W}, "every": list(STEPS), "progress": False}
        path = train.fit(model, tokens, optimizer, STEPS[-1], ridge=ridge, **how)["W"][1:]
    return {"nuclear": torch.stack([compared(W, tokens)[0] for W in path], -1).float()}


def gradient(KQ: Tensor, tokens: data.TokenData, attend=softmax, ridge: float = EPS) -> Tensor:
    """Of the mean loss plus ridge (||K||_F^2 + ||Q||_F^2), (2, trials, d, m)."""
    KQ = KQ.clone().requires_grad_()
    h = tokens.compare(tokens.z @ (KQ[0] @ KQ[1].mT).mT)
    loss = nn.functional.softplus(-tokens.y * (attend(h) * tokens.values).sum(-1)).mean(-1).sum()
    return torch.autograd.grad(loss + ridge * KQ.square().sum(), KQ)[0]


def stepped(KQ, tokens, steps: int, lr: float, attend=softmax, ridge: float = EPS, added: float = EPS):
    """K and Q, (2, trials, d, m), after so many steps lr g / (||g|| + added), each normalised by itself."""
    for _ in range(steps):
        g = gradient(KQ, tokens, attend, ridge)
        norm = g.flatten(2).norm(dim=2)[..., None, None] + added
        KQ = KQ - lr * torch.where(norm > 0, g / norm, 0.0)
    return KQ


def convex_rest(A: np.ndarray, F: np.ndarray, eps: float) -> np.ndarray:
    """The minimum over W of sum_j F_j exp(-<A_j, W>) + 2 eps ||W||_*, for A (m, d, d) and forces F > 0 (m,),

    from its dual, max sum_j lam_j (1 + log F_j / 2 eps lam_j) subject to ||sum_j lam_j A_j||_op <= 1.
    """
    import cvxpy as cp  # here: it takes a second to load

    d, lam = A.shape[-1], cp.Variable(len(A))
    S = cp.reshape(A.reshape(len(A), -1).T @ lam, (d, d), order="C")
    within = cp.bmat([[np.eye(d), S], [S.T, np.eye(d)]]) >> 0  # ||S||_op <= 1
    concave = cp.sum(cp.entr(lam)) + lam @ (1 + np.log(F / (2 * eps)))
    cp.Problem(cp.Maximize(concave), [within]).solve(solver="CLARABEL")
    return -2 * within.dual_value[:d, d:]


def downhill(KQ: Tensor, X: Tensor, z: Tensor, scores: Tensor) -> Tensor:
    """Minus `gradient`, written out for X (trials, n T, d), z (trials, n, d) and scores (trials, n, T):
    without a graph, so that a run can go on until it rests."""
    XK, zQ = X @ KQ[0], z @ KQ[1]
    XK = XK.unflatten(1, scores.shape[1:])  # (trials, n, T, m)
    h = (XK * zQ[:, :, None]).sum(-1)
    s = torch.softmax(h, -1)
    best = scores.gather(-1, h.argmax(-1, keepdim=True))
    ahead = scores - best
    mean = (s * ahead).sum(-1, keepdim=True)
    force = s * (ahead - mean) * torch.sigmoid(-best - mean) / h.shape[-2]
    up_K = X.mT @ (force[..., None] * zQ[:, :, None]).flatten(1, 2)
    up_Q = z.mT @ (force[..., None] * XK).sum(2)
    return torch.stack([up_K, up_Q]) - 2 * EPS * KQ


def settled(KQ: Tensor, tokens: data.TokenData, steps: int, lr: Tensor | float) -> Tensor:
    """As `stepped` with the ridge, exact gradients, and a step length for each problem."""
    X, z, scores = tokens.X.flatten(1, 2), tokens.z, tokens.scores
    for _ in range(steps):
        g = downhill(KQ, X, z, scores)
        KQ = KQ + lr * g / (torch.linalg.matrix_norm(g, keepdim=True) + EPS)
    return KQ


def selection(h: Tensor, tokens: data.TokenData) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """What h selects, the A_it (trials, n (T - 1), d, d) and the F_it (trials, n (T - 1))."""
    selected = geometry.selected_tokens(h)
    best = tokens.scores.gather(-1, selected[..., None])
    F = (best - tokens.scores) * torch.sigmoid(-best) / h.shape[-2]
    F = F[torch.arange(h.shape[-1]) != selected[..., None]].reshape(len(h), -1).numpy()
    problem = svm.attention_problem(tokens.X, tokens.z, selected)
    return selected, (problem.a[..., :, None] * problem.b[..., None, :]).numpy(), F


def foretold(size: str, *, trials: int, seed: int) -> dict[str, Tensor]:
    """The problems and starts of `figure`: cosines with the SVM of their own tokens, (trials,), of the exact
    run after 2,000 steps, and of the minimum of the convex problem of these tokens."""
    n, T, d = SIZES[size]
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    KQ = settled(start(d, d, trials, seed), tokens, 2000, 0.1)
    W = KQ[0] @ KQ[1].mT
    own, solution, h = compared(W, tokens)
    _, A, F = selection(h, tokens)
    there = torch.tensor(np.stack([convex_rest(a[f > 0], f[f > 0], EPS) for a, f in zip(A, F, strict=True)]))
    return {"own": own, "said": geometry.cosine(there, solution.value), "near": geometry.cosine(there, W)}


def balance(start: float, ratio: float, *, trials: int, seed: int) -> dict[str, Tensor]:
    """The problems of `log_time` with ten columns, from its starts with K times and Q divided by ratio, so
    that W starts alike: the nuclear cosine at leads 100 and 200 and at norm 1e13, (trials, 3)."""
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    model = models.FactoredAttention(10, 10, trials=trials, scale=start, seed=seed)
    with torch.no_grad():
        model.K.mul_(ratio)
        model.Q.div_(ratio)
    early = flow.follow(model, tokens, LEADS[1:])
    far = flow.follow(model, tokens, [1e13], turn=0.005, move=torch.inf, max_steps=16_000)
    path = torch.cat([early.W, far.W])
    return {"cosine": torch.stack([compared(W, tokens)[0] for W in path], -1), "reached": far.reached[-1]}


FAR_LEADS = (1e2, 1e4, 1e7, 1e10, 1e13)


def directions(size: str, start: float, turn: float, *, trials: int, seed: int) -> dict[str, Tensor]:
    """Gradient flow of (K, Q), N(0, start^2), d columns, at smallest leads FAR_LEADS, (trials, leads): the
    nuclear cosine; `certificate`, the smallest lead over the largest that a matrix of this norm has; `rank`,
    singular values above 1% of the first; `last`, sigma_r / sigma_1 with the rank r of the nuclear SVM of the
    tokens at the end. And (trials,) r and sigma_r / sigma_1 of that SVM, and c at the first lead."""
    n, T, d = SIZES[size]
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    model = models.FactoredAttention(d, d, trials=trials, scale=start, seed=seed)
    early = flow.follow(model, tokens, FAR_LEADS[:1])  # every step resolved
    late = flow.follow(model, tokens, FAR_LEADS[1:], turn=turn, move=torch.inf, max_steps=100_000)
    path = torch.cat([early.W, late.W])
    rows = [compared(W, tokens) for W in path]
    lead = [geometry.margins(h, geometry.selected_tokens(h)).amin((-1, -2)) for _, _, h in rows]
    best = torch.linalg.matrix_norm(path, "nuc") * torch.stack([solution.margin for _, solution, _ in rows])
    spectrum, goal = torch.linalg.svdvals(path), torch.linalg.svdvals(rows[-1][1].value)
    spectrum, goal = spectrum / spectrum[..., :1], goal / goal[:, :1]
    r = (goal > 0.01).sum(-1, keepdim=True)
    found = {
        "cosine": torch.stack([row[0] for row in rows], -1),
        "certificate": (torch.stack(lead) / best).T,
        "rank": (spectrum > 0.01).sum(-1).T,
        "last": spectrum.gather(-1, (r - 1).expand(len(path), -1, -1))[..., 0].T,
        "goal": r[:, 0],
        "goal_last": goal.gather(-1, r - 1)[:, 0],
        "c": torch.linalg.matrix_norm(flow.forces(path[0], tokens), 2),
    }
    found = {name: values.float() for name, values in found.items()}
    found["reached"] = early.reached[-1] & late.reached[-1]
    return found


MEASURED = [
    Measured(
        "11.figure",
        "nuclear and Frobenius cosine of (K, Q): the public code, and parts of it taken away",
        figure,
        {"size": list(SIZES), "variant": list(VARIANTS)},
        trials=80,
        batch=20,
        paired=("variant",),
        minutes=4,
    ),
    Measured(
        "11.log_time",
        "gradient flow of (K, Q) to norm 1e15: growth of newcomers against S, and where it ends",
        log_time,
        {"start": [1.0, 0.1, 0.01, 0.001], "m": [2, 3, 10]},
        trials=40,
        batch=20,
        paired=("start", "m"),
        minutes=5,
    ),
    Measured(
        "11.balance",
        "the flow of 11.log_time, ten columns, from K and Q of unequal size",
        balance,
        {"start": [1.0, 0.1, 0.01], "ratio": [1.0, 3.0, 10.0]},
        trials=40,
        batch=20,
        paired=("start", "ratio"),
        minutes=2,
    ),
    Measured(
        "11.ranks",
        "ranks of both Att-SVMs, by a threshold and certified",
        ranks,
        {"n_T": ["5, 5", "10, 5", "15, 5", "5, 10", "5, 15"], "d": [1, 2, 3, 4, 5, 10, 15, 20]},
        trials=40,
        batch=20,
        minutes=2,
    ),
    Measured(
        "11.without_eps",
        "the rows of 11.figure whose gradients are divided by their norm alone",
        without_eps,
        {"size": list(SIZES), "variant": ["exact", "exact, ridge", "textbook, ridge"]},
        trials=80,
        batch=20,
        paired=("variant",),
        minutes=3,
    ),
    Measured(
        "11.foretold",
        "the run of 11.figure, exact and with a ridge, against the convex problem of its tokens",
        foretold,
        {"size": list(SIZES)},
        trials=80,
        batch=20,
        minutes=1,
    ),
    Measured(
        "11.directions",
        "gradient flow of (K, Q) to a lead of 1e13, in steps of two lengths: certificates and directions",
        directions,
        {"size": list(SIZES), "start": [1.0, 0.1, 0.01], "turn": [0.005, 0.001]},
        trials=40,
        batch=40,
        paired=("start", "turn"),
        minutes=3,
    ),
]
