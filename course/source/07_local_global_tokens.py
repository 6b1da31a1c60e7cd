# %% [markdown] slideshow={"slide_type": "slide"}
# # 07 · Local and global winners
#
# In lesson 06 the direction of a trained $p$ was the solution of an SVM over tokens, one SVM for each choice
# of tokens. There are $T^n$ choices, and a run that goes far out makes one of them.
#
# **The question: which choices can training make, and which does it make?**
#
# The answer in three sentences. Far out training stays only at *local winners*, and one inequality for each
# support token says which choices these are. Which of them a run reaches is decided by its start: in the
# plane the borders between their basins can be computed. From a random start near the origin, where the best
# tokens can be selected together, about two runs in three or more select them; from far out hardly more than
# if all were alike.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - find all local winners of a small problem, and say how many to expect;
# - explain why one better support token undoes a choice, whatever the first step says;
# - predict where the basins of two winners meet, and how far out "far" is;
# - say how often runs end at the global choice, and where the others are.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (Att-SVM, support tokens) and, from
# [lesson 02](02_hard_margin_svm.ipynb), that the solution of an SVM is a sum of its constraints with
# nonnegative weights. About 80 minutes, four exercises.

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
# ## 7.1 The idea in a picture
#
# One sequence, seven tokens. Their keys $k_t$ are points of the plane: the corners of a hexagon and one point
# inside. As before $p$ gives token $t$ the logit $h_t = k_t \cdot p$, attention is $s = \mathrm{softmax}(h)$,
# and we minimise $\ell(\sum_t s_t \gamma_t)$ with $\ell(u) = \log(1 + e^{-u})$; $\gamma_t$ is the score of
# token $t$. The scores alternate around the hexagon.
#
# We start normalised descent (lesson 06) from 1,681 points $p$ at once.

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
grid = torch.linspace(-5, 5, 41, dtype=torch.float64)
plane = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), dim=-1)  # (41, 41, 2) starts
starts = plane.reshape(-1, 2)
first = geometry.selected_tokens(models.PromptAttention(2, len(starts), init=starts).attention(tokens))[:, 0]
last = geometry.selected_tokens(train_from(starts, tokens, steps=300).attention(tokens))[:, 0]
corner = torch.arange(6)[:, None]  # (6, 1) one choice each
rays = svm.solve(svm.token_problem(tokens.keys.expand(6, 1, 7, 2), corner)).value  # (6, 2) lesson 06
for name, winner in (("most attention at the start", first), ("most attention at the end", last)):
    print(f"{name:28s}", *(f"{(winner == t).double().mean():.2f}" for t in range(7)))

# %% jupyter={"source_hidden": true}
PALETTE = [COLORS[name] for name in ("blue", "sky", "vermillion", "yellow", "green", "purple", "grey")]


def draw_map(ax, winner, grid, rays):
    """The winner of each start (k, k), numbered from 1, and rays (m, 2) from the origin."""
    shade = ListedColormap(PALETTE)
    ax.pcolormesh(grid, grid, winner, cmap=shade, vmin=-0.5, vmax=6.5, alpha=0.7, rasterized=True)
    for ray in rays:
        ax.plot(*np.outer(ray, [0, 50]), "--", color=BLACK, linewidth=1.5)
    for t in np.unique(winner):
        rows, columns = np.nonzero(np.asarray(winner) == t)  # the number goes to the middle of its region
        middle = grid[int(columns.mean())], grid[int(rows.mean())]
        ax.annotate(str(t + 1), middle, (9, 22), textcoords="offset points", fontsize=15, weight="bold")
    reach = float(grid[-1])
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$p_1$", ylabel="$p_2$")


fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8))
left.fill(*hexagon[:6].T, color=COLORS["grey"], alpha=0.15)
left.scatter(*hexagon.T, s=120, color=PALETTE, edgecolor=BLACK, zorder=3)
for t, (key, score) in enumerate(zip(hexagon, gamma, strict=True)):
    left.annotate(f"{t + 1}: {score:g}", key, (7, 5), textcoords="offset points", fontsize=11)
left.set(xlim=(-1.4, 1.7), ylim=(-1.45, 1.55), aspect="equal", title="keys and scores")
draw_map(middle, first.reshape(41, 41), grid, [])
draw_map(right, last.reshape(41, 41), grid, rays[[0, 2, 4]])
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
# start, numbered. Right: the token selected after 300 steps from there, and the Att-SVM directions of tokens
# 1, 3, 5 (dashed). A region of the right map is a **basin of attraction**.

# %% [markdown]
# Six tokens can be ahead at the start. Token 7 cannot: it lies inside the hexagon, and no direction
# prefers it to all corners. Three win: tokens 1, 3 and 5. Only token 1 has the best score, and it gets less
# than half of the square.

# %%
assert set(first.tolist()) == {0, 1, 2, 3, 4, 5}
assert set(last.tolist()) == {0, 2, 4}
assert 0.40 < (last == 0).double().mean() < 0.46
inside = svm.token_problem(tokens.keys, torch.tensor([6]))
assert svm.solve(inside, throw=False).status == "infeasible"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.2 All choices, and a definition to test
#
# With $n$ sequences a **choice** $\alpha$ takes one token $\alpha_i$ of each. From lesson 06:
#
# - $p_{\mathrm{mm}}(\alpha)$ is the shortest $p$ with $p \cdot (k_{i\alpha_i} - k_{it}) \ge 1$ for all $i$
#   and $t \ne \alpha_i$; if there is none, $\alpha$ is infeasible;
# - the **support tokens** of $i$ are the $t$ for which this is an equality;
# - $\alpha$ is **locally optimal**, or a *local winner* (a choice; in lessons 05 and 06 a *winner* was a
#   token), if in each sequence $\gamma_{i\alpha_i} > \gamma_{it}$ for every support token;
# - it is **globally optimal** if each $\alpha_i$ has the best score of sequence $i$. Where that is feasible,
#   and no two scores tie, it is one of the local winners.
#
# The claim is that attention whose $p$ grows without limit ends at local winners, and that each of them is
# the end of some runs.
#
# We take 240 random problems with $n = 2$ sequences of $T = 4$ tokens in $d = 3$ dimensions. Each has $T^n =
# 16$ choices; all 3,840 SVMs are solved as one batch.


