# %% [markdown] slideshow={"slide_type": "slide"}
# # 07 · Local and global winners
#
# In lesson 06 the direction of a trained $p$ was the solution of an SVM over tokens, one SVM for each choice
# of tokens. There are $T^n$ choices, and training makes one of them.
#
# **The question: which choices can training make, and which does it make?**
#
# The answer is a definition with one inequality for each support token. Here we do not trust it: we list all
# choices of small problems, put $p$ on each, far out, and watch whether it stays.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - find all locally optimal choices of a small problem;
# - say in which direction the first step far out goes, and what that means for a choice;
# - test a prediction about limits by experiment, and say how far out is far enough;
# - compute a cone in which a choice is ahead, and measure the one from which it is reached;
# - explain why a trained attention often ends at a local winner, and what a larger $d$ changes;
# - recognise the exceptions: narrow cones, late selection, starts without a gradient, ties.
#
# **You need** lesson [06](06_attention_as_svm.ipynb) (Att-SVM, support tokens) and, from lesson
# [02](02_hard_margin_svm.ipynb), that the solution of an SVM is a sum of its constraints with nonnegative
# weights. About 75 minutes, five exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.plots import COLORS

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=3, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "exercise {} is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. The idea in a picture
#
# One sequence, seven tokens. Their keys $k_t$ are points of the plane: the corners of a hexagon and one point
# inside. As before $p$ gives token $t$ the logit $h_t = k_t \cdot p$, attention is $s = \mathrm{softmax}(h)$,
# and we minimise $\ell(\sum_t s_t \gamma_t)$ with $\ell(u) = \log(1 + e^{-u})$; $\gamma_t$ is the score of
# token $t$. The scores alternate around the hexagon.
#
# We start normalised descent (lesson 06) from 2,601 points $p$ at once: one data set, one model with 2,601
# *trials*.

# %%
hexagon = np.array([[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5], [0.1, 0.1]])
gamma = np.array([1.0, 0.3, 0.8, 0.2, 0.7, 0.1, 0.5])  # (T,) scores


def one_sequence(keys, scores):
    """TokenData with one sequence: keys (T, 2), scores (T,)."""
    e1 = torch.tensor([1.0, 0.0], dtype=torch.float64)
    X = torch.as_tensor(scores, dtype=torch.float64)[:, None] * e1  # x_t = (gamma_t, 0), read by v = e1
    keys = torch.as_tensor(keys, dtype=torch.float64)
    return data.TokenData(X=X[None], z=e1[None], y=torch.ones_like(X[:1, 0]), v=e1, keys=keys[None])


def train_from(start, tokens, steps, lr=0.1, **options):
    """Normalised descent on p from every row of start (trials, d): the trained model."""
    model = models.PromptAttention(d=start.shape[-1], trials=len(start), init=start)
    train.fit(
        model,
        tokens,
        optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1),  # each trial has its own norm
        steps,
        progress=False,
        **options,
    )
    return model


tokens = one_sequence(hexagon, gamma)
grid = torch.linspace(-5, 5, 51, dtype=torch.float64)
plane = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), dim=-1)  # (51, 51, 2) starts
starts = plane.reshape(-1, 2)
first = geometry.selected_tokens(models.PromptAttention(2, len(starts), init=starts).attention(tokens))[:, 0]
last = geometry.selected_tokens(train_from(starts, tokens, steps=500).attention(tokens))[:, 0]
for name, winner in (("most attention at the start", first), ("most attention at the end", last)):
    print(f"{name:28s}", *(f"{(winner == t).double().mean():.2f}" for t in range(7)))

# %%
PALETTE = [COLORS[name] for name in ("blue", "sky", "vermillion", "yellow", "green", "purple", "grey")]


def draw_map(ax, winner, grid, rays):
    """The winner of each start (k, k), and rays (m, 2) from the origin."""
    ax.pcolormesh(
        grid, grid, winner, cmap=ListedColormap(PALETTE), vmin=-0.5, vmax=6.5, alpha=0.7, rasterized=True
    )
    for ray in rays:
        ax.plot(*np.outer(ray, [0, 50]), "--", color=BLACK, linewidth=1.5)
    reach = float(grid[-1])
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$p_1$", ylabel="$p_2$")


corner = torch.arange(6)[:, None]  # (6, 1) one choice each
rays = svm.solve(svm.token_problem(tokens.keys.expand(6, 1, 7, 2), corner)).value  # (6, 2)
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8))
left.fill(*hexagon[:6].T, color=COLORS["grey"], alpha=0.15)
left.scatter(*hexagon.T, s=120, color=PALETTE, edgecolor=BLACK, zorder=3)
for t, (key, score) in enumerate(zip(hexagon, gamma, strict=True)):
    left.annotate(f"{t + 1}: {score:g}", key, (7, 5), textcoords="offset points", fontsize=11)
left.set(xlim=(-1.4, 1.7), ylim=(-1.45, 1.55), aspect="equal", title="keys and scores")
draw_map(middle, first.reshape(51, 51), grid, [])
draw_map(right, last.reshape(51, 51), grid, rays[[0, 2, 4]])
middle.set_title("ahead at the start")
right.set_title("selected at the end")
show(
    fig,
    alt="Left, a hexagon of keys with scores 1, .3, .8, .2, .7, .1 and one key inside with score .5. Middle, "
    "the p-plane in six sectors, one for each corner. Right, the same plane after training: three regions "
    "only, for tokens 1, 3 and 5, each around a dashed ray.",
)

# %% [markdown]
# **Figure 1.** Left: keys, each with its number and its score. Middle: the token with most attention at each
# start. Right: the token selected after 500 steps from there, and the Att-SVM directions of tokens 1, 3, 5
# (dashed). A region of the right map is a **basin of attraction**.

# %% [markdown]
# Six tokens can be ahead at the start. Token 7 cannot: it lies inside the hexagon, and no direction
# prefers it to all corners (its Att-SVM is *infeasible*). Three can win: tokens 1, 3 and 5. Token 3 has
# only the second best score, token 5 the third; together they take more than half of the square from
# token 1.

