# %% [markdown] slideshow={"slide_type": "slide"}
# # 07 · Local and global winners
#
# In lesson 06 the direction of a trained $p$ was the solution of an SVM over tokens, one SVM for each choice
# of tokens. There are $T^n$ choices, and a run that goes far out makes one of them.
#
# **The question: which choices can training make, and which does it make?**
#
# With random keys training far out ends only at *local winners*, but for a few near ties, and one inequality
# for each support token says which choices these are. For one sequence in the plane the borders between their
# basins can be computed far out. In our random problems a run selects the best tokens more often from near
# the origin than from far out.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - find all local winners of a small problem, and how many to expect;
# - explain why one better support token undoes a choice;
# - predict where basins meet, and, with three tokens, how far out "far" is;
# - count how often runs end at the global choice.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (Att-SVM, support tokens) and, from
# [lesson 02](02_hard_margin_svm.ipynb), that the solution of an SVM is a sum of its constraints with
# nonnegative weights. About 90 minutes (135 with a pencil), four exercises.

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
again = "exercise {} is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.1 The idea in a picture
#
# One sequence, seven tokens. Their keys $k_t$ are points of the plane: the corners of a hexagon and one point
# inside. As before $p$ gives token $t$ the logit $h_t = k_t \cdot p$, attention is $s = \mathrm{softmax}(h)$,
# and we minimise $\ell(\sum_t s_t \gamma_t)$ with $\ell(u) = \log(1 + e^{-u})$; $\gamma_t$ is the score of
# token $t$. The scores alternate around the hexagon.
#
# We start normalised descent (lesson 06) from 6,561 points $p$ at once.

# %%
hexagon = np.array([[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5], [0.1, 0.1]])
gamma = np.array([1.0, 0.3, 0.8, 0.2, 0.7, 0.1, 0.5])  # (T,) scores


def with_scores(keys, scores):
    """TokenData with these keys (..., n, T, d) and scores (..., n, T)."""
    keys, scores = (torch.as_tensor(a, dtype=torch.float64) for a in (keys, scores))
    e1 = torch.zeros_like(keys[..., 0, 0, :])
    e1[..., 0] = 1
    X = scores[..., None] * e1[..., None, None, :]  # x_t = (gamma_t, 0, ...), which v = e1 reads as gamma_t
    # p alone makes the logits, so the query z may be anything
    return data.TokenData(X=X, z=keys[..., 0, :], y=torch.ones_like(scores[..., 0]), v=e1, keys=keys)


def train_from(start, tokens, steps, lr=0.1, **options):
    """Normalised descent on p from every row of start (trials, d): the trained model."""
    model = models.PromptAttention(d=start.shape[-1], trials=len(start), init=start)
    optimizer = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1)  # each trial has its own norm
    train.fit(model, tokens, optimizer, steps, every=steps or None, progress=False, **options)
    return model


tokens = with_scores(hexagon[None], gamma[None])
grid = torch.linspace(-5, 5, 81, dtype=torch.float64)
plane = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), dim=-1)  # (81, 81, 2) starts
starts = plane.reshape(-1, 2)
first = geometry.selected_tokens(models.PromptAttention(2, len(starts), init=starts).attention(tokens))[:, 0]
last = geometry.selected_tokens(train_from(starts, tokens, steps=300).attention(tokens))[:, 0]
corner = torch.arange(6)[:, None]  # (6, 1) one choice each
rays = svm.solve(svm.token_problem(tokens.keys.expand(6, 1, 7, 2), corner)).value  # (6, 2) lesson 06
for name, winner in (("most attention at the start", first), ("most attention at the end", last)):
    print(f"{name:28s}", *(f"{(winner == t).double().mean():.2f}" for t in range(7)))

# %% jupyter={"source_hidden": true}
PALETTE = [COLORS[name] for name in ("blue", "sky", "vermillion", "yellow", "green", "purple", "grey")]


def draw_map(ax, winner, grid, rays, style="--"):
    """The winner of each start (k, k), numbered from 1, and rays (m, 2) from the origin."""
    shade = ListedColormap(PALETTE)
    ax.pcolormesh(grid, grid, winner, cmap=shade, vmin=-0.5, vmax=6.5, alpha=0.7, rasterized=True)
    for ray in rays:
        ax.plot(*np.outer(ray, [0, 200]), style, color=COLORS["black"], linewidth=1.5)
    for t in np.unique(winner):
        rows, columns = np.nonzero(np.asarray(winner) == t)  # the number goes to the middle of its region
        middle = grid[int(columns.mean())], grid[int(rows.mean())]
        ax.annotate(str(t + 1), middle, (9, 19), textcoords="offset points", fontsize=15, weight="bold")
    reach = float(grid[-1])
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$p_1$", ylabel="$p_2$")


fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8))
left.fill(*hexagon[:6].T, color=COLORS["grey"], alpha=0.15)
left.scatter(*hexagon.T, s=120, color=PALETTE, edgecolor=COLORS["black"], zorder=3)
for t, (key, score) in enumerate(zip(hexagon, gamma, strict=True)):
    left.annotate(f"{t + 1}: {score:g}", key, (7, 5), textcoords="offset points", fontsize=11)