# %%
def enumerate_choices(tokens):
    """Solve the Att-SVM of every choice of every trial; all results have leading axes (trials, choices)."""
    trials, n, T, d = tokens.keys.shape
    alpha = torch.as_tensor(np.indices((T,) * n).reshape(n, -1).T).expand(trials, T**n, n)
    keys = tokens.keys[:, None].expand(*alpha.shape, T, d)
    solution = svm.solve(svm.token_problem(keys, alpha), throw=False)
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
assert (winners.min(), winners.max()) == (1, 6)

# %% [markdown]
# Of 3,840 choices 3,119 are feasible and only 527 are local winners: one to six in each problem. Could one
# have guessed that number?

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
def expected(found):
    """The expected number of local winners a problem."""
    pairs = zip(found["tight"], found["feasible"], strict=True)
    return np.mean([expected_winners(tight[feasible].numpy().astype(float)) for tight, feasible in pairs])


def mean_winners(found, scores):
    """Local winners a problem, for several drawings of all scores (draws, trials, n, T)."""
    local = [
        geometry.locally_optimal(gamma[:, None].expand_as(found["logits"]), found["logits"], found["alpha"])
        for gamma in scores
    ]
    return np.mean([(here & found["feasible"]).sum(dim=1).double().mean().item() for here in local])


generator = torch.Generator().manual_seed(0)
blind = mean_winners(found, torch.rand(20, 240, 2, 4, generator=generator, dtype=torch.float64))
print(f"local winners a problem: expected {expected(found):.2f}, with scores drawn at random {blind:.2f}")
print(f"with the scores that these problems have {winners.double().mean():.2f}")
assert abs(expected(found) - blind) < 0.06, again.format("07.1")
assert winners.double().mean() < 0.85 * expected(found), again.format("07.1")

# %% [markdown]
# The rule of $1 / (k + 1)$ is right for scores that know nothing of the keys. Here they do: keys are the
# tokens, and $\gamma_{it} = y_i\, v \cdot x_{it}$ is linear in them, and fewer choices win.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.3 Why: the sign of each weight
#
# Put $p$ on the ray of one choice, $p = R\, \hat p$ with $\hat p = p_{\mathrm{mm}} / \|p_{\mathrm{mm}}\|$
# and $R$ large, so that its **lead** over each support token is $\Delta_0 = R / \|p_{\mathrm{mm}}\|$. Lesson
# 06 wrote the negative gradient of one sequence as a sum of forces along $k_\alpha - k_t$ with strengths
# $c_t \approx (\gamma_\alpha - \gamma_t)\, e^{-p \cdot (k_\alpha - k_t)}$. On the ray all support tokens
# have the *same* exponential, and every other token a smaller one. As $R \to \infty$ only
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
# ★★★ · 12 minutes
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
# just below and just above your two scores and token 3's own, and take one step from lead 60, and 300 from
# lead 10.

# %%
a2, a4 = hexagon[2] - hexagon[1], hexagon[2] - hexagon[3]
longer, ahead, _ = first_and_last(a2, a4, gamma[2], gamma[1], 0)
ray = rays[2].numpy()
print("score of   first step: change of   after 300 steps: token 3,  lead 4 - lead 2,  predicted")
print("token 4       length     lead 4")
signs = []
at_scores = np.sort(np.add.outer([longer, ahead, gamma[2]], [-0.02, 0.02]), axis=None)
for score in at_scores:
    changed = np.where(np.arange(7) == 3, score, gamma)
    problem = with_scores(hexagon[None], changed[None])
    begin = 60 * rays[2][None]
    step = (train_from(begin, problem, 1, lr=0.01).p.detach() - begin)[0].numpy() / 0.01
    end = train_from(10 * rays[2][None], problem, 300)
    stays = geometry.selected_tokens(end.attention(problem)).item() == 2
    now = ray @ step / np.linalg.norm(ray), a4 @ step
    print(f"{score:7.2f} {now[0]:+12.2f} {now[1]:+10.2f} {'stays' if stays else 'lost':>23s}", end="")
    if score < gamma[2]:
        settled = end.p.detach()[0].numpy() @ (a4 - a2)
        foreseen = first_and_last(a2, a4, gamma[2], gamma[1], score)[2]
        print(f" {settled:16.2f} {foreseen:10.2f}", end="")
        assert abs(settled - foreseen) < 0.01, again.format("07.2")
    print()
    signs.append((now[0] > 0, now[1] > 0, stays))
for k, bound in enumerate((longer, ahead, gamma[2])):  # each changes at its own score, and nowhere else
    assert [row[k] for row in signs] == (at_scores < bound).tolist(), again.format("07.2")
assert ahead < gamma[2] < longer, again.format("07.2")

# %% [markdown]
# The first step does not tell. With token 4 between your second score and 0.8 it *lowers* the lead over
# token 4, and token 3 stays all the same. Between 0.8 and your first score it makes $p$ *longer*, and token 3
# is lost.
#
# **The sign of each weight decides.** With positive weights, the constraint that falls behind pulls harder,
# *forward*, until the strengths are in the proportion of the SVM's weights: your third number. Above 0.8 one
# of them is negative, and no difference of leads gives that proportion. The lead over token 4 shrinks, its
# backward force grows with that, and some steps later token 4 is ahead.

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix $v$, let $\ell$ be smooth
# > with $\ell' < 0$ everywhere, and run gradient descent on $p$ with a constant step, at most a bound that
# > the smoothness of $L$ sets.
# >
# > *A cone for each local winner.* Let $\alpha$ be feasible and locally optimal. There are an angle
# > and a radius $R$ such that from every start within that angle of $p_{\mathrm{mm}}(\alpha)$ and
# > longer than $R$, $\|p_j\| \to \infty$ and $p_j / \|p_j\| \to p_{\mathrm{mm}}(\alpha) /
# > \|p_{\mathrm{mm}}(\alpha)\|$.
# >
# > *Only local winners*, for keys in general position (tight comparisons linearly independent, each with a
# > positive weight): if the choice $\alpha$ of the selected tokens is feasible and $\|p_j\| \to \infty$ in
# > the direction of its Att-SVM, then $\alpha$ is locally optimal (but for support
# > tokens of its very score).