# %%
assert set(first.tolist()) == {0, 1, 2, 3, 4, 5}
assert set(last.tolist()) == {0, 2, 4}
assert 0.40 < (last == 0).double().mean() < 0.46
inside = svm.token_problem(tokens.keys, torch.tensor([6]))
assert svm.solve(inside, throw=False).status == "infeasible"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. All choices, and a definition to test
#
# With $n$ sequences a **choice** $\alpha$ takes one token $\alpha_i$ of each. From lesson 06:
#
# - $p_{\mathrm{mm}}(\alpha)$ is the shortest $p$ with $p \cdot (k_{i\alpha_i} - k_{it}) \ge 1$ for all $i$
#   and $t \ne \alpha_i$; if there is none, $\alpha$ is infeasible;
# - the **support tokens** of $i$ are the $t$ for which this is an equality;
# - $\alpha$ is **locally optimal** if in each sequence $\gamma_{i\alpha_i} > \gamma_{it}$ for every support
#   token, and **globally optimal** if $\alpha_i$ has the best score of sequence $i$.
#
# The claim is that trained attention ends at locally optimal choices, and that each of them is the end of
# some runs. That can be tested, choice by choice.

# %% [markdown]
# ### Exercise 07.1: All choices
#
# ★☆☆ · 5 minutes
#
# List the $T^n$ choices, a row of $n$ token numbers (from 0) for each, in the order of counting: the last
# sequence's token changes fastest.
#
# <details><summary>Hint</summary>
#
# #
# `itertools.product`, or `np.indices` followed by a reshape and a transpose.
# </details>


# %%
@exercise("07.1")
def choices(n, T):
    """Return all choices of one of T tokens in each of n sequences: token numbers, (T**n, n)."""
    ### BEGIN SOLUTION
    return np.indices((T,) * n).reshape(n, -1).T
    ### END SOLUTION


# %%
check("07.1", choices)

# %% [markdown]
# Forty random problems with $n = 2$ sequences of $T = 4$ tokens in $d = 3$ dimensions have 16 choices
# each. We solve all 640 SVMs as one batch. `throw=False` keeps the infeasible ones, with their status,
# instead of raising an error.


# %%
def enumerate_choices(tokens):
    """Solve the Att-SVM of every choice of every trial; all results have leading axes (trials, choices)."""
    trials, n, T, d = tokens.keys.shape
    alpha = torch.as_tensor(np.array(choices(n, T)))
    alpha = alpha.expand(trials, *alpha.shape)  # (trials, choices, n)
    keys = tokens.keys[:, None].expand(*alpha.shape, T, d)
    solution = svm.solve(svm.token_problem(keys, alpha), throw=False)
    feasible = torch.as_tensor(solution.status == "optimal")
    logits = (keys @ solution.value[..., None, :, None])[..., 0]  # (trials, choices, n, T)
    scores = tokens.scores[:, None].expand_as(logits)
    return {
        "alpha": alpha,
        "p_mm": solution.value,
        "feasible": feasible,
        "local": geometry.locally_optimal(scores, logits, alpha) & feasible,
        "global": (alpha == tokens.optimal[:, None]).all(dim=-1) & feasible,
        "support": geometry.support_tokens(logits, alpha).sum(dim=(-2, -1)),
    }


small = data.random_tokens(n=2, T=4, d=3, trials=40, seed=0)
found = enumerate_choices(small)
counts = {name: found[name].sum().item() for name in ("feasible", "local", "global")}
print(f"{found['feasible'].numel()} choices:", ", ".join(f"{k} {v}" for k, v in counts.items()))
print("locally optimal choices in each problem:", *found["local"].sum(dim=1).tolist())
assert (found["local"] | ~found["global"]).all()  # global and feasible: local
assert counts == {"feasible": 524, "local": 99, "global": 34}, again.format("07.1")

# %% [markdown]
# Of 640 choices, 524 are feasible, 99 of these locally optimal and 34 globally (in six problems the best
# tokens together are infeasible). Every problem has at least one locally optimal choice, some have five.

# %%
assert found["local"].sum(dim=1).min() == 1, again.format("07.1")
assert found["local"].sum(dim=1).max() == 5, again.format("07.1")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. One step far out
#
# Put $p$ on the ray of one choice, $p = R\, \hat p$ with $\hat p = p_{\mathrm{mm}} / \|p_{\mathrm{mm}}\|$
# and $R$ large. Lesson 06 wrote the negative gradient of one sequence as a sum of forces along $k_\alpha
# - k_t$ with strengths $c_t \approx (\gamma_\alpha - \gamma_t)\, e^{-p \cdot (k_\alpha - k_t)}$. On the
# ray all support tokens have the *same* exponential, and every other token a smaller one. As $R \to
# \infty$ only
#
# $$-\nabla L \;\propto\; \sum_{t\ \text{support token}} (\gamma_\alpha - \gamma_t)\, (k_\alpha - k_t)$$
#
# is left. Compare this with the SVM (lesson 02): $p_{\mathrm{mm}} = \sum_{t} \lambda_t (k_\alpha - k_t)$
# over the same tokens, with $\lambda_t \ge 0$. Both are combinations of the same vectors. If a support token
# scores higher than $\alpha$, its weight is negative in the first and not in the second.

# %% [markdown]
# ### Exercise 07.2: The first step far out
#
# ★★☆ · 10 minutes
#
# For one sequence and one choice `alpha` with solution `p_mm`, return the direction (a unit vector) of a
# step of gradient descent from $R\, \hat p$ in the limit $R \to \infty$.
#
# <details><summary>Hint</summary>
#
# #
# The margins are `(keys[alpha] - keys) @ p_mm`; support tokens are where `np.isclose(margins, 1, atol=1e-6)`.
# Weigh the rows `keys[alpha] - keys` of these tokens, add them, divide by the length.
# </details>