left.set(xlim=(-1.4, 1.7), ylim=(-1.45, 1.55), aspect="equal", title="keys and scores")
draw_map(middle, first.reshape(81, 81), grid, [])
draw_map(right, last.reshape(81, 81), grid, rays[[0, 2, 4]], style=":")
middle.set_title("ahead at the start")
right.set_title("selected at the end")
show(
    fig,
    alt="Left, a hexagon of keys with scores 1, .3, .8, .2, .7, .1 and one key inside with score .5. Middle, "
    "the p-plane in six sectors, one for each corner. Right, the same plane after training: three regions "
    "only, for tokens 1, 3 and 5, each around a dotted ray.",
)

# %% [markdown]
# **Figure 1.** Left: keys, each with its number and its score. Middle: the token with most attention at each
# start, numbered. Right: the token selected after 300 steps from there, and the Att-SVM directions of tokens
# 1, 3, 5 (dotted). A region of the right map is a **basin of attraction**.

# %% [markdown]
# Six tokens can be ahead at the start. Token 7 cannot: it lies inside the hexagon. Three win: tokens 1, 3 and
# 5. Only token 1 has the best score, and it gets less than half of the square.

# %%
assert set(last.tolist()) == {0, 2, 4}
assert 0.40 < (last == 0).double().mean() < 0.46
assert svm.solve(svm.token_problem(tokens.keys, torch.tensor([6])), throw=False).status == "infeasible"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.2 All choices, and a definition to test
#
# With $n$ sequences a **choice** $\alpha$ takes one token $\alpha_i$ of each. From lesson 06:
#
# - $p_{\mathrm{mm}}(\alpha)$ is the shortest $p$ with $p \cdot (k_{i\alpha_i} - k_{it}) \ge 1$ for all $i$
#   and $t \ne \alpha_i$; if there is none, $\alpha$ is infeasible;
# - the **support tokens** of $i$ are the $t$ for which this is an equality (a *tight* comparison);
# - $\alpha$ is **locally optimal**, or a *local winner* (a choice; in lessons 05 and 06 a *winner* was a
#   token), if in each sequence $\gamma_{i\alpha_i} > \gamma_{it}$ for every support token;
# - it is **globally optimal** if each $\alpha_i$ has the best score of sequence $i$. Where that is feasible,
#   and no two scores tie, it is one of the local winners.
#
# The claim is that attention whose $p$ grows without limit ends at local winners, and that each of them is
# the end of some runs.
#
# We take 240 random problems with $n = 2$ sequences of $T = 4$ tokens in $d = 3$ dimensions, and solve the
# SVMs of all 3,840 choices as one batch.


# %%
def enumerate_choices(tokens):
    """Solve the Att-SVM of every choice of every trial; all results have leading axes (trials, choices)."""
    trials, n, T, d = tokens.keys.shape
    alpha = torch.as_tensor(np.indices((T,) * n).reshape(n, -1).T).expand(trials, T**n, n)
    keys = tokens.keys[:, None].expand(*alpha.shape, T, d)
    solution = svm.solve(svm.token_problem(keys, alpha), throw=False)  # infeasible: a status, no error
    feasible = torch.as_tensor(solution.status == "optimal")
    logits = (keys @ solution.value[..., None, :, None])[..., 0]  # (trials, choices, n, T)
    scores = tokens.scores[:, None].expand_as(logits)
    return {
        "alpha": alpha,
        "p_mm": solution.value,
        "feasible": feasible,
        "locally optimal": geometry.locally_optimal(scores, logits, alpha) & feasible,
        "global": (alpha == tokens.optimal[:, None]).all(dim=-1) & feasible,
        "logits": logits,
        "tight": geometry.support_tokens(logits, alpha).sum(dim=-1),  # how many in each sequence
    }


small = data.random_tokens(n=2, T=4, d=3, trials=240, seed=0)
found = enumerate_choices(small)
counts = {name: found[name].sum().item() for name in ("feasible", "locally optimal", "global")}
print(f"{found['feasible'].numel()} choices:", ", ".join(f"{k} {v}" for k, v in counts.items()))
winners = found["locally optimal"].sum(dim=1)
print("problems with 1, 2, ... local winners:", *winners.bincount()[1:].tolist())
assert (found["locally optimal"] | ~found["global"]).all()  # global and feasible: a local winner
assert list(counts.values()) == [3119, 527, 195]

# %% [markdown]
# Only 527 local winners. Could one have guessed that?

# %% [markdown]
# ### Exercise 07.1: How many local winners to expect
#
# ★★☆ · 6 minutes
#
# Suppose that in every sequence the scores are drawn from one continuous distribution, all of them
# independent of each other and of the keys. The keys are given, and with them the feasible choices. For each
# of these `tight` holds one row: the numbers of support tokens of its $n$ sequences. Return how many of the
# choices are locally optimal, on average over the scores.
#
# <details><summary>Hint</summary>
#
# One sequence first: $\alpha_i$ has $k$ support tokens. With which probability is its score the best of these
# $k + 1$? The sequences are independent. And the mean of a sum is the sum of the means, independent or not.
# </details>


# %%
@exercise("07.1")
def expected_winners(tight):
    """Return the mean number of local winners, a number, for numbers of support tokens tight (choices, n)."""
    ### BEGIN SOLUTION
    return (1 / (tight + 1)).prod(axis=1).sum()
    ### END SOLUTION