# %% [markdown]
# Exercise 07.2 is the reason for the last part, for one sequence with two support tokens. The theorem does
# not say *how wide* the cone is, nor how far out it begins; and its steps are small and constant, ours
# normalised. Hence the tests of the next sections.

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


def as_runs(tokens, seen, which):
    """The choices of a mask: keys (runs, n, T, d), scores (runs, n, T), alpha (runs, n), p_mm (runs, d)."""
    of = which.nonzero()[:, 0]
    return tokens.keys[of], tokens.scores[of], seen["alpha"][which], seen["p_mm"][which]


def on_ray(lead, keys, p_mm):
    """Starts of length 1 on the rays, and keys that give them this smallest lead, a number or (runs,)."""
    length = p_mm.norm(dim=-1)
    return p_mm / length[:, None], keys * (lead * length)[:, None, None, None]


def hold_on_ray(lead, keys, scores, alpha, p_mm, **options):
    """Which runs hold alpha from this lead."""
    return hold(*on_ray(lead, keys, p_mm), scores, alpha, **options)


feasible = found["feasible"]
runs = keys, scores, alpha, p_mm = as_runs(small, found, feasible)
winner = found["locally optimal"][feasible].numpy()

from_afar = hold_on_ray(1000, *runs)
for name, group in (("local winners", winner), ("other choices", ~winner)):
    print(f"{name}: {(from_afar & group).sum()} of {group.sum()} hold from lead 1000")
assert ((from_afar & winner).sum(), (from_afar & ~winner).sum(), len(winner)) == (523, 0, 3119)

# %% [markdown]
# Far enough out, at $\Delta_0 = 1000$, the definition is right 3,115 times out of 3,119. (Section 7.9 says
# why not in the other four, and has five more draws.) So how wide are the basins, and how far is
# far?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.5 Where basins end
#
# From which starts is a choice reached? Look at Figure 1 again: what are the borders between the three
# basins?

# %% [markdown]
# ### Exercise 07.3: Where basins end
#
# ★★★ · 12 minutes
#
# One sequence in the plane. The keys $k_1, \dots, k_m$ are the corners of a convex polygon, in order around
# it, all with obtuse angles (so that the support tokens of a corner are its two neighbours), and no two
# scores are equal. `alpha` is one of at least two local winners. Far out its basin is a cone. Return its two
# edges, as unit vectors: first the one on the side of the corners before `alpha`, then the one on the side
# of those after it. (After the last corner comes the first.)
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
# Tested where it matters: 0.1 degrees on either side of every predicted edge in 60 random hexagons. A run
# has to end at the winner on the one side, and not on the other.


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
corners, scored, begin, picked, inside = (
    torch.as_tensor(np.array(part)) for part in zip(*sides, strict=True)
)
ends_there = hold(begin, 4000 * corners[:, None], scored[:, None], picked, steps=1500)
stay, leave = ends_there[inside].sum(), (~ends_there[~inside]).sum()
print(f"{len(sides) // 2} edges: inside {stay} runs end at the winner, outside {leave} do not")
assert np.array_equal(ends_there, inside.numpy()), again.format("07.3")

# %% [markdown]
# **At a border two tokens tie that may both be losers: the neighbours of a corner that is worse than both.**
# The scores only say which corners these are: as long as these stay the same, no border moves.

# %% [markdown]
# ## 7.6 How far is far?
#
# From lead 10, 45 of the 527 local winners are lost. One suspect is a better token that is *nearly* a support
# token, with a lead $1 + \text{slack}$ at $p_{\mathrm{mm}}$. Scores aside, its pull is at first weaker than a
# support token's by a factor $e^{-\Delta_0\,\cdot\,\text{slack}}$ only.

# %% [markdown]
# ### Exercise 07.4: How far is far?
#
# ★★★ · 12 minutes
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
# Random problems with three tokens in 2, 3 and 6 dimensions, started at 0.98 and at 1.02 times your lead:


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
    *problems, lead = three_tokens(d)
    below, above = (survivors(*problems, factor * lead) for factor in (0.98, 1.02))
    print(
        f"d = {d}: of {len(lead)} problems {below} hold from 0.98, {above} from 1.02 times the critical lead"
    )
    assert (below, above) == (0, len(lead)), again.format("07.4")
    assert len(lead) > 30
    slack = (problems[0] * problems[1]).sum(axis=1) / (problems[0] ** 2).sum(axis=1) - 1
    assert (problems[2] * np.exp(-lead * slack)).max() < 1, again.format("07.4")  # C > 1

# %% [markdown]
# So there is a **law of the slack**: token 1 holds if
#
# $$\Delta_0 \;>\; \frac{\log(C \cdot \mathrm{ratio})}{\text{slack}},$$
#
# with a $C > 1$ that the two comparisons set. Without $C$ this would be the lead at which both tokens pull
# alike. So that token 3 pulls more weakly at the start is necessary, but not enough.

# %% [markdown]
# **Many sequences, many support tokens.** Where a choice holds, the forces of its support tokens come to
# point along $p_{\mathrm{mm}}$ (section 7.3). So take them for a single support token, with the comparison
# $a_2 = p_{\mathrm{mm}} / \|p_{\mathrm{mm}}\|^2$ and the sum of their strengths (differences of scores times
# their sequence's $|\ell'|$); each better token plays token 3. Then your function predicts from which lead
# each local winner of section 7.4 holds: the largest of its better tokens' critical leads.