# %%
@exercise("07.2")
def first_step(keys, scores, alpha, p_mm):
    """Return the unit direction of a step far out, (d,), for keys (T, d), scores (T,), alpha, p_mm (d,)."""
    ### BEGIN SOLUTION
    ahead = keys[alpha] - keys  # (T, d)
    support = np.isclose(ahead @ p_mm, 1, atol=1e-6)
    step = (scores[alpha] - scores)[support] @ ahead[support]
    return step / np.linalg.norm(step)
    ### END SOLUTION


# %%
check("07.2", first_step)

# %%
print("token  support tokens  scores against theirs   step along p_mm   cosine with a real step")
for t in range(6):
    p_mm = rays[t].numpy()
    logits = hexagon @ p_mm
    support = np.flatnonzero(np.isclose(logits[t] - logits, 1))
    step = first_step(hexagon, gamma, t, p_mm)
    far = torch.tensor(60 * p_mm)[None]  # smallest margin 60
    real = (train_from(far, tokens, steps=1, lr=0.01).p.detach() - far)[0].numpy() / 0.01
    signs = "".join("+" if gamma[t] > gamma[s] else "-" for s in support)
    along = step @ p_mm / np.linalg.norm(p_mm)
    print(f"{t + 1:5d}  {support + 1}  {signs:>16s} {along:+23.2f} {step @ real:19.4f}")
    assert step @ real > 0.9999, again.format("07.2")
    assert (along > 0) == (t in (0, 2, 4)), again.format("07.2")

# %% [markdown]
# The formula agrees with a real step, and the picture is explained. Tokens 1, 3 and 5 beat both of their
# support tokens: a step far out leads further out. Tokens 2, 4 and 6 lose to both, and a step turns back.

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix $v$, let $\ell$ be smooth
# > and strictly decreasing, and run gradient descent on $p$ with a small constant step.
# >
# > *A cone for each local winner.* Let $\alpha$ be feasible and locally optimal. There are an angle
# > $\theta > 0$ and a radius $R$ such that from every start within $\theta$ of $p_{\mathrm{mm}}(\alpha)$ and
# > longer than $R$, $\|p_j\| \to \infty$ and $p_j / \|p_j\| \to p_{\mathrm{mm}}(\alpha) /
# > \|p_{\mathrm{mm}}(\alpha)\|$.
# >
# > *One for all starts.* If in each sequence all tokens but the best have equal scores and the Att-SVM of the
# > best tokens is feasible, every start leads to it (lesson 06).
# >
# > *No other limits*, for keys in general position: if $\|p_j\| \to \infty$ in the direction of the Att-SVM
# > of the selected tokens $\alpha$, then $\alpha$ is locally optimal, ties aside.

# %% [markdown]
# The last part is stated in words of ours; here is why it holds. (In general position, a condition that
# random keys satisfy with probability one, the vectors of the tight constraints are linearly independent
# and every $\lambda_{it}$ is positive.) If the direction tends to $p_{\mathrm{mm}}$, tokens that are not
# support tokens end up exponentially weaker, so $p$ is, to leading order, a sum of support vectors
# $k_{i\alpha_i} - k_{it}$ weighted by the forces they have exerted. A support token that scores higher
# than $\alpha_i$ has a negative weight, while $p_{\mathrm{mm}}$ asks for a positive one, and the weights
# are unique. So there is no such token. (A tied one exerts no force: lesson 06 showed what happens then.)
#
# The theorem says nothing about *how wide* the cone is and how far out it begins. We measure.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Every choice, tested
#
# For each feasible choice we start on its ray and descend. (The 16 of 524 with $\|p_{\mathrm{mm}}\| > 50$ are
# almost infeasible; they have to wait for section 5.) Steps must be small against
# $\|p\|$ and their total length large. So we measure lengths in units of the start: $\|p_0\| = 1$, and
# the keys are multiplied by $R\, \|p_{\mathrm{mm}}\|$ instead. That is the same problem, drawn to another
# scale, and $R$ is now the smallest margin $p_0 \cdot (k_{i\alpha_i} - k_{it})$ at the start. A thousand
# steps of length 0.005 cover five times the distance from the origin.

# %% [markdown]
# ### Exercise 07.3: Did it hold?
#
# ★☆☆ · 8 minutes
#
# A run of $p$ that began at `start` **holds** its choice if at the end every sequence has its highest
# logit at the chosen token and $p$ is longer than it was. (If $p$ came back towards the origin, it was on
# its way out.) Decide this for $C$ runs at once.
#
# <details><summary>Hint</summary>
#
# #
# `np.einsum("cntd,cd->cnt", keys, p)` gives the logits. Two conditions, the first one for all $n$ sequences.
# </details>


# %%
@exercise("07.3")
def held(p, start, keys, selected):
    """Return a bool for each run, (C,), for p, start (C, d), keys (C, n, T, d) and selected (C, n)."""
    ### BEGIN SOLUTION
    logits = np.einsum("cntd,cd->cnt", keys, p)
    same = (logits.argmax(axis=-1) == selected).all(axis=-1)
    return same & (np.linalg.norm(p, axis=-1) > np.linalg.norm(start, axis=-1))
    ### END SOLUTION


# %%
check("07.3", held)


# %%
def pick(tokens, trial, scale):
    """The problems of these trials, (C,), with keys multiplied by scale, (C,)."""
    return data.TokenData(
        X=tokens.X[trial],
        z=tokens.z[trial],
        y=tokens.y[trial],
        v=tokens.v[trial],
        keys=tokens.keys[trial] * scale[:, None, None, None],
    )


def put_to_test(tokens, found, R, lr=0.005, steps=1000):
    """Start on the ray of each choice to be tested, with smallest margin R: whether each held."""
    trial, choice = found["tested"].nonzero(as_tuple=True)
    p_mm, alpha = (found[name][trial, choice] for name in ("p_mm", "alpha"))
    length = p_mm.norm(dim=-1)
    problems = pick(tokens, trial, R * length)
    start = p_mm / length[:, None]
    end = train_from(start, problems, steps, lr).p.detach()
    return np.array(held(end.numpy(), start.numpy(), problems.keys.numpy(), alpha.numpy()))