# %%
check("07.1", expected_winners)


# %%
pairs = zip(found["tight"], found["feasible"], strict=True)
expected = np.mean([expected_winners(tight[able].numpy().astype(float)) for tight, able in pairs])
generator, blind = torch.Generator().manual_seed(0), 0.0
for _ in range(20):  # the same keys, scores that know nothing of them
    drawn = torch.rand(240, 1, 2, 4, generator=generator, dtype=torch.float64).expand_as(found["logits"])
    local = geometry.locally_optimal(drawn, found["logits"], found["alpha"]) & found["feasible"]
    blind += local.sum().item() / 240 / 20
print(f"local winners a problem: expected {expected:.2f}, with scores drawn at random {blind:.2f}")
print(f"with the scores that these problems have {winners.double().mean():.2f}")
assert abs(expected - blind) < 0.06, again.format("07.1")
assert winners.double().mean() < 0.85 * expected, again.format("07.1")

# %% [markdown]
# The rule of $1 / (k + 1)$ is right for scores that know nothing of the keys. In our problems keys are the
# tokens, $\gamma_{it} = y_i\, v \cdot x_{it}$ is linear in them, and fewer choices win.
#
# In our hexagon the support tokens of each corner are its two neighbours. With scores linear in the keys it
# would have exactly one local winner: a corner better than both neighbours would be better than all. So
# Figure 1 and section 7.5 take scores detached from the keys.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.3 Why: the sign of each weight
#
# Put $p = \Delta_0\, p_{\mathrm{mm}}$ far out on the ray of one choice. Its **lead** over each support token,
# $p \cdot (k_\alpha - k_t)$, is then $\Delta_0$.
#
# Lesson 06 wrote the negative gradient of one sequence as a sum of forces along $k_\alpha - k_t$ with
# strengths $c_t \approx (\gamma_\alpha - \gamma_t)\, e^{-p \cdot (k_\alpha - k_t)}$. On the ray all
# support tokens have the *same* exponential, and every other token a smaller one. As $\Delta_0$ grows only
#
# $$-\nabla L \;\propto\; \sum_{t\ \text{support token}} (\gamma_\alpha - \gamma_t)\, (k_\alpha - k_t)$$
#
# is left. (With several sequences these sums are added, each times a positive number.)
#
# Compare this with the SVM (lesson 02): $p_{\mathrm{mm}} = \sum_{t} \lambda_t (k_\alpha - k_t)$ over the same
# tokens, with $\lambda_t \ge 0$. Both are combinations of the same vectors. If a support token scores higher
# than $\alpha$, its weight is negative in the first and not in the second.

# %% [markdown]
# ### Exercise 07.2: What the first step says, and how it ends
#
# ★★★ · 17 minutes
#
# One sequence. Token 1 is selected and has two support tokens, 2 and 3, whose comparisons $a_2$ and $a_3$,
# $a_t = k_1 - k_t$, are linearly independent and have positive weights in the SVM; $\gamma_2 < \gamma_1$. We
# start far out on the ray. Return, as an array, three numbers:
#
# 1. up to which score $\gamma_3$ the first step makes $p$ longer;
# 2. up to which score $\gamma_3$ it raises the lead over token 3;
# 3. for a score $\gamma_3 < \gamma_1$ (`third`): by how much the lead over token 3 exceeds the lead over
#    token 2 in the end.
#
# Before you compute: let token 3 be nearly as good as token 1. Which of the two leads is smaller in the end?
# What happens to the third number when $\gamma_3$ reaches $\gamma_1$?
#
# <details><summary>Hint 1</summary>
#
# A change of the length, or of a lead, is a product with the step. In the end $p$ grows along
# $p_{\mathrm{mm}}$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Off the ray the two strengths are no longer in the proportion of the differences of scores. Which proportion
# makes the force point along $p_{\mathrm{mm}}$?
# </details>


# %%
@exercise("07.2")
def first_and_last(a2, a3, own, second, third):
    """Return the three numbers, (3,), for comparisons a2, a3 (d,) and scores of tokens 1, 2 and 3."""
    ### BEGIN SOLUTION
    longer = 2 * own - second
    ahead = own + (own - second) * (a2 @ a3) / (a3 @ a3)
    # weights of p_mm are in the proportion a3.(a3 - a2) : a2.(a2 - a3); so must be the strengths in the end
    weights = (a3 @ (a3 - a2)) / (a2 @ (a2 - a3))
    return np.array([longer, ahead, np.log((own - third) / (own - second) * weights)])
    ### END SOLUTION


# %%
check("07.2", first_and_last)

# %% [markdown]
# The hexagon once more. Token 3 (score 0.8) has the support tokens 2 (0.3) and 4. We set the score of token 4
# just below and above your two scores and 0.8, and take one step from lead 60, and 300 from lead 10.