# %%
def law_of_the_slack(keys, scores, selected, p_mm):
    """From which lead each run holds its choice, by the law and with C = 1: (2, runs); 0 at once."""
    own = scores.gather(-1, selected[..., None])
    a = torch.take_along_dim(keys, selected[..., None, None], dim=-2) - keys  # comparisons (runs, n, T, d)
    tight = geometry.support_tokens((keys @ p_mm[:, None, :, None])[..., 0], selected)
    strength = torch.sigmoid(-own) * (own - scores)  # |l'| times the difference of scores
    along = p_mm / (p_mm**2).sum(dim=-1, keepdim=True)
    ratio = -strength / (strength * tight).sum(dim=(1, 2), keepdim=True)
    lead = np.zeros((2, len(p_mm)))
    for run, i, t in ((strength < 0) & ~tight).nonzero().tolist():
        a2, a3, r = along[run].numpy(), a[run, i, t].numpy(), ratio[run, i, t].item()
        alike = np.log(r) / (a2 @ a3 / (a2 @ a2) - 1)  # where both tokens pull alike
        lead[:, run] = np.fmax(lead[:, run], [critical_lead(a2, a3, r), alike])
    return lead


local = [part[winner] for part in runs]
predicted, pulls_alike = law_of_the_slack(*local)
leads = np.geomspace(1, 1000, 10)
holds = np.array([hold_on_ray(lead, *local) for lead in leads])  # (10, 527)
named, rival = (said > leads[:, None] for said in (predicted, pulls_alike))  # lost, by the law and with C = 1
lost = ~holds[3]
print(f"from lead 10: {lost.sum()} local winners lost; named lost, of these lost; largest error of the share")
errors = {}
for name, said in (("the law", named), ("C = 1", rival)):
    errors[name] = abs(holds.mean(axis=1) - (~said).mean(axis=1))[1:].max()  # from lead 2 on
    print(f"  {name:8} {said[3].sum():20} {(said[3] & lost).sum():15} {errors[name]:22.2f}")
assert (lost.sum(), named[3].sum(), (named[3] & lost).sum()) == (45, 50, 37), again.format("07.4")
assert (rival[3].sum(), (rival[3] & lost).sum()) == (3, 3), again.format("07.4")
assert errors["the law"] < 0.05 < 0.15 < errors["C = 1"], again.format("07.4")
assert not (~holds & named)[-1].any(), again.format("07.4")

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7, 3.8))
fine = np.geomspace(1, 1000, 200)
ax.plot(
    fine, [(predicted < lead).mean() for lead in fine], color=BLACK, label="local winners, law of the slack"
)
rival_share = [(pulls_alike < lead).mean() for lead in fine]
ax.plot(fine, rival_share, "--", color=ORANGE, label="local winners, $C = 1$")
ax.plot(leads, holds.mean(axis=1), "o", color=BLUE, markersize=8, label="local winners, descent")
ax.set(xscale="log", xlabel=r"lead $\Delta_0$ of the start", ylabel="share that holds", ylim=(-0.03, 1.03))
ax.legend(loc="center right")
show(
    fig,
    alt="Share that holds against the lead of the start, from 1 to 1,000. Dots of local winners rise "
    "from 0.67 to 0.99 along a line, the law of the slack; a broken line, with C = 1, lies far above them.",
)

# %% [markdown]
# **Figure 2.** The share of local winners that hold from a start on their ray with the lead $\Delta_0$. Line:
# those that should, by the law of the slack; broken: where token 3 pulls more weakly at the start.

# %% [markdown]
# **The law accounts for most losses, and $C$ makes it.** From lead 2 on the share that it predicts is right
# to within 0.05. The pull at the start alone ($C = 1$) names only 3 of the 45 local winners lost from lead
# 10. The law names 37, and with them 13 that hold: it is rough, since it takes several support tokens for
# one. Of the four lost from lead 1000 it names none (section 7.9).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.7 How often is the winner global?
#
# From here on the start is random, near the origin. For five values of $d$ we take 200 random problems with
# $n = 3$, $T = 4$, and solve the SVMs of all 64 choices of each.
#
# Each run takes 1,500 normalised steps, all of length 0.1. There are four classes.
#
# - **Finite minimum.** A $p$ where all forces cancel. Far out forces are tiny anyway, so "the gradient is
#   small" says nothing. Newton's step does, since it divides by the Hessian. A run has settled if Newton's
#   method finds a minimum within distance 1 of its end.
# - **Global** or **other winner.** Otherwise, if the tokens it has selected are a local winner.
# - **Not yet.** All others.


# %%
def slope_and_hessian(p, keys, scores, own):
    """Of the loss at p (runs, d), for keys (runs, n, T, d), scores and those of the selected tokens, own."""
    p = p.clone().requires_grad_()
    s = torch.softmax(torch.einsum("rntd,rd->rnt", keys, p), dim=-1)
    gained = (s * (scores - own)).sum(dim=-1)  # measured from the selected tokens: nothing cancels far out
    loss = torch.nn.functional.softplus(-(own[..., 0] + gained)).mean(dim=-1)
    (slope,) = torch.autograd.grad(loss.sum(), p, create_graph=True)
    rows = [torch.autograd.grad(one.sum(), p, retain_graph=True)[0] for one in slope.unbind(dim=-1)]
    return slope.detach(), torch.stack(rows, dim=-1)


def finite_minimum(p, keys, scores, steps=12):
    """Whether Newton's method, with steps of at most 1, finds a minimum within 1 of each p (runs, d)."""
    begin = p
    for _ in range(steps):
        leading = torch.einsum("rntd,rd->rnt", keys, p).argmax(dim=-1, keepdim=True)
        slope, hessian = slope_and_hessian(p, keys, scores, scores.gather(-1, leading))
        scale = hessian.abs().amax(dim=(-2, -1), keepdim=True).clamp(min=1e-300)  # far out both are tiny
        values, vectors = torch.linalg.eigh(hessian / scale)
        size = values.abs().clamp(min=1e-12)[..., None]
        step = (vectors @ ((vectors.mT @ (slope[..., None] / scale)) / size))[..., 0]  # never uphill
        p = p - step / step.norm(dim=-1, keepdim=True).clamp(min=1)
    return (step.norm(dim=-1) < 1e-6) & (values[:, 0] > 0) & ((p - begin).norm(dim=-1) < 1)