radii = (1, 10, 100, 1000)
found["tested"] = found["feasible"] & (found["p_mm"].norm(dim=-1) < 50)
local = found["local"][found["tested"]].numpy()  # one entry for each choice tested
kept = {R: put_to_test(small, found, R) for R in radii}
print("smallest margin R      ", *(f"{R:5d}" for R in radii))
print(f"held, of {local.sum():3d} local     ", *(f"{(kept[R] & local).sum():5d}" for R in radii))
print(f"held, of {(~local).sum():3d} not local ", *(f"{(kept[R] & ~local).sum():5d}" for R in radii))

# %% slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(6.5, 3.8))
for mask, color, marker, name in ((local, BLUE, "o", "locally optimal"), (~local, ORANGE, "s", "not")):
    share = [kept[R][mask].mean() for R in radii]
    ax.semilogx(radii, share, color=color, marker=marker, label=name)
ax.set(xlabel="smallest margin $R$ at the start", ylabel="share of choices that hold", ylim=(-0.03, 1.05))
ax.legend(loc="center right")
show(
    fig,
    alt="Share of choices that hold against the margin at the start, from 1 to 1000. For locally optimal "
    "choices it rises to one, for the others it falls to zero.",
)

# %% [markdown]
# **Figure 2.** The 508 choices of 40 problems, each tested as an attractor: the share that holds, among
# locally optimal choices (blue) and the others (orange), against how far out the run begins.

# %%
sizes = found["feasible"].sum().item(), local.sum(), (~local).sum()
assert sizes == (524, 95, 413), again.format("07.1")
assert (kept[1000] == local).all(), again.format("07.3")
assert [(kept[R] & local).sum() for R in radii] == [65, 89, 93, 95], again.format("07.3")
assert [(kept[R] & ~local).sum() for R in radii][1:] == [2, 0, 0], again.format("07.3")

# %% [markdown]
# Start far enough out, and the definition is right 508 times out of 508: at $R = 1000$ every locally optimal
# choice holds and no other does. Nearer to the origin it is only a tendency. From margin 1, almost a third of
# the local winners are left, and from $R = 10$ still six of 95. Two choices that are not locally optimal
# hold from $R = 10$; from further out they do not.
#
# So "far enough" is part of the statement. What decides how far?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Cones
#
# How wide is the cone of a choice? A first answer needs no training. All directions within some angle
# $\theta$ of $p_{\mathrm{mm}}$ still put the chosen tokens ahead. For one comparison $a = k_{i\alpha_i} -
# k_{it}$ that holds up to the angle at which $p$ becomes orthogonal to $a$, and the vector $\hat p$ is at the
# angle $\arcsin(\hat p \cdot a / \|a\|)$ from that plane. The narrowest comparison decides:
#
# $$\theta(\alpha) = \min_{i,\, t \ne \alpha_i}\ \arcsin
# \frac{\hat p \cdot (k_{i\alpha_i} - k_{it})}{\|k_{i\alpha_i} - k_{it}\|} .$$

# %% [markdown]
# ### Exercise 07.4: The cone in which a choice is ahead
#
# ★★☆ · 10 minutes
#
# Return $\theta(\alpha)$ in degrees.
#
# <details><summary>Hint</summary>
#
# #
# Collect all comparisons of all sequences as rows, leaving out $t = \alpha_i$ (its length is 0). Do not
# assume that a support token decides: a longer comparison may be narrower.
# </details>


# %%
@exercise("07.4")
def cone(keys, selected, p_mm):
    """Return the angle theta in degrees for keys (n, T, d), token numbers selected (n,) and p_mm (d,)."""
    ### BEGIN SOLUTION
    n, T, _ = keys.shape
    rows = np.array(
        [keys[i, selected[i]] - keys[i, t] for i in range(n) for t in range(T) if t != selected[i]]
    )
    sines = rows @ p_mm / np.linalg.norm(rows, axis=1) / np.linalg.norm(p_mm)
    return np.degrees(np.arcsin(sines.min()))
    ### END SOLUTION


# %%
check("07.4", cone)

# %% [markdown]
# Is this the cone of attraction? Back to the hexagon. From 16 radii and 61 angles to the left and to the
# right of each of the three rays we descend, 2,928 runs in all, and note whether the token holds.

# %%
angles = torch.linspace(-90, 90, 61, dtype=torch.float64)
margin_at_start = torch.logspace(0, 3, 16, dtype=torch.float64)
cells = torch.cartesian_prod(torch.tensor([0.0, 2, 4]).double(), margin_at_start, angles)  # (2928, 3)
token, R, turn = cells[:, 0].long(), cells[:, 1], cells[:, 2].deg2rad()
length = rays.norm(dim=-1)
unit = rays[token] / length[token, None]
across = torch.stack([-unit[:, 1], unit[:, 0]], dim=1)  # a quarter turn to the left
begin = turn.cos()[:, None] * unit + turn.sin()[:, None] * across
problems = pick(
    data.TokenData(*(part[None] for part in (tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys))),
    torch.zeros(len(cells), dtype=torch.long),
    R * length[token],
)
end = train_from(begin, problems, steps=500, lr=0.01).p.detach()
holds = np.array(held(end.numpy(), begin.numpy(), problems.keys.numpy(), token[:, None].numpy()))
holds = holds.reshape(3, len(margin_at_start), len(angles))