# %%
a2, a4 = hexagon[2] - hexagon[1], hexagon[2] - hexagon[3]
longer, ahead, _ = first_and_last(a2, a4, gamma[2], gamma[1], 0)
ray = rays[2].numpy()
print("score of   first step: change of   after 300 steps:  lead 4 - lead 2,  predicted")
print("token 4       length     lead 4    token ahead")
signs = []
at_scores = np.sort(np.add.outer([longer, ahead, gamma[2]], [-0.02, 0.02]), axis=None)
for score in at_scores:
    problem = with_scores(hexagon[None], np.where(np.arange(7) == 3, score, gamma)[None])
    step = (train_from(60 * rays[2][None], problem, 1, lr=0.01).p.detach()[0] - 60 * rays[2]).numpy() / 0.01
    end = train_from(10 * rays[2][None], problem, 300)
    ahead_then = geometry.selected_tokens(end.attention(problem)).item() + 1
    length, lead = ray @ step / np.linalg.norm(ray), a4 @ step
    print(f"{score:7.2f} {length:+12.2f} {lead:+10.2f} {ahead_then:17d}", end="")
    if score < gamma[2]:
        settled = end.p.detach()[0].numpy() @ (a4 - a2)
        foreseen = first_and_last(a2, a4, gamma[2], gamma[1], score)[2]
        print(f" {settled:21.2f} {foreseen:10.2f}", end="")
        assert abs(settled - foreseen) < 0.01, again.format("07.2")
    print()
    signs.append((length > 0, lead > 0, ahead_then == 3))
for k, bound in enumerate((longer, ahead, gamma[2])):  # each changes at its own score, and nowhere else
    assert [row[k] for row in signs] == (at_scores < bound).tolist(), again.format("07.2")
assert ahead < gamma[2] < longer, again.format("07.2")

# %% [markdown]
# The first step does not tell. With token 4 between your second score and 0.8 it *lowers* the lead over
# token 4, and token 3 stays all the same. Between 0.8 and your first score it makes $p$ *longer*, and token 3
# is lost.
#
# **The sign of each weight decides.** With positive weights, the constraint that falls behind pulls harder,
# *forward*, until the strengths are in the proportion of the SVM's weights: your third number. It goes to
# $-\infty$ as token 4 gets as good as token 3. Above 0.8 one weight is negative: the lead over token 4
# shrinks, its backward force grows with that, and token 4 gets ahead.

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words).
# >
# > *Conditions.* $v$ is fixed, $\ell$ is smooth with $\ell' < 0$ everywhere. Gradient descent on $p$ takes
# > constant steps, at most a bound that the smoothness of $L$ sets.
# >
# > *A cone for each local winner.* Let $\alpha$ be feasible and locally optimal. There are an angle
# > and a radius $R$ such that from every start within that angle of $p_{\mathrm{mm}}(\alpha)$ and
# > longer than $R$, $\|p_j\| \to \infty$ and $p_j / \|p_j\| \to p_{\mathrm{mm}}(\alpha) /
# > \|p_{\mathrm{mm}}(\alpha)\|$.
# >
# > *Only local winners.* Let keys be in general position (tight comparisons linearly independent, each with
# > a positive weight). If $\|p_j\| \to \infty$ in the direction $p_{\mathrm{mm}}(\alpha)$ of a feasible
# > choice $\alpha$, then none of its support tokens scores higher.

# %% [markdown]
# The reason for the last part: independent comparisons add up to $p_{\mathrm{mm}}$ in one way only, with
# positive weights, and a support token that scores higher always pulls with a negative one.
#
# The theorem does not say *how wide* the cone is, nor how far out it begins. Its steps are small and
# constant, ours normalised. Hence the tests.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.4 Every choice, tested
#
# For each feasible choice we start on its ray, with a lead $\Delta_0$ over its support tokens, and descend.
# The length of the start is our unit: $\|p_0\| = 1$, and keys are multiplied by $\Delta_0\,
# \|p_{\mathrm{mm}}\|$ instead. 500 steps of length 0.01 go five times as far.
#
# A run **holds** its choice if at the end every sequence has its highest logit at the chosen token and $p$ is
# longer than it was.


# %%
def hold(start, keys, scores, alpha, lr=0.01, steps=500):
    """Descend from start (runs, d), keys (runs, n, T, d), scores (runs, n, T): did alpha (runs, n) hold?"""
    p = train_from(start, with_scores(keys, scores), steps, lr).p.detach()
    chosen = torch.einsum("rntd,rd->rnt", keys, p).argmax(dim=-1)
    return ((chosen == alpha).all(dim=-1) & (p.norm(dim=-1) > start.norm(dim=-1))).numpy()


def hold_on_ray(lead, keys, scores, alpha, p_mm, **options):
    """Which runs hold alpha from starts of length 1 on the rays with this smallest lead, or (runs,) leads."""
    length = p_mm.norm(dim=-1)
    return hold(p_mm / length[:, None], keys * (lead * length)[:, None, None, None], scores, alpha, **options)


of, _ = found["feasible"].nonzero(as_tuple=True)  # the problem of each feasible choice
runs = small.keys[of], small.scores[of], *(found[name][found["feasible"]] for name in ("alpha", "p_mm"))
winner = found["locally optimal"][found["feasible"]].numpy()
from_afar, nearer = (hold_on_ray(lead, *runs) for lead in (1000, 10))
for name, group in (("local winners", winner), ("other choices", ~winner)):
    print(f"{name}: {(from_afar & group).sum()} of {group.sum()} hold from lead 1000")
assert ((from_afar & winner).sum(), (from_afar & ~winner).sum(), len(winner)) == (523, 0, 3119)
finer = hold_on_ray(1000, *(part[winner & ~from_afar] for part in runs), lr=0.0001, steps=50000)
assert finer.all()