def drawn(d, seeds=(11, 12, 13, 14, 15), each=40):
    """Problems of several seeds as one data set, and a random start for each."""
    parts = [data.random_tokens(n=3, T=4, d=d, trials=each, seed=seed) for seed in seeds]
    joined = (torch.cat([getattr(part, name) for part in parts]) for name in ("X", "z", "y", "v"))
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    start = torch.cat([torch.randn(each, d, generator=g, dtype=torch.float64) for g in generators])
    return data.TokenData(**dict(zip(("X", "z", "y", "v"), joined, strict=True))), start


def classify(p, keys, scores, seen):
    """One of four classes for each run, as a dict of masks (runs,)."""
    selected = torch.einsum("rntd,rd->rnt", keys, p).argmax(dim=-1)
    same = (seen["alpha"] == selected[:, None]).all(dim=-1)
    local, best = ((same & seen[name]).any(dim=1) for name in ("locally optimal", "global"))
    minimum = finite_minimum(p, keys, scores)
    return {
        "global": best & ~minimum,
        "other winner": local & ~best & ~minimum,
        "finite minimum": minimum,
        "not yet": ~local & ~minimum,
    }


def account(d):
    """Train on 200 problems and sort every run into one class."""
    many, start = drawn(d)
    seen = enumerate_choices(many)
    p = train_from(start, many, 1500).p.detach()
    return classify(p, many.keys, many.scores, seen) | {
        "p": p,
        "tokens": many,
        "seen": seen,
        "possible": seen["global"].any(dim=1),
        "winners": seen["locally optimal"].double().sum(dim=1),
    }


dimensions = (2, 4, 6, 10, 20)
table = {d: account(d) for d in dimensions}
classes = ("global", "other winner", "finite minimum", "not yet")
print("     local     global   | of the 200 runs")
print(" d  winners  possible | " + "  ".join(classes))
for d, row in table.items():
    number = [int(row[name].sum()) for name in classes]
    line = f"{d:2d}{row['winners'].mean():9.2f}"
    columns = "  ".join(f"{count:{len(name)}d}" for count, name in zip(number, classes, strict=True))
    print(f"{line}{row['possible'].sum().item():10d} | {columns}")
    assert sum(number) == 200

# %% jupyter={"source_hidden": true}
fig, left = plt.subplots(figsize=(7.5, 3.6))
x, floor = np.arange(len(dimensions)), np.zeros(len(dimensions))
for name, color in zip(classes, (BLUE, ORANGE, GREEN, "white"), strict=True):
    share = np.array([table[d][name].double().mean().item() for d in dimensions])
    left.bar(x, share, 0.7, bottom=floor, color=color, edgecolor=BLACK, linewidth=0.6, label=name)
    floor += share
possible = np.array([table[d]["possible"].double().mean().item() for d in dimensions])
dashes = {"color": BLACK, "linewidth": 3, "linestyle": (0, (2, 1))}
left.hlines(possible, x - 0.45, x + 0.45, label="global possible", **dashes)
left.set(xlabel="dimension $d$", ylabel="share of runs", ylim=(0, 1.02))
left.legend(loc="center left", bbox_to_anchor=(1, 0.5))
left.set_xticks(x, dimensions)
show(
    fig,
    alt="Stacked bars of what runs came to for d = 2, 4, 6, 10, 20, and marks where global is possible: "
    "global grows towards them, finite minima vanish after d = 4.",
)

# %% [markdown]
# **Figure 3.** What 200 runs came to in each dimension; broken marks, the share of problems in which the
# global choice is feasible.

# %%
count = {name: sum(int(row[name].sum()) for row in table.values()) for name in classes}
with_best = sum(int((row["finite minimum"] & row["possible"]).sum()) for row in table.values())
reached = [row["global"][row["possible"]].double().mean().item() for row in table.values()]
print(f"of 1,000 runs {count}; finite minima though the global choice is feasible: {with_best}")
alike = [(1 / row["winners"][row["possible"]]).mean().item() for row in table.values()]
print("where the global choice is possible, runs that reach it:", *(f"{share:.2f}" for share in reached))
print("                 that would, were every winner as likely:", *(f"{share:.2f}" for share in alike))
assert list(count.values()) == [624, 300, 66, 10]
assert with_best == 1
known = [0.95, 0.69, 0.66, 0.76, 0.89], [0.67, 0.44, 0.38, 0.52, 0.73]
assert np.allclose([reached, alike], known, atol=0.01)

# %% [markdown]
# **How often global?** Where it is possible, in 66 to 95 percent of the problems, far more than the 38 to 73
# if all winners were alike. (From far out they nearly are: section 7.9.)
#
# **The others.** At a winner are 924 of 1,000 runs. Finite minima, 66, are found in low dimension; in all but
# one of these problems the best tokens cannot be selected together. Ten runs are not there yet (section 7.9).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.8 Basins near the origin *(optional)*
#
# From how wide a set of directions is a choice reached? A first answer needs no training: within some angle
# $\theta$ of $p_{\mathrm{mm}}$ the chosen tokens are ahead. The comparison $a = k_{i\alpha_i} - k_{it}$
# allows the angle between $\hat p$ and the plane $p \cdot a = 0$, and the narrowest one decides:
#
# $$\theta(\alpha) = \min_{i,\, t \ne \alpha_i}\ \arcsin
# \frac{\hat p \cdot (k_{i\alpha_i} - k_{it})}{\|k_{i\alpha_i} - k_{it}\|} .$$


# %%
def cone(keys, selected, p_mm):
    """Angles theta in degrees, (runs,), for keys (runs, n, T, d), selected (runs, n) and p_mm (runs, d)."""
    own = torch.take_along_dim(keys, selected[..., None, None], dim=-2)
    sines = torch.cosine_similarity(own - keys, p_mm[:, None, None], dim=-1)
    sines = sines.scatter(-1, selected[..., None], 1.0)  # not the selected token's comparison with itself
    return sines.amin(dim=(-2, -1)).arcsin().rad2deg()


