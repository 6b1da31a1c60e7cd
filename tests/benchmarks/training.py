"""Training: the second paper's main experiment, whole; step schedules; and how time and memory grow."""

import torch
from baselines import solve_with_cvxpy, train_KQ, train_W
from measure import pairs, peak_memory, seconds

from mini_attn import data, geometry, models, optim, svm, train

LR = {"W": 0.1, "KQ": 0.03}


def _model(kind, d, trials):
    if kind == "W":
        return models.CrossAttention(d, trials=trials)
    return models.FactoredAttention(d, d, trials=trials, scale=0.1, seed=0)


def _fit(kind, tokens, steps, schedule=None):
    d, trials = tokens.X.shape[-1], tokens.trials[0]
    model = _model(kind, d, trials).to(tokens.X.device)
    optimizer = optim.NormalizedGD(model.parameters(), LR[kind], batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=max(1, steps), progress=False, schedule=schedule)
    return model


def _experiment(tokens, steps, schedule=None):
    """Train W and (K, Q), solve the Frobenius and the nuclear SVM of the tokens each selects; cosines."""
    cosines = {}
    for kind, norm in (("W", "fro"), ("KQ", "nuc")):
        model = _fit(kind, tokens, steps, schedule)
        selected = geometry.selected_tokens(model.attention(tokens))
        problem = svm.attention_problem(tokens.X, tokens.z, selected)
        solutions = {name: svm.solve(problem, norm=name, throw=False) for name in ("fro", "nuc")}
        cosines[kind] = geometry.cosine(model.W.detach(), solutions[norm].value)
    return cosines


def _experiment_by_hand(tokens, start, steps, trial):
    """The same for one trial, with nn.Linear, autograd and cvxpy."""
    X, z, y, v = (part[trial] for part in (tokens.X, tokens.z, tokens.y, tokens.v))
    cosines = {}
    for kind, norm in (("W", "fro"), ("KQ", "nuc")):
        if kind == "W":
            W, attention = train_W(X, z, y, v, steps, LR[kind])
        else:
            W, attention = train_KQ(X, z, y, v, steps, LR[kind], start.K[trial], start.Q[trial])
        selected = attention.argmax(-1).numpy()
        for name, solver in (("fro", "CLARABEL"), ("nuc", "SCS")):
            value = solve_with_cvxpy(X.numpy(), z.numpy(), selected, name, solver)
            if name == norm and value is not None:
                cosines[kind] = geometry.cosine(W, torch.as_tensor(value), batch_dims=0)
    return cosines


def experiment(quick):
    """Ours twice: the by-hand loop's own steps, and a quarter as many growing ones, which lead further."""
    sizes, steps = ((3,), 20) if quick else ((100, 1000), 2000)
    rows = [row for trials in sizes for row in _compared(trials, steps, quick)]
    title = (
        f"The experiment, whole: n=6, T=8, d=10, W and (K, Q), 4 SVMs a trial; by hand {steps} constant steps"
    )
    return title, rows


def _compared(trials, steps, quick):
    part, repeats = (1, 1) if quick else (2, 5)
    tokens = data.random_tokens(n=6, T=8, d=10, trials=trials, seed=0)
    start = _model("KQ", 10, trials)
    by_hand, rows = {}, []
    turn = iter(range(10**6))

    def theirs():
        for _ in range(part):  # other trials at each repeat
            trial = next(turn) % trials
            by_hand[trial] = _experiment_by_hand(tokens, start, steps, trial)
        return part

    for count, schedule in ((steps, None), (steps // 4, train.growing)):
        found = {}

        def ours(count=count, schedule=schedule, found=found):
            found.update(_experiment(tokens, count, schedule))
            return trials

        measured = pairs(ours, theirs, repeats)
        row = {
            "steps": f"{count} {'growing' if schedule else 'constant'}",
            "ours_s": trials * measured["seconds_per_unit"],
            "ours_ms_a_trial": 1e3 * measured["seconds_per_unit"],
            "by_hand_ms_a_trial": 1e3 * measured["baseline_seconds_per_unit"],
            "times_faster": measured["times_faster"],
        }
        for kind, same in found.items():
            done = [k for k in by_hand if kind in by_hand[k]]
            row[f"cosine_{kind}"] = float(same.nanmedian())
            row[f"cosine_{kind}_same_trials"] = float(same[done].nanmedian())
            row[f"cosine_{kind}_by_hand"] = float(torch.stack([by_hand[k][kind] for k in done]).nanmedian())
        rows.append(row | {"trials": trials, "by_hand_trials": len(by_hand), "repeats": repeats})
    return rows


def schedules(quick):
    trials, steps = (3, 20) if quick else (100, 2000)
    tokens = data.random_tokens(n=6, T=8, d=10, trials=trials, seed=0)
    rows = []
    for name, schedule, part in (
        ("constant", None, 1),
        ("growing", train.growing, 4),
        ("growing", train.growing, 1),
    ):
        took, cosines = seconds(_experiment, tokens, steps // part, schedule)
        error = {kind: float((1 - c).nanmedian()) for kind, c in cosines.items()}
        row = {"schedule": name, "steps": steps // part, "error_W": error["W"], "error_KQ": error["KQ"]}
        rows.append(row | {"seconds": took})
    return f"Step schedules: the experiment whole, median of 1 - cosine over {trials} trials", rows


def growth(quick):
    """Time of a step and of a Frobenius and a nuclear solve, and the memory they need."""
    base = {"trials": 10 if quick else 100, "n": 6, "T": 8, "d": 10}
    series = [[dict(base, trials=k) for k in ((1, 10) if quick else (1, 10, 100, 400, 1000, 10_000))]]
    for name in ("n", "T", "d"):
        series.append([dict(base, **{name: base[name] * 2**k}) for k in range(1, 2 if quick else 5)])
    rows = []
    for sizes in series:
        patience = dict.fromkeys(("fro", "nuc"), 5.0)  # seconds; what took longer is not doubled again
        rows += [_grown(size, 2 if quick else 100, patience) for size in sizes]
    title = "Growth: a training step; the Att-SVMs of the optimal tokens, shares proved infeasible or stopped"
    return f"{title} without a certificate; MiB beyond the data", rows


def _grown(size, steps, patience):
    tokens = data.random_tokens(**size, seed=0)
    row = dict(size)
    for kind in LR:
        _fit(kind, tokens, 2)
        row[f"{kind}_step_us"] = 1e6 * seconds(_fit, kind, tokens, steps)[0] / steps
    row["fit_MiB"] = peak_memory(lambda: _fit("KQ", tokens, 2))
    problem = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    for norm in patience:
        if patience[norm] <= 0:
            continue
        took, solution = seconds(lambda norm=norm: svm.solve(problem, norm=norm, throw=False))
        if took > patience[norm]:
            patience[norm] = 0
        row[f"{norm}_ms_a_problem"] = 1e3 * took / size["trials"]
        row[f"{norm}_infeasible"] = float((solution.status == "infeasible").mean())
        row[f"{norm}_stopped"] = float((solution.status == "stopped").mean())
        if took < 5:  # a second time, to watch the memory
            row[f"{norm}_MiB"] = peak_memory(lambda norm=norm: svm.solve(problem, norm=norm, throw=False))
    return row