fig, axes = plt.subplots(1, 3, figsize=(10.5, 3.7), sharey=True)
for ax, t, kept_here in zip(axes, (0, 2, 4), holds, strict=True):
    theta = cone(hexagon[None], np.array([t]), rays[t].numpy())
    shade = ListedColormap(["white", PALETTE[t]])
    ax.pcolormesh(
        margin_at_start, angles, kept_here.T, cmap=shade, vmin=0, vmax=1, alpha=0.7, rasterized=True
    )
    for side in (-theta, theta):
        ax.axhline(side, color=BLACK, linestyle="--", linewidth=1.5)
    ax.set(xscale="log", xlabel="$R$", title=f"token {t + 1}: ahead within {theta:.0f}°")
    upper = angles[kept_here[-1]].max().item(), angles[kept_here[-1]].min().item()
    nearest = kept_here[:, len(angles) // 2]  # on the ray itself
    print(f"token {t + 1}: theta {theta:.1f}; far out held from {upper[1]:.0f} to {upper[0]:.0f} degrees")
    assert nearest.all()
axes[0].set(ylabel="angle of the start to the ray", yticks=[-90, -45, 0, 45, 90])
show(
    fig,
    alt="For tokens 1, 3 and 5, the starts that hold, by radius and by angle to the ray. Far out each "
    "coloured band has a fixed width, wider than the dashed lines of the cone in which the token is ahead.",
)

# %% [markdown]
# **Figure 3.** Starts that end at token 1, 3 or 5 (coloured), by angle to the Att-SVM direction and by radius
# ($R \hat p / \text{margin}$, so that $R$ would be the smallest margin on the ray). Dashed: the cone in which
# the token is ahead, $\pm\theta$.

# %%
far_out = holds[:, -1]  # (3, 61) at R = 1000
widths = [(angles[row].min().item(), angles[row].max().item()) for row in far_out]
for t, (low, high) in zip((0, 2, 4), widths, strict=True):
    theta = cone(hexagon[None], np.array([t]), rays[t].numpy())
    assert low < -theta < theta < high, again.format("07.4")
    assert high - low > 2 * 2 * theta, again.format("07.4")
    assert 22 < theta < 30, again.format("07.4")
assert 345 < sum(high - low for low, high in widths) <= 360, again.format("07.3")  # all but the grid's gaps

# %% [markdown]
# Far out each band has straight edges: a cone, as the theorem says. It is more than twice as wide as the
# cone in which the token is ahead, because a start at which a neighbour is ahead may still fall to it: the
# neighbours, tokens 2, 4 and 6, hold nothing. In the plane the three basins share out all directions. Near
# the origin the edges bend, since there softmax is soft and tokens further behind still count.
#
# The theorem promises *some* angle, and here the cone in which the token is ahead would do. That is no law:
# close to the edge of this cone a rival that is no support token can be the closest, and if it is better than
# $\alpha_i$, it takes over.

# %% [markdown]
# Now for the exceptions of section 4, the locally optimal choices that did not hold. Is their cone too
# narrow, or is there a better token close by, whose margin is more than 1 but not by much?

# %%
trial, choice = found["tested"].nonzero(as_tuple=True)
theta = np.array(
    [
        cone(small.keys[m].numpy(), found["alpha"][m, c].numpy(), found["p_mm"][m, c].numpy())
        for m, c in zip(trial, choice, strict=True)
    ]
)
logits = (small.keys[trial] @ found["p_mm"][trial, choice][:, None, :, None])[..., 0]
chosen = found["alpha"][trial, choice]
rival = small.scores[trial] > small.scores[trial].gather(-1, chosen[..., None])
slack = torch.where(rival, geometry.margins(logits, chosen), torch.inf).amin(dim=(-2, -1)).numpy() - 1
for R in (10, 100):
    lost = local & ~kept[R]
    order = np.argsort(theta[lost])
    print(f"R = {R}, lost: cone", theta[lost][order].round(1))
    print("    a better token is behind by one and", slack[lost][order].round(2))
print(f"median of all locally optimal choices: cone {np.median(theta[local]):.0f} degrees")

# %%
lost = local & ~kept[10]
assert (slack[lost] < 0.6).all(), again.format("07.3")
assert (slack[local & ~kept[100]] < 0.03).all(), again.format("07.3")
assert 10 < np.median(theta[local]) < 16, again.format("07.4")
narrow = [
    cone(small.keys[m].numpy(), found["alpha"][m, c].numpy(), found["p_mm"][m, c].numpy())
    for m, c in (found["feasible"] & ~found["tested"]).nonzero()
]
print(f"{len(narrow)} choices left out: cones of {min(narrow):.1f} to {max(narrow):.1f} degrees")
assert len(narrow) == 16, again.format("07.1")
assert max(narrow) < 1.2, again.format("07.4")

# %% [markdown]
# It is not the cone: most of the lost have wide ones. But all six have a better rival that is *nearly* a
# support token, its constraint behind by less than 0.6. At the start its force is weaker by a factor
# $e^{-R\,\cdot\,\text{slack}}$ only, where slack is the number printed. Unless $R$ is large against one
# over the slack, the better rival pulls as if it were a support token. The two that are lost from $R =
# 100$ too are behind by less than 0.03.
#
# The 16 choices left out have the other trouble. Their cones are at most 1.2 degrees wide, and a step of
# length 0.005 at distance 1 turns $p$ by up to 0.3 degrees: a few steps lead out of the cone, and which
# way they fall is settled by rounding. So *far* means: $R$ large against one over the slack of better
# rivals; and *small steps* means: small against the cone.

# %% [markdown]
# **Try it.** The map of Figure 1 for scores of your choice. Predict: what happens as the score of token 2
# rises from 0.3 to 1.5? And what if token 7, inside the hexagon, has the best score of all?
#
# <details><summary>Answer</summary>
#
# Token 2 is a support token of tokens 1 and 3. At 0.8 it overtakes token 3, which loses its region; at 1
# it overtakes token 1 and gets a region of its own, while that of token 1 goes. Token 7 cannot win, and
# as it is nobody's support token, it changes nothing about who can: only the borders near the origin
# move.
# </details>


# %% tags=["nbval-ignore-output", "widget"]
def descend(p, keys, scores, steps, lr=0.1):
    """Normalised descent on p (..., d) for one sequence, with steps of length lr sqrt(j): the end."""
    for j in range(1, steps + 1):
        h = p @ keys.T
        s = np.exp(h - h.max(axis=-1, keepdims=True))
        s /= s.sum(axis=-1, keepdims=True)
        gap = scores - scores[s.argmax(axis=-1)][..., None]  # from the winner's: lesson 05's cure
        step = (s * (gap - (s * gap).sum(axis=-1, keepdims=True))) @ keys
        p = p + lr * j**0.5 * step / (np.linalg.norm(step, axis=-1, keepdims=True) + 1e-300)
    return p


coarse = np.linspace(-5, 5, 21)
coarse_starts = np.stack(np.meshgrid(coarse, coarse), axis=-1)


def basins(two, seven):
    scores = gamma.copy()
    scores[[1, 6]] = two, seven
    winner = (descend(coarse_starts, hexagon, scores, steps=60) @ hexagon.T).argmax(axis=-1)
    figure = Figure(figsize=(5, 4.2), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.13, 0.13, 0.84, 0.77))
    draw_map(ax, winner, coarse, [])
    ax.set_title("selected: token " + ", ".join(str(t + 1) for t in np.unique(winner)), fontsize=12)
    return figure