# %% [markdown]
# The basin is wider, and near the origin its edges bend. We descend from 16 lengths and 61 angles on both
# sides of each of the hexagon's three rays, and note whether the token holds.

# %%
angles = torch.linspace(-90, 90, 61, dtype=torch.float64)
first_lead = torch.logspace(0, 3, 16, dtype=torch.float64)
cells = torch.cartesian_prod(torch.tensor([0.0, 2, 4]).double(), first_lead, angles)  # (2928, 3)
token, lead, turn = cells[:, 0].long(), cells[:, 1], cells[:, 2].deg2rad()
towards = rays[token] / rays[token].norm(dim=-1, keepdim=True)
across = torch.stack([-towards[:, 1], towards[:, 0]], dim=1)  # a quarter turn to the left
begin = turn.cos()[:, None] * towards + turn.sin()[:, None] * across
scaled = (lead * rays[token].norm(dim=-1))[:, None, None, None] * tokens.keys
everywhere = tokens.scores.expand(len(cells), 1, 7)
holds = hold(begin, scaled, everywhere, token[:, None])
holds = holds.reshape(3, len(first_lead), -1)
winning = torch.tensor([0, 2, 4])
thetas = cone(tokens.keys.expand(3, 1, 7, 2), winning[:, None], rays[winning]).tolist()
borders = []  # of each basin, as angles to the ray
for t, here, theta in zip(winning.tolist(), holds, thetas, strict=True):
    ray = rays[t].numpy() / rays[t].norm().item()
    border = edges(hexagon[:6], gamma[:6], t)
    borders.append(np.sort(np.degrees(np.arctan2(border @ [-ray[1], ray[0]], border @ ray))))
    reaches = "from {:.1f} to {:.1f}".format(*borders[-1])
    print(f"token {t + 1}: ahead within {theta:.1f} degrees; basin far out {reaches}")
    between = (angles.numpy() > borders[-1][0]) & (angles.numpy() < borders[-1][1])
    assert np.array_equal(here[-1], between), again.format("07.3")
    assert np.ptp(borders[-1]) > 2 * 2 * theta, again.format("07.3")
    assert here[:, len(angles) // 2].all()  # on the ray itself
assert abs(np.ptp(borders, axis=1).sum() - 360) < 1e-6, again.format("07.3")

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10.5, 3.7), sharey=True)
for ax, t, here, theta, border in zip(axes, (0, 2, 4), holds, thetas, borders, strict=True):
    shade = ListedColormap(["white", PALETTE[t]])
    ax.pcolormesh(first_lead, angles, here.T, cmap=shade, vmin=0, vmax=1, alpha=0.7, rasterized=True)
    for side, edge in zip((-theta, theta), border, strict=True):
        ax.axhline(side, color=BLACK, linestyle="--", linewidth=1.5)
        ax.axhline(edge, color=BLACK, linewidth=1.5)
    ax.text(40, theta + 3, rf"$\theta$ = {theta:.0f}°", ha="center", fontsize=11)
    ax.text(40, border[1] + 4, f"predicted {border[1]:.0f}°", ha="center", fontsize=11)
    ax.text(40, border[0] - 4, f"predicted {border[0]:.0f}°", ha="center", va="top", fontsize=11)
    ax.set(xscale="log", xlabel=r"lead $\Delta_0$ of the start on the ray", title=f"token {t + 1}")
axes[0].set(ylabel="angle of the start to the ray", yticks=[-90, -45, 0, 45, 90])
show(
    fig,
    alt="For tokens 1, 3 and 5, the starts that hold, by length and by angle to the ray. Far out each "
    "coloured band reaches exactly to the solid predicted lines, more than twice as wide as the dashed ones.",
)

# %% [markdown]
# **Figure 4.** Starts that hold token 1, 3 or 5 (coloured), by angle to the Att-SVM direction (positive:
# turned to the left) and by the lead $\Delta_0$ that a start of this length has on the ray. Solid: the edges
# of exercise 07.3. Dashed: the cone in which the token is ahead, $\pm\theta$.

# %% [markdown]
# Each basin is more than twice as wide as the cone in which its token is ahead, and the three share out all
# 360 degrees. Near the origin the edges bend.

# %% [markdown]
# **Try it.** The map of Figure 1, from near and from afar, with the predicted edges. First predict: how do
# the three regions change, seen from afar, as the score of token 2 rises from 0.3 to 0.75? To 0.9? To 1.2?
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


coarse = np.linspace(-1, 1, 25)
coarse_starts = np.stack(np.meshgrid(coarse, coarse), axis=-1)


def basin_map(two, reach):
    """The token that is selected in the end, (25, 25), from a square of this half width."""
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
ours = descend(starts[::37].numpy(), hexagon, gamma, steps=60)  # the widget's descent is the library's
library = train_from(starts[::37], tokens, steps=60, schedule=train.growing)
assert np.allclose(ours, library.p.detach(), atol=1e-8)
afar = {two: basin_map(two, 100.0) for two in (0.3, 0.75, 0.9, 1.2)}  # what Try it says
for two, seen in afar.items():
    print(f"score of token 2 {two:4}: selected", *(np.unique(seen) + 1))
    assert set(seen.flat) == set(local_corners(two)[0])
    assert ((seen == 4) == (afar[0.3] == 4)).all()  # the region of token 5 stays as it is
assert (afar[0.75] != afar[0.3]).sum() <= 3  # of 625, next to the origin
assert (basin_map(0.75, 2.0) != basin_map(0.3, 2.0)).sum() > 100

# %% [markdown]
# ## 7.9 Every run accounted for *(optional)*
#
# **Lost local winners.** Section 7.4 once more, with five more draws of its 240 problems.