# %% [markdown]
# Our long steps lost the four missing ones: over the same path in steps a hundredth as long they hold.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.5 Where basins end
#
# What are the borders in Figure 1?

# %% [markdown]
# ### Exercise 07.3: Where basins end
#
# ★★★ · 17 minutes
#
# One sequence in the plane. Its keys $k_1, \dots, k_m$ are the corners of a convex polygon, in order around
# it; after the last comes the first. The support tokens of each corner are its two neighbours, both with
# positive weights (as at obtuse angles). No two scores are equal.
#
# There are at least two local winners. `alpha` is one, and far out its basin is a cone. Return the two edges
# of the cone, as unit vectors: first the one on the side of the corners before `alpha`, then the other.
#
# <details><summary>Hint 1</summary>
#
# Let corner $t$ be ahead, far out. Where does $p$ go if $t$ is better than one neighbour and worse than the
# other? And if it is worse than both, on which line does neither of them win?
# </details>
#
# <details><summary>Hint 2</summary>
#
# Go from `alpha` around the polygon as long as the scores fall. At the corner $t$ where that ends, the
# neighbours pull with $e^{h_{t-1} - h_t}$ and $e^{h_{t+1} - h_t}$. Only one end of the line on which these
# are equal has $t$ ahead.
# </details>


# %%
@exercise("07.3")
def edges(keys, scores, alpha):
    """Return the two edges of the basin of alpha, unit vectors (2, 2), for keys (m, 2) and scores (m,)."""
    ### BEGIN SOLUTION
    m, found = len(keys), []
    for way in (-1, 1):
        t = alpha
        while scores[(t + way) % m] < scores[t]:
            t = (t + way) % m
        after, before = keys[(t + 1) % m], keys[t - 1]
        tie = np.array([after[1] - before[1], before[0] - after[0]])  # orthogonal to after - before
        tie *= np.sign(tie @ (keys[t] - after))
        found.append(tie / np.linalg.norm(tie))
    return np.array(found)
    ### END SOLUTION


# %%
check("07.3", edges)

# %% [markdown]
# We start 0.1 degrees inside and outside of every predicted edge in 60 random hexagons.


# %%
def random_hexagon(rng):
    """Corners in order around a hexagon with obtuse angles, and scores 0.1 to 1 in random order."""
    while True:
        angle = np.pi / 3 * (np.arange(6) + rng.uniform(-0.35, 0.35, size=6))
        keys = rng.uniform(0.8, 1.2, size=6)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        after, before = np.roll(keys, -1, axis=0) - keys, np.roll(keys, 1, axis=0) - keys
        convex = after[:, 1] * before[:, 0] < after[:, 0] * before[:, 1]
        if convex.all() and ((after * before).sum(axis=1) < 0).all():
            return keys, rng.permutation(np.linspace(0.1, 1, 6))


rng = np.random.default_rng(0)
sides = []  # keys, scores, start, winner, whether the start is inside its basin
for corners, scored in (random_hexagon(rng) for _ in range(60)):
    best = [t for t in range(6) if scored[t] > max(scored[t - 1], scored[(t + 1) % 6])]
    for t in best if len(best) > 1 else []:
        for edge, way in zip(edges(corners, scored, t), (1, -1), strict=True):
            # inside is to the left of the first edge, to the right of the second
            inward = way * np.array([-edge[1], edge[0]])
            for angle in np.radians([0.1, -0.1]):
                begin = np.cos(angle) * edge + np.sin(angle) * inward
                sides.append((corners, scored, begin, [t], angle > 0))