wide = {"style": {"description_width": "110px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    basins,
    two=ipywidgets.FloatSlider(value=0.3, min=0, max=1.5, step=0.05, description="score of token 2", **wide),
    seven=ipywidgets.FloatSlider(
        value=0.5, min=0, max=1.5, step=0.05, description="score of token 7", **wide
    ),
)

# %%
own = descend(starts[::37].numpy(), hexagon, gamma, steps=60)  # the widget's descent is the library's
library = train_from(starts[::37], tokens, steps=60, schedule=train.growing)
assert np.allclose(own, library.p.detach(), atol=1e-8)
for token, score, expected in ((1, 0.95, {0, 4}), (1, 1.2, {1, 4}), (6, 1.5, {0, 2, 4})):  # what Try it says
    changed = np.where(np.arange(7) == token, score, gamma)
    ends = descend(coarse_starts, hexagon, changed, steps=60)
    assert set((ends @ hexagon.T).argmax(axis=-1).flat) == expected

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. How often is the winner global?
#
# From here on the start is not ours to choose: it is random, and near the origin. We need a word for
# each run.

# %% [markdown]
# ### Exercise 07.5: What did it come to?
#
# ★★☆ · 8 minutes
#
# For each trial return 2 (*global*) if every sequence selects a token with its best score, 1 (*local*) if the
# selected tokens are not all the best, and 0 (*undecided*) if some sequence gives no token more than 0.99 of
# its attention, whatever the rest does.
#
# <details><summary>Hint</summary>
#
# #
# Selected: `attention.argmax(axis=-1)`. `np.take_along_axis` picks its score, to compare with the maximum
# over tokens. All conditions run over the sequences of one trial.
# </details>


# %%
@exercise("07.5")
def outcomes(attention, scores):
    """Return 0, 1 or 2 for each trial, (trials,), for attention and scores, both (trials, n, T)."""
    ### BEGIN SOLUTION
    selected = attention.argmax(axis=-1)[..., None]
    best = np.take_along_axis(scores, selected, axis=-1)[..., 0] == scores.max(axis=-1)
    decided = attention.max(axis=-1) > 0.99
    return np.where(decided.all(axis=-1), 1 + best.all(axis=-1), 0)
    ### END SOLUTION


# %%
check("07.5", outcomes)

# %% [markdown]
# The data: 200 random problems with $n = 3$, $T = 4$, hence 64 choices each, for five values of $d$. Each run
# starts at a random $p$ and takes 1,500 steps of growing length $0.1\sqrt{j}$ at step $j$, which reaches the
# limit sooner. All 64,000 SVMs are solved too, so that each run can be compared with what was possible.

# %%
dimensions = (2, 4, 6, 10, 20)
names = np.array(["undecided", "local", "global"])
table = {}
print(" d  feasible  support tokens  locally optimal  global possible   runs: global  undecided")
for d in dimensions:
    many = data.random_tokens(n=3, T=4, d=d, trials=200, seed=5)
    all_of = enumerate_choices(many)
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(200, d, generator=generator, dtype=torch.float64)
    model = train_from(
        start,
        many,
        steps=1500,
        schedule=train.growing,
        record={"selected": lambda m, many=many: geometry.selected_tokens(m.attention(many))},
        every=[100, 500],
    )
    s = model.attention(many).detach()
    selected = geometry.selected_tokens(s)
    at = torch.arange(200), (all_of["alpha"] == selected[:, None]).all(dim=-1).double().argmax(dim=1)
    row = {
        "word": np.array(outcomes(s.numpy(), many.scores.numpy())),
        "feasible": all_of["feasible"].double().mean().item(),
        "choices": all_of["local"].double().sum(dim=1).mean().item(),
        "possible": all_of["global"].any(dim=1).sum().item(),
        "support": all_of["support"][all_of["feasible"]].double().mean().item(),
        "local": all_of["local"][at].numpy(),
        "cosine": geometry.cosine(model.p.detach(), all_of["p_mm"][at]).nan_to_num(-1).numpy(),
        "library": geometry.outcome(s, many),
        "p": model.p.detach(),
    }
    table[d] = row
    print(
        f"{d:2d} {row['feasible']:9.2f} {row['support']:15.1f} {row['choices']:16.1f} {row['possible']:16d}",
        end="",
    )
    print(f"{(row['word'] == 2).sum():15d} {(row['word'] == 0).mean():10.1f}")
    assert np.array_equal(names[row["word"]], row["library"]), again.format("07.5")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
x, floor = np.arange(len(dimensions)), np.zeros(len(dimensions))
for k, color in ((2, BLUE), (1, ORANGE), (0, COLORS["grey"])):
    share = np.array([(table[d]["word"] == k).mean() for d in dimensions])
    left.bar(x, share, 0.7, bottom=floor, color=color, label=names[k])
    floor += share
left.set(xlabel="dimension $d$", ylabel="share of runs", ylim=(0, 1.25))
left.set_xticks(x, dimensions)
left.legend(loc="upper center", ncols=3, columnspacing=1)
right.plot(x, [table[d]["choices"] for d in dimensions], "o-", color=BLACK)
right.set(xlabel="dimension $d$", ylabel="locally optimal choices, of 64", ylim=(0, 5.5))
right.set_xticks(x, dimensions)
show(
    fig,
    alt="Left, stacked bars of outcomes for d = 2, 4, 6, 10, 20: global grows, local and undecided shrink. "
    "Right, the mean number of locally optimal choices of a problem rises and then falls to two.",
)

# %% [markdown]
# **Figure 4.** Left: what 200 runs came to in each dimension. Right: how many of the 64 choices are locally
# optimal, on average.

# %%
away = {d: row["p"].norm(dim=-1).numpy() > 1000 for d, row in table.items()}  # 1,500 steps cover 3,876
went = sum(a.sum() for a in away.values())
print("runs that went further than 1000:", went)
print(
    "of these, at a locally optimal choice:", sum((row["local"] & away[d]).sum() for d, row in table.items())
)
smallest = min(row["cosine"][away[d]].min() for d, row in table.items())
print(f"their smallest cosine with the Att-SVM of that choice: {smallest:.4f}")
undecided = {d: row["word"] == 0 for d, row in table.items()}
assert went == 822
assert all(row["local"][away[d]].all() for d, row in table.items()), again.format("07.1")
assert smallest > 0.999
assert 0.28 < undecided[2].mean() < 0.34, again.format("07.5")
assert not any((undecided[d] & away[d]).any() for d in dimensions), again.format("07.5")
assert (~away[2]).sum() > 178 / 2
assert (table[20]["word"] == 2).sum() == 175, again.format("07.5")
assert (table[2]["word"] == 2).sum() == table[2]["possible"] == 55, again.format("07.5")
missed = [1 - (table[d]["word"] == 2).sum() / table[d]["possible"] for d in (4, 6, 10)]
assert 0.2 < min(missed) < max(missed) < 0.35, again.format("07.5")
assert 1.9 < table[2]["support"] < 2.1, again.format("07.1")
assert 6.7 < table[20]["support"] < 7, again.format("07.1")
assert 1.95 < table[20]["choices"] < 2.1, again.format("07.1")

# %% [markdown]
# Read the table from top to bottom; support tokens (of 9 comparisons) and locally optimal choices (of 64)
# are means over choices and problems. More dimensions make more choices feasible, so at first there are
# more local winners. Then they become fewer again: in the plane two constraints are tight, in 20
# dimensions almost seven, and to be locally optimal means to beat them all. At $d = 20$ two choices of 64
# are left on average, one of them global, and 175 of 200 runs find the global one. In the plane it is
# rarely feasible, but then it is found, in 55 of 55 problems. In between, two or three runs in ten miss
# it although it is there. Lesson 12 comes back to the role of $d$.
#
# **The theorem, on every run.** All 822 runs (of 1,000) that had gone further than 1,000 have selected a
# locally optimal choice, and point along its Att-SVM with a cosine above 0.999. The theorem speaks about
# $\|p\| \to \infty$, and only about that.
#
# **The others.** 178 runs are slow or stuck, more than half of them in two dimensions. There one $p$
# cannot serve three sequences: the force of one undoes that of another at some finite $p$, where the
# gradient is zero or changes its direction at every step. About 30% of the runs in the plane are
# undecided: attention stays soft, and none of them got as far as 1,000. (How many exactly depends on
# rounding.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Where it breaks
#
# **Late selection.** A choice that is *not* locally optimal can look stable for as long as you like. Keys
# $(0, 0)$, $(-1, 0)$, $(-1, -1)$ with scores $0.5, 0, 1$, and token 1 selected: its comparisons are $a =
# (1, 0)$ with the worse token 2 and $b = (1, 1)$ with the better token 3. Both are tight at
# $p_{\mathrm{mm}} = (1, 0)$, so token 1 is not locally optimal. But it does not need $b$:
# $p_{\mathrm{mm}} = a$, with weight 0 on $b$. (These keys are not in general position.) Starting at $p =
# (5, q)$, the force of $b$ is weaker by the factor $e^{-q}$ at first. Dividing the two components of the
# gradient gives
#
# $$\frac{dp_2}{dp_1} = - \frac{e^{-p_2}}{1 - e^{-p_2}}, \qquad\text{so}\qquad
# e^{p_2} - p_2 + p_1 = \text{const} :$$
#
# $p_1$ grows until $p_2 = 0$, which happens at $p_1 = 5 + e^{q} - q - 1$, and turns back only then. The
# choice holds for a time that is exponential in the start. This is why selected tokens are read at the
# end, and why even that can be too soon.
#
# **No gradient at the start.** Keys $(1, 0), (-1, 0), (0, 1), (\frac23, -\frac73)$ with scores $0.6, 0.4,
# -0.7, -0.3$. At $p = 0$ attention is uniform and $-\nabla L \propto \sum_t (\gamma_t - \bar\gamma)\, k_t$,
# where $\bar\gamma$ is the mean score. Here this is exactly zero, although all scores differ: the origin is a
# saddle. Two starts $10^{-6}$ apart end at different tokens, and from exactly 0 rounding decides.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
late = one_sequence(np.array([[0, 0], [-1, 0], [-1, -1]]), np.array([0.5, 0, 1]))
print(" q   p_1 turns at   predicted   token 1 selected until step")
for q, steps, color in ((2.0, 300, BLUE), (3.0, 700, GREEN), (4.0, 1200, ORANGE)):
    model = models.PromptAttention(d=2, init=torch.tensor([5.0, q]))
    history = train.fit(
        model,
        late,
        optim.NormalizedGD(model.parameters(), lr=0.1),
        steps,
        record={
            "p": lambda m: m.p,
            "selected": lambda m: geometry.selected_tokens(m.attention(late))[0],
        },
        every=1,
        progress=False,
    )
    path = history["p"]
    turned, predicted = path[:, 0].max().item(), 5 + np.exp(q) - q - 1
    until = (history["selected"] != 0).nonzero()[0].item()
    print(f"{q:2.0f} {turned:14.1f} {predicted:11.1f} {until:20d}")
    left.plot(*path[: until + 1].T, color=color, label=f"$q = {q:g}$")
    left.plot(*path[0], "o", color=BLACK, markersize=5)
    left.axvline(predicted, color=color, linestyle="--", linewidth=1.3)
    assert abs(turned - predicted) < 0.4
left.set(xlabel="$p_1$", ylabel="$p_2$", xlim=(0, 62), title="late selection")
left.legend(loc="lower left")

saddle_keys = np.array([[1, 0], [-1, 0], [0, 1], [2 / 3, -7 / 3]])
saddle = one_sequence(saddle_keys, np.array([0.6, 0.4, -0.7, -0.3]))
centred = saddle.scores[0] - saddle.scores.mean()
assert (centred @ saddle.keys[0]).abs().max() < 1e-12
nudge = torch.tensor([[1e-6, 0], [-1e-6, 0]], dtype=torch.float64)
trained = [train_from(nudge, saddle, steps) for steps in (0, 5, 10, 20, 40)]
sides = torch.stack([m.p.detach() for m in trained])  # (5, 2, 2)
for path, color in zip(sides.transpose(0, 1), (BLUE, ORANGE), strict=True):
    right.plot(*path.T, "o-", color=color, markersize=5)
right.plot(0, 0, "o", color=BLACK)
right.set(xlabel="$p_1$", ylabel="$p_2$", xlim=(-4.3, 4.3), ylim=(-2, 2), title="from next to a saddle")
show(
    fig,
    alt="Left, three paths that run to the right, turn back at the dashed lines and leave. Right, two paths "
    "from nearly the same point at the origin, one to the right and one to the left.",
)
chosen = geometry.selected_tokens(train_from(nudge, saddle, steps=300).attention(saddle))[:, 0] + 1
print("two starts next to the saddle select tokens", chosen.tolist())

# %% [markdown]
# **Figure 5.** Left: late selection; paths from $(5, q)$ until token 1 loses, and the predicted turning
# points (dashed). Right: the first 40 steps from $(\pm 10^{-6}, 0)$, next to a saddle.

# %%
assert chosen.tolist() == [1, 2]
tie = np.where(np.arange(7) == 1, 1.0, gamma)  # token 2 now ties with token 1, whose support token it is
tied = one_sequence(hexagon, tie)
model = train_from(starts[::7], tied, steps=500)
winner = geometry.selected_tokens(model.attention(tied))[:, 0]
cosine = geometry.cosine(model.p.detach(), rays[winner])
print("cosine of the winners' directions with their Att-SVM, tokens 1, 2, 3, 5:")
for t in (0, 1, 2, 4):
    here = cosine[winner == t]
    if len(here):
        print(t + 1, len(here), f"{here.min():.3f} {here.max():.3f}")

# %%
for t in (0, 1):
    assert cosine[winner == t].max() < 0.95
assert cosine[winner == 4].min() > 0.999

# %% [markdown]
# **Ties.** In the last cell token 2 of the hexagon had the same score as token 1, its neighbour and
# support token. Neither is locally optimal now, and yet both are selected, from many starts. But not in
# the direction of their Att-SVM: the cosines stay below 0.95, since the tied comparison exerts no force.
# Token 5, on the other side, does not notice: its cosine is above 0.999.
#
# | situation | what you see | what to do |
# |---|---|---|
# | narrow cone, nearly tight better rival | a local winner does not hold | start further out, shorter steps |
# | tight constraint with weight 0 | selection changes exponentially late | run longer; look at the weights |
# | forces cancel at a finite $p$ | $\lVert p \rVert$ stays small, attention soft | look at the norm first |
# | start on a saddle | no movement, or rounding decides | random start |
# | tied scores | direction is not that of the Att-SVM | drop the tied comparison |

# %% [markdown]
# ## Questions
#
# **1.** One sequence, keys in the plane. How many tokens at most can be locally optimal if $h$ keys are
# corners of the convex hull, no two of them with equal scores, and each corner has its two neighbours as
# support tokens?
# <details><summary>Answer</summary>
#
# $\lfloor h/2 \rfloor$: two neighbours cannot both beat each other. The hexagon has three.
# </details>
#
# **2.** A choice is locally optimal and you multiply all keys by 10. Is it still? Is the cone wider?
# <details><summary>Answer</summary>
#
# #
# Yes, and no: $p_{\mathrm{mm}}$ is divided by 10, the same constraints are tight, and angles are as
# before. But the same starts are now ten times further out.
# </details>
#
# **3.** You start on the ray of a choice that is not locally optimal and see no change for 1,000 steps of
# length 0.1. Name two explanations.
# <details><summary>Answer</summary>
#
# #
# The start was so far out that 100 units of path are too short to come back. Or the better support token
# has a weight of zero (or nearly) in the SVM, and selection is late.
# </details>
#
# **4.** Why is a feasible globally optimal choice with strictly best scores always an attractor?
# <details><summary>Answer</summary>
#
# #
# It beats all tokens, hence its support tokens; it is locally optimal and has a cone.
# </details>

# %%
progress("07")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Of $T^n$ choices some are feasible, and few of these **locally optimal**: better than their support
#   tokens. Tested one by one, from far out, all of those were attractors and no other was.
# - The reason is one sum: far out only support tokens exert a force, in proportion to the score gap. SVM
#   weights are nonnegative, so a better support token leads away.
# - Each local winner has a **cone**. How far out it begins depends on better tokens that are nearly
#   tight.
# - In low dimension many runs end locally, or stay undecided; in high dimension local winners become rare.
# - Exceptions are narrow cones, late selection, cancelled forces, saddles and ties. Look at $\|p\|$ before
#   you look at the direction.
#
# **Further reading.** D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention
# Mechanism* (NeurIPS 2023): local optimality, the cones, and the global case. D. A. Tarzanagh, Y. Li,
# C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023): the same for $W$, and large
# dimension. In the library: `mini_attn.geometry.support_tokens`, `locally_optimal` and `outcome`.
#
# **Next**, lesson 08: regularisation paths. Training can end at a local winner; the best $p$ of a given
# length cannot.