# %%
total, close, later, far_lost = (
    np.zeros((2, 2), dtype=int),
    [],
    [],
    [[part[winner & ~from_afar] for part in runs]],
)
for seed in range(1, 6):
    drawing = data.random_tokens(n=2, T=4, d=3, trials=240, seed=seed)
    seen = enumerate_choices(drawing)
    of = as_runs(drawing, seen, seen["feasible"])
    wins, stays = seen["locally optimal"][seen["feasible"]].numpy(), hold_on_ray(1000, *of)
    total += [[wins.sum(), (wins & stays).sum()], [(~wins).sum(), (~wins & stays).sum()]]
    far_lost.append([part[wins & ~stays] for part in of])
    for k in np.flatnonzero(stays & ~wins):
        one, logits = [part[k : k + 1] for part in of], seen["logits"][seen["feasible"]][k]
        close.append(geometry.locally_optimal(one[1][0], logits, one[2][0], tol=1e-6).item())
        later.append(close[-1] or hold_on_ray(1000, *one, steps=15_000).item())
print("five more draws, from lead 1000: {1} of {0} local winners hold,".format(*total[0]), end=" ")
print("{1} of {0} others".format(*total[1]))
print(f"of these {sum(close)} is a local winner if slacks count from 1e-6 on,", end=" ")
print(f"{later.count(False)} is lost within 15,000 steps")
assert (total.tolist(), close, later) == ([[2718, 2679], [12973, 2]], [False, True], [False, True])


# %%
def slacks(keys, scores, selected, p_mm):
    """Slack of every better token at p_mm, inf for the others: (runs, n, T)."""
    lead_of = geometry.margins((keys @ p_mm[:, None, :, None])[..., 0], selected)
    return torch.where(scores > scores.gather(-1, selected[..., None]), lead_of - 1, torch.inf)


far = [torch.cat(parts) for parts in zip(*far_lost, strict=True)]
tight = (slacks(*far).amin(dim=(1, 2)) < 0.01).numpy()  # nearly
narrow = cone(far[0], far[2], far[3]).numpy() < 0.57
short, farther = (hold_on_ray(lead, *far, lr=0.0001, steps=50_000) for lead in (1000, 100_000))
print(f"lost from lead 1000, six draws: {len(tight)}; theta below 0.57 degrees in {narrow.sum()}")
print(f"hold in steps of 0.0001: {short.sum()}; of the {tight.sum()} with a slack below 0.01: ", end="")
print(f"{short[tight].sum()}, and from lead 100,000 {farther[tight].sum()}")
assert (len(tight), narrow.sum(), short.sum()) == (43, 33, 36)
assert np.array_equal(short, ~tight)
assert (short[narrow].all(), farther[tight].all()) == (True, True)

# %% [markdown]
# Of 2,718 more local winners 2,679 hold, and two of 12,973 other choices: one has a better token so nearly
# tight that our count took it for a support token, the other loses its tokens within 15,000 steps.
#
# The 43 lost winners of all six draws have two causes. **Long steps:** one of 0.01 can turn a $p$ of
# length 1 by 0.57 degrees, and in 33 the cone of section 7.8 is narrower. In steps a hundred times shorter
# these hold, and three with wider cones. **Slack:** the last seven have a better token with a slack below
# 0.01, for which lead 1000 is not far: from lead 100,000 they hold, in the same short steps.
#
# **Why so often global?** We give the 1,000 runs of section 7.7 other starts: the origin, and the same starts
# made 1,000 times as long.

# %%
print(f"where the global choice is possible, runs that reach it   d = {'    '.join(map(str, dimensions))}")
starts_of = {d: drawn(d)[1] for d in dimensions}
for name, times, lr in (("from the origin", 0, 0.3), ("from far out, of those at a winner", 1000, 30)):
    shares = []
    for d, row in table.items():
        p = train_from(times * starts_of[d], row["tokens"], 500, lr).p.detach()
        chosen = torch.einsum("rntd,rd->rnt", row["tokens"].keys, p).argmax(dim=-1)
        same = (row["seen"]["alpha"] == chosen[:, None]).all(dim=-1)[row["possible"]]
        best, local = (
            (same & row["seen"][kind][row["possible"]]).sum() for kind in ("global", "locally optimal")
        )
        shares.append(float(best / (local if times else len(same))))
    print(f"{name:57s}", *(f"{share:.2f}" for share in shares))
    above = np.subtract(shares, alike)
    assert above.min() > 0.1 if times == 0 else np.abs(above).max() < 0.1
print(f"{'were every winner as likely':57s}", *(f"{share:.2f}" for share in alike))

# %% [markdown]
# **The start makes the difference.** Near the origin all tokens have attention, and the force weighs all
# their scores. Far out only the tokens that are ahead, or nearly, count: there the share is
# within 0.1 of equal chances.
#
# **Where the runs of section 7.7 ended.** We train all with 3,000 growing steps more, and the ten that were
# not there yet with ten times as many steps.

# %%
cosines, changed, words = [], 0, []
for row in table.values():
    end, at = (
        train_from(row["p"], row["tokens"], 3000, schedule=train.growing),
        row["global"] | row["other winner"],
    )
    selected = geometry.selected_tokens(end.attention(row["tokens"]))  # (200, n)
    chosen = (row["seen"]["alpha"] == selected[:, None]).all(dim=-1)  # (200, 64)
    cosines.append(geometry.cosine(end.p.detach(), row["seen"]["p_mm"][chosen])[at])
    before = models.PromptAttention(row["p"].shape[-1], 200, init=row["p"]).attention(row["tokens"])
    changed += int(((selected != geometry.selected_tokens(before)).any(dim=1) & at).sum())
    words.extend(geometry.outcome(before, row["tokens"])[row["finite minimum"].numpy()])
print(f"runs at a winner, 3,000 growing steps later: {changed} have changed their choice, ", end="")
print(f"all cosines with an Att-SVM above 0.99: {bool(torch.cat(cosines).min() > 0.99)}")
print(f"finite minima: geometry.outcome calls {words.count('undecided')} of {len(words)} undecided")
assert (changed, words.count("undecided"), len(words)) == (3, 57, 66)
assert torch.cat(cosines).min() > 0.99