corners, scored, begin, picked, inside = map(torch.tensor, map(np.array, zip(*sides, strict=True)))
ends_there = hold(begin, 4000 * corners[:, None], scored[:, None], picked, steps=1500)
counts = ends_there[inside].sum(), ends_there[~inside].sum()
print("{} edges: {} runs from inside end at the winner, {} from outside".format(len(sides) // 2, *counts))
assert np.array_equal(ends_there, inside.numpy()), again.format("07.3")

# %% [markdown]
# **Far out, two tokens tie at a border that may both be losers: the neighbours of a corner that is worse than
# both.** The scores only say which corners these are.
#
# The condition on the corners is again that of Exercise 07.2, positive weights. It says that the pull of the
# stronger neighbour widens its lead over the other, $(k_{t-1} - k_t) \cdot (k_{t-1} - k_{t+1}) > 0$, and the
# same with $t - 1$ and $t + 1$ exchanged.

# %% [markdown]
# **Try it.** A map like Figure 1 with the predicted edges. First predict: how do the three regions change,
# seen from afar, as the score of token 2 rises from 0.3 to 0.75? To 0.9? To 1.2?
#
# <details><summary>Answer</summary>
#
# No border moves; one disappears. At 0.75 corner 2 is still worse than both neighbours, so they still meet
# where tokens 1 and 3 tie. At 0.9 token 3 has lost to its neighbour 2, and its region goes to token 1 as a
# whole. At 1.2 the regions of 1 and 3 together are that of token 2. From near the borders bend, and there the
# scores count.
# </details>


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def descend(p, keys, scores, steps, lr=0.1):
    """Normalised descent on p (..., d) for one sequence, with steps of length lr sqrt(j): the end."""
    for j in range(1, steps + 1):
        h = p @ keys.T
        s = np.exp(h - h.max(axis=-1, keepdims=True))
        s /= s.sum(axis=-1, keepdims=True)
        # measured from the winner's score, as in lesson 05: nothing cancels
        beyond = scores - scores[s.argmax(axis=-1)][..., None]
        step = (s * (beyond - (s * beyond).sum(axis=-1, keepdims=True))) @ keys
        p = p + lr * j**0.5 * step / (np.linalg.norm(step, axis=-1, keepdims=True) + 1e-300)
    return p


coarse = np.linspace(-1, 1, 49)
coarse_starts = np.stack(np.meshgrid(coarse, coarse), axis=-1)


def basin_map(two, reach):
    """The token that is selected in the end, (49, 49), from a square of this half width."""
    scores = np.where(np.arange(7) == 1, two, gamma)
    return (descend(reach * coarse_starts, hexagon, scores, 60, lr=0.02 * reach) @ hexagon.T).argmax(axis=-1)


def local_corners(two):
    """The corners that beat both neighbours, and the edges of their basins far out."""
    scores = np.where(np.arange(6) == 1, two, gamma[:6])
    corners = [t for t in range(6) if scores[t] > max(scores[t - 1], scores[(t + 1) % 6])]
    return corners, np.concatenate([edges(hexagon[:6], scores, t) for t in corners])


def basins(two, reach):
    winner = basin_map(two, reach)
    figure = Figure(figsize=(5, 4.2), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.13, 0.13, 0.84, 0.77))
    draw_map(ax, winner, reach * coarse, local_corners(two)[1])
    ax.set_title("selected: token " + ", ".join(str(t + 1) for t in np.unique(winner)), fontsize=12)
    return figure


wide = {"style": {"description_width": "110px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    basins,
    alt="The plane of starting points, coloured by the token that is selected in the end, with the predicted "
    "edges of the basins dashed.",
    two=ipywidgets.FloatSlider(value=0.3, min=0, max=1.5, step=0.05, description="score of token 2", **wide),
    reach=ipywidgets.FloatSlider(value=5, min=1, max=100, step=1, description="half width", **wide),
)

# %%
afar = {two: basin_map(two, 100.0) for two in (0.3, 0.75, 0.9, 1.2)}  # what Try it says
assert all(set(seen.flat) == set(local_corners(two)[0]) for two, seen in afar.items())
assert (afar[0.75] != afar[0.3]).mean() < 0.01  # next to the origin
assert (basin_map(0.75, 2.0) != basin_map(0.3, 2.0)).mean() > 0.1

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 4, figsize=(12, 3.4), sharey=True)
for ax, (two, seen) in zip(axes, afar.items(), strict=True):
    draw_map(ax, seen, 100 * coarse, local_corners(two)[1])
    ax.set(title=f"score {two} of token 2", ylabel="", xticks=(-50, 0, 50))
axes[0].set_ylabel("$p_2$")
show(
    fig,
    alt="Four maps of the token selected from far out, the predicted edges dashed along all borders. For "
    "scores .3 and .75 of token 2 the regions of tokens 1, 3, 5 are the same; for .9 only 1 and 5 are left, "
    "for 1.2 only 2 and 5.",
)

# %% [markdown]
# **Figure 2.** Basins seen from afar, and their predicted edges (dashed).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.6 How far is far?
#
# From lead 10, 45 of the 527 local winners are lost. One suspect is a better token that is *nearly* a support
# token, with $p_{\mathrm{mm}} \cdot (k_\alpha - k_t) = 1 + \text{slack}$. Scores aside, its pull is at first
# weaker than a support token's by a factor $e^{-\Delta_0\,\cdot\,\text{slack}}$ only.

# %%
own = runs[2][..., None]
at_p_mm = found["logits"][found["feasible"]]
beyond = at_p_mm.gather(-1, own) - at_p_mm - 1  # the slack of each token, 0 if it is a support token
near_tie = (runs[1] > runs[1].gather(-1, own)) & (beyond < 0.5)  # better, and of slack < 0.5
close = near_tie.flatten(1).any(dim=1).numpy()
lost, held = winner & ~nearer, winner & nearer
for name, group in (("lost", lost), ("held", held)):
    print(f"{name} from lead 10: {(close & group).sum()} of {group.sum()} have a better token of slack < 0.5")
worse = torch.where(near_tie, runs[1].gather(-1, own) - 0.01, runs[1])
cured = hold_on_ray(10, *(part[close & lost] for part in (runs[0], worse, *runs[2:])))
print(f"with these tokens a little worse than the winner {cured.sum()} of the {len(cured)} hold")
assert ((close & lost).sum(), (close & held).sum(), cured.sum()) == (43, 63, 43)

# %% [markdown]
# The 43 were lost to these tokens. But 63 winners hold next to one. From which lead on? We answer for three
# tokens.

# %% [markdown]
# ### Exercise 07.4: How far is far?
#
# ★★★ · 14 minutes
#
# One sequence of three tokens, with comparisons $a_2 = k_1 - k_2$ and $a_3 = k_1 - k_3$. Token 1 is selected.
# Token 2 is worse and the only support token, so $p_{\mathrm{mm}} = a_2 / \|a_2\|^2$. Token 3 is better, and
# $p_{\mathrm{mm}} \cdot a_3 = 1 + \text{slack}$ with a slack above 0. Let `ratio` be $(\gamma_3 - \gamma_1) /
# (\gamma_1 - \gamma_2)$. Descent in small steps starts on the ray with lead $\Delta_0$ over token 2. From
# which $\Delta_0$ on does it hold token 1? (To leading order far out; the inputs have a positive answer.)
#
# Before you compute: is it enough that token 3 pulls more weakly than token 2 at the start? Is it necessary?
#
# <details><summary>Hint 1</summary>
#
# Up to a positive factor the force on $p$ depends on a single number. Which? And what does it do in the next
# step?
# </details>
#
# <details><summary>Hint 2</summary>
#
# The number is $p \cdot (a_3 - a_2)$: how much further behind token 3 is than token 2. There is a value below
# which it falls from step to step, and above which it grows.
# </details>


# %%
@exercise("07.4")
def critical_lead(a2, a3, ratio):
    """Return the lead from which token 1 holds, a number, for comparisons a2, a3 (d,) and ratio > 0."""
    ### BEGIN SOLUTION
    slack = a2 @ a3 / (a2 @ a2) - 1
    return np.log(ratio * ((a3 - a2) @ a3) / ((a3 - a2) @ a2)) / slack
    ### END SOLUTION


# %%
check("07.4", critical_lead)

# %% [markdown]
# Random problems in 2, 3 and 6 dimensions, started at 0.98 and at 1.02 times your lead:


# %%
def three_tokens(d, count=3000):
    """Comparisons (k, d), ratios (k,) and critical leads (k,), between 8 and 200, of random problems."""
    generator = torch.Generator().manual_seed(d)
    a2, a3 = torch.randn(2, count, d, generator=generator, dtype=torch.float64).numpy()
    ratio = np.exp(torch.randn(count, generator=generator, dtype=torch.float64).numpy())
    ordered = ((a3 - a2) * a2).sum(axis=1) > 0  # token 3 is no support token
    a2, a3, ratio = a2[ordered], a3[ordered], ratio[ordered]
    with np.errstate(invalid="ignore"):
        lead = np.array([critical_lead(*row) for row in zip(a2, a3, ratio, strict=True)], dtype=float)
    within = (lead > 8) & (lead < 200)
    return a2[within], a3[within], ratio[within], lead[within]


def survivors(a2, a3, ratio, lead):
    """How many of these problems hold token 1 from a start on the ray with this lead (k,)."""
    ray = torch.as_tensor(a2 / (a2**2).sum(axis=1, keepdims=True))
    three = torch.as_tensor(np.stack([0 * a2, -a2, -a3], axis=1))[:, None]
    gammas = torch.as_tensor(np.column_stack([0 * ratio, 0 * ratio - 0.3, 0.3 * ratio]))[:, None]
    first = torch.zeros(len(ray), 1, dtype=torch.int64)
    return hold_on_ray(torch.as_tensor(lead), three, gammas, first, ray, steps=1500).sum()


for d in (2, 3, 6):
    a2, a3, ratio, lead = three_tokens(d)
    below, above = (survivors(a2, a3, ratio, factor * lead) for factor in (0.98, 1.02))
    print(f"d = {d}: of {len(lead)} problems {below} hold from 0.98 times your lead, {above} from 1.02 times")
    assert (below, above) == (0, len(lead)), again.format("07.4")
    slack = (a2 * a3).sum(axis=1) / (a2**2).sum(axis=1) - 1
    assert (ratio * np.exp(-0.98 * lead * slack) < 1).all()  # token 3 pulls more weakly at the lower start

# %% [markdown]
# So there is a **law of the slack** for three tokens: far out, token 1 holds if
#
# $$\Delta_0 \;>\; \frac{\log(C \cdot \mathrm{ratio})}{\text{slack}}.$$
#
# The comparisons set $C > 1$. Without $C$ this would be the lead at which both tokens pull alike. That is
# refused: at 0.98 times the critical lead token 3 pulls more weakly from the start, and yet all 200 runs are
# lost.
#
# <details><summary>What is C?</summary>
#
# $C = 1 + \|a_3 - a_2\|^2 / (\text{slack}\, \|a_2\|^2)$. For comparisons that stay apart it grows without
# limit as the slack goes to 0.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.7 How often is the winner global?
#
# From here on the start is random. For four values of $d$ we take 200 problems with $n = 3$, $T = 4$. A run
# *near the origin* starts at a draw from $N(0, I_d)$ and takes 1,500 steps of length 0.1. A run *from far
# out* has its start and its steps 1,000 times as long.
#
# A run is **decided** if every sequence gives more than 0.99 of its attention to one token
# (`geometry.outcome`), else *undecided*.


# %%
def account(p, many, seen):
    """Which p (trials, d) are global, at another local winner, at no winner, undecided: (4, trials)."""
    attention = models.PromptAttention(p.shape[-1], trials=len(p), init=p).attention(many)
    word, selected = geometry.outcome(attention, many), geometry.selected_tokens(attention)
    same = (seen["alpha"] == selected[:, None]).all(dim=-1)
    local = (same & seen["locally optimal"]).any(dim=1).numpy()
    other = word == "local"
    return np.array([word == "global", other & local, other & ~local, word == "undecided"])


shares, totals, later = [], np.zeros((2, 4), dtype=int), []
for d in (3, 5, 10, 20):
    many = data.random_tokens(n=3, T=4, d=d, trials=200, seed=11)
    start = torch.randn(200, d, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
    seen = enumerate_choices(many)
    end = [train_from(scale * start, many, 1500, 0.1 * scale).p.detach() for scale in (1, 1000)]
    ends = np.array([account(p, many, seen) for p in end])  # (2, 4, 200)
    totals += ends.sum(axis=-1)
    for scale, p, left in zip((1, 1000), end, ends[:, 2] | ends[:, 3], strict=True):
        few = data.TokenData(*(getattr(many, part)[left] for part in "Xzyv"))
        p = train_from(p[left], few, 6000, scale).p.detach()
        won = account(p, few, {name: part[left] for name, part in seen.items()})[:2].any(axis=0)
        later += zip(won, p.norm(dim=-1) < 100, strict=True)
    winners = seen["locally optimal"].sum(dim=1).numpy()
    possible = seen["global"].any(dim=1).numpy() & (winners > 1)
    shares.append([*ends[:, 0, possible].mean(axis=1), (1 / winners[possible]).mean()])
print("where global is possible, of two winners or more, the share that is, for d = 3, 5, 10, 20")
for name, share in zip(("near the origin", "from far out", "winners alike"), np.array(shares).T, strict=True):
    print(f"{name:15s}", *(f"{part:.2f}" for part in share))
print("runs that end global, at another winner, at none, undecided: near {}, far {}".format(*totals.tolist()))
won, finite = np.array(later).T
print("the others later:", won.sum(), "at a local winner,", finite.sum(), "at |p| < 100")
assert [*totals.flat, (won & ~finite).sum(), finite.sum()] == [530, 248, 8, 14, 414, 371, 15, 0, 23, 14]
assert all(near - far > 0.1 and 0.03 < far - alike < 0.105 for near, far, alike in shares)

# %% [markdown]
# In all four dimensions the global choice is selected more often from near the origin. From far out its share
# is at most 0.1 above that of a blind choice among the local winners (third row).
#
# Of the other 37 runs 23 come to a local winner in 6,000 more steps, ten times as long; 14 stay at
# $\lVert p \rVert < 100$ (section 6.7).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.8 Where it breaks *(optional)*
#
# **A better support token that does no harm.** Keys $(0, 0)$, $(-1, -1)$, $(-1, 1)$, $(-1, 0)$ with scores
# $0.5, 0, 0, \gamma_4$ are not in general position. At $p_{\mathrm{mm}} = (1, 0)$ all three comparisons of
# token 1 are tight: $(1, 1)$, $(1, -1)$, $(1, 0)$. Across the ray only tokens 2 and 3 push, and they balance
# on it. Forward the forces add up to $0.5 + 0.5 + (0.5 - \gamma_4)$, in units of $e^{-p_1}$. So token 1
# should hold for $\gamma_4 < 1.5$.

# %%
flat = np.array([[[0, 0], [-1, -1], [-1, 1], [-1, 0]]])
begin = torch.tensor([[5.0, 0], [5, 1], [5, -2], [20, 0.5]], dtype=torch.float64)
for fourth in (1.47, 1.53):
    problem = with_scores(flat, np.array([[0.5, 0, 0, fourth]]))
    end = train_from(begin, problem, steps=4000)
    holds = (geometry.selected_tokens(end.attention(problem)) == 0).sum().item()
    print(f"score {fourth} of token 4: token 1 holds from {holds} of 4 starts")
    assert holds == (4 if fourth < 1.5 else 0)

# %% [markdown]
# ## Questions
#
# One sequence of $T$ tokens, no two with equal scores. Each token has all others as support tokens. How many
# local winners are there, and what does Exercise 07.1 say?
# <details><summary>Answer</summary>
#
# One, the best token: it alone beats all others. The rule says the same, $T$ choices with $1 / T$ each.
# </details>

# %%
progress("07")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Of $T^n$ choices few are **local winners**: better than all their support tokens. In 240 problems, from
#   lead 1000, 523 of 527 local winners held, and none of 2,592 other choices.
# - Where a choice holds, the forces end in the proportion of the SVM's weights. These are positive for keys
#   in general position, so one better support token undoes a choice.
# - For one sequence in the plane, keys at obtuse corners, **basins** end far out where the two neighbours of
#   a corner worse than both tie. **How far is far**, for three tokens: a logarithm over the slack.
# - From random starts 1,586 of 1,600 runs reached a local winner, the global one more often from near the
#   origin than from far out. 14 stayed at $\lVert p \rVert < 100$.

# %% [markdown]
# ## Further reading
#
# D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
# 2023, arXiv 2306.13596): local optimality, the cones, and the global case. D. A. Tarzanagh, Y. Li, C.
# Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv 2308.16898): the same for
# $W$, and large dimension.
#
# **New in the library:** [`geometry.support_tokens`](../mini_attn/geometry.py),
# [`geometry.outcome`](../mini_attn/geometry.py).
#
# **Next:** [lesson 08](08_regularization_path.ipynb), regularisation paths. Training can end at a local
# winner; the best $p$ of a given length cannot.