later = dict.fromkeys(classes, 0)
for row in table.values():
    if (slow := row["not yet"]).any():
        few = with_scores(row["tokens"].keys[slow], row["tokens"].scores[slow])
        end = train_from(row["p"][slow], few, 13_500).p.detach()
        then = classify(end, few.keys, few.scores, {name: part[slow] for name, part in row["seen"].items()})
        later = {name: later[name] + int(then[name].sum()) for name in classes}
print("those not there yet, after ten times as many steps:", later)
assert list(later.values()) == [4, 1, 3, 2]

# %% [markdown]
# **At a winner**: the cosine of each with an Att-SVM direction is above 0.99. (Three of 924 have moved on to
# another choice: a selection is not always the last.) **Finite minima**: `geometry.outcome`, which later
# lessons use, calls a run *undecided* if some sequence gives no token more than 0.99, and 57 of the 66 are.
# **Not yet**: four of the ten have reached the global choice, one another winner, three a finite minimum; two
# are still on their way.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7.10 Where it breaks *(optional)*
#
# **Late selection.** A choice that is *not* locally optimal can look stable for as long as you like. Keys
# $(0, 0)$, $(-1, 0)$, $(-1, -1)$ with scores $0.5, 0, 1$, and token 1 selected: its comparisons are $a_2 =
# (1, 0)$ with the worse token 2 and $a_3 = (1, 1)$ with the better token 3. Both are tight at
# $p_{\mathrm{mm}} = (1, 0)$, but $p_{\mathrm{mm}} = a_2$ does not need $a_3$: its weight is 0. (These keys
# are not in general position.)
#
# Start at $p = (5, \tau)$ with $\tau > 0$. The force of token 3 is weaker by the factor $e^{-\tau}$ at first.
# Far out, to leading order, dividing the two components of the gradient gives
#
# $$\frac{dp_2}{dp_1} \approx - \frac{e^{-p_2}}{1 - e^{-p_2}}, \qquad\text{so}\qquad
# e^{p_2} - p_2 + p_1 \approx \text{const} :$$
#
# $p_1$ grows until $p_2 = 0$, which happens at $p_1 \approx 5 + e^{\tau} - \tau - 1$, and turns back only
# then. The choice holds along a path whose length is exponential in $\tau$. This is why selected tokens are
# read at the end, and why even that can be too soon.

# %%
late = with_scores(np.array([[[0, 0], [-1, 0], [-1, -1]]]), np.array([[0.5, 0, 1]]))
tau = torch.tensor([2.0, 3, 4]).double()
history = train.fit(
    model := models.PromptAttention(d=2, trials=3, init=torch.stack([torch.full_like(tau, 5), tau], dim=1)),
    late,
    optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1),
    steps=1000,
    record={"p": lambda m: m.p, "chosen": lambda m: geometry.selected_tokens(m.attention(late))[:, 0]},
    every=2,
    progress=False,
)
until = 2 * (history["chosen"] != 0).double().argmax(dim=0)  # the step
turned, predicted = history["p"][..., 0].amax(dim=0), 5 + tau.exp() - tau - 1
print("tau   p_1 turns at   predicted   token 1 selected until step")
for row in zip(tau, turned, predicted, until, strict=True):
    print("{:3.0f} {:14.1f} {:11.1f} {:20.0f}".format(*row))
assert (turned - predicted).abs().max() < 0.4

# %% [markdown]
# **A better support token that does no harm.** Keys $(0, 0)$, $(-1, -1)$, $(-1, 1)$, $(-1, 0)$ with scores
# $0.5, 0, 0, \gamma_4$. At $p_{\mathrm{mm}} = (1, 0)$ all three comparisons of token 1 are tight: $(1, 1)$,
# $(1, -1)$, $(1, 0)$. Across the ray only tokens 2 and 3 push, and they balance on it. Forward the forces add
# up to $0.5 + 0.5 + (0.5 - \gamma_4)$, in units of $e^{-p_1}$. So token 1 should hold for $\gamma_4 < 1.5$,
# three times its own score: two worse tokens carry the weight that token 4 takes away.

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
# **1.** One sequence, keys in the plane. How many tokens at most can be locally optimal if $m$ keys are
# corners of the convex hull, no two of them with equal scores, and each corner has its two neighbours as
# support tokens?
# <details><summary>Answer</summary>
#
# $\lfloor m/2 \rfloor$: two neighbours cannot both beat each other. The hexagon has three.
# </details>
#
# **2.** You start near the ray of a choice that is not locally optimal and see no change for 1,000 steps of
# length 0.1. Name two explanations.
# <details><summary>Answer</summary>
#
# The start was so far out that 100 units of path are too short to come back. Or the keys are not in general
# position, and the better support token has no weight in the SVM: then selection can be exponentially late in
# the distance from the ray (section 7.10).
# </details>

# %%
progress("07")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Of $T^n$ choices few are **local winners**: better than all their support tokens. Started
#   from lead 1000, 523 of 527 local winners held, and none of 2,592 other choices.
# - In the limit only support tokens push. Where a choice holds, the forces end in the proportion of the SVM's
#   weights. These are positive for keys in general position, so one better support token undoes a choice.
# - Far out, **basins** end where the two neighbours of a token worse than both tie (in the plane, at obtuse
#   corners). **How far is far** depends on better tokens that are nearly tight: the lead must exceed a
#   logarithm over the slack.
# - From random starts near the origin 924 of 1,000 runs reached a local winner. Where the global choice was
#   possible, 66 to 95 percent reached it.
# - All this was measured on small random problems. It does not cover runs that end at a finite minimum, nor
#   keys that are not in general position.
#
# ## Further reading
#
# D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
# 2023, arXiv 2306.13596): local optimality, the cones, and the global case. D. A. Tarzanagh, Y. Li, C.
# Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv 2308.16898): the same for
# $W$, and large dimension.
#
# **New in the library:** [`geometry.margins`](../mini_attn/geometry.py),
# [`geometry.support_tokens`](../mini_attn/geometry.py), [`geometry.outcome`](../mini_attn/geometry.py).
#
# **Next:** [lesson 08](08_regularization_path.ipynb), regularisation paths. Training can end at a local
# winner; the best $p$ of a given length cannot.
