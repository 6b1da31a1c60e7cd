# %% [markdown] slideshow={"slide_type": "slide"}
# # 06 · Attention is an SVM over tokens
#
# In lesson 05 a vector $p$ compared itself with the tokens of a sequence, and softmax turned the comparison
# into attention. Now train $p$ by gradient descent, and do not stop.
#
# **The question: which token does the attention end up looking at, and in which direction does $p$ run off?**
#
# Lesson 01 asked the same of a linear classifier. Its answer, the hard-margin SVM, comes back here with
# tokens in the place of points, and with a twist: now there is more than one place to go.

# %% [markdown]
# **After this lesson you can**
#
# - write down the SVM whose solution tells, before any training, where $p$ can go;
# - explain why gradient descent solves it, one force at a time;
# - say how fast $\|p\|$ grows and how fast its direction settles;
# - decide from the data whether attention can stay with a given token;
# - name three situations in which the prediction fails, and recognise each by what it does.
#
# **You need** lessons 01 (margin, direction, $\log t$), 02 (hard-margin SVM, nonnegative least squares) and
# 05 (softmax attention and its gradient). Reckon with 80 minutes; five exercises and a written question are
# in the text.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy.optimize import nnls

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.softmax import textbook_softmax

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=4, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. The idea in a picture
#
# One sequence has $T$ tokens. Two things matter about token $t$: its **key** $k_t \in \mathbb{R}^d$, which
# $p$ is compared with, and its **score** $\gamma_t = y\, v \cdot x_t$, the value $y f$ of the prediction when
# all attention is on token $t$ ($x_t$ is its value, $v$ the fixed prediction head, $y = \pm 1$ the label). We
# minimise
#
# $$L(p) = \ell\Big(\sum_t s_t\, \gamma_t\Big), \qquad s = \mathrm{softmax}(h), \qquad h_t = k_t \cdot p,
# \qquad \ell(u) = \log(1 + e^{-u}).$$
#
# (Lesson 05 called the winner $a$ and worked with values $g_t = v \cdot x_t$; with $y = 1$, as in the toy,
# scores and values are the same. As there, $t$ counts tokens; steps are counted by $j$.) The toy has three
# tokens in the plane. We give them two sets of scores that differ in the third token alone, and start from
# six points. Scores and starts are those of Tarzanagh and others (2023), the paper this lesson follows.

# %%
keys = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])  # (T, d)
equal = np.array([1.0, 0.9, 0.9])  # (T,) the two lower scores are equal
spread = np.array([1.0, 0.9, 0.0])  # (T,) the third token is much worse
starts = np.array([[0, 1], [0, 0.5], [0, 0], [0, -0.5], [0, -1], [0, -1.5]])  # (6, d)


def attention(p, keys):
    """softmax(K p) for any number of starts at once: p (..., d), keys (T, d) -> (..., T)."""
    h = p @ keys.T
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gradient(p, keys, scores):
    """The gradient of L in p, (..., d), with lesson 05's cure: scores are measured from the winner's."""
    s = attention(p, keys)
    gap = scores - scores[s.argmax(axis=-1)][..., None]
    u = s * (gap - (s * gap).sum(axis=-1, keepdims=True))  # derivative of sum_t s_t gamma_t in the logits
    slope = 1 / (1 + np.exp((s * scores).sum(axis=-1, keepdims=True)))  # -l'
    return -slope * (u @ keys)


def descend(p, keys, scores, steps, lr=0.1, normalise=True):
    """Gradient descent on p, by default with steps of length lr: returns the path (steps + 1, ..., d)."""
    path = [np.asarray(p, dtype=float)]
    for _ in range(steps):
        g = gradient(path[-1], keys, scores)
        if normalise:
            g = g / np.linalg.norm(g, axis=-1, keepdims=True)
        path.append(path[-1] - lr * g)
    return np.array(path)


# %% [markdown]
# **Predict before you run on.** The first token has the best score in both sets. Will all six starts find it?


# %%
def draw_rays(ax, rays, style="--"):
    """Rays from the origin, beyond the picture."""
    for ray in rays:
        end = 100 * ray / np.linalg.norm(ray)
        ax.plot([0, end[0]], [0, end[1]], style, color=BLACK, linewidth=1.5, zorder=1)


def draw_paths(ax, path, keys, window):
    """Paths (steps + 1, starts, 2) in the p-plane, coloured by the token that wins in the end."""
    winner = attention(path[-1], keys).argmax(axis=-1)
    for token, line in zip(winner, path.transpose(1, 2, 0), strict=True):
        ax.plot(*line, color=(BLUE, ORANGE, GREEN)[token], zorder=2)
        ax.plot(*line[:, 0], "o", color=BLACK, markersize=4, zorder=3)
    ax.set(xlim=window[:2], ylim=window[2:], xlabel="$p_1$", ylabel="$p_2$", aspect="equal")


rays = np.array([[-0.1, 1.0], [1.0, 0.0]])  # section 3 says where these come from
winners = []
fig, axes = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True)
for ax, scores in zip(axes, (equal, spread), strict=True):
    path = descend(starts, keys, scores, steps=300)
    winners.append(attention(path[-1], keys).argmax(axis=-1) + 1)
    print("scores", scores, "winners", winners[-1])
    draw_rays(ax, rays)
    draw_paths(ax, path, keys, window=(-6, 14, -4, 16))
    ax.text(0.3, 14.5, "ray 1")
    ax.text(11.5, 1.2, "ray 2")
    ax.set_title(f"scores {scores[0]:g}, {scores[1]:g}, {scores[2]:g}")
    ax.set_yticks([0, 5, 10, 15])
show(
    fig,
    alt="Two p-planes with six paths each, starting at p1 = 0 between p2 = -1.5 and 1. Left, scores 1, "
    ".9, .9: all six paths turn upwards into the direction of dashed ray 1. Right, scores 1, .9, 0: the four "
    "upper starts go up along ray 1, the two lower ones go right along ray 2.",
)

# %% [markdown]
# **Figure 1.** The first 300 steps of length 0.1 from six starts (dots), as far as the window shows. Blue
# paths end with their attention on token 1, orange ones on token 2. Dashed: two rays from the origin that we
# computed without training anything. What tends to a ray is the direction of $p$, not its position: paths
# become parallel to a ray, they need not touch it.

# %% [markdown]
# Three facts ask for an explanation.
#
# 1. On the left every start finds the best token.
# 2. On the right two of six settle for the second best and never come back, although the only change made a
#    *third* token worse.
# 3. Each path, wherever it goes, turns into the direction of one of two dashed rays.

# %%
assert np.array_equal(winners, [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 2, 2]])

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Forces between tokens
#
# Where does a gradient step push $p$, and how hard? Lesson 05's gradient $u_t = s_t \sum_\tau s_\tau
# (\gamma_t - \gamma_\tau)$ in the logits, collected by pairs of tokens, gives
#
# $$-\nabla L(p) = |\ell'| \sum_{t < \tau} s_t\, s_\tau\, (\gamma_t - \gamma_\tau)\, (k_t - k_\tau).$$
#
# Each pair exerts a force along the line between its two keys, towards the one with the higher score, in
# proportion to the attention that both still get. A pair with equal scores exerts none.
#
# Suppose token $\alpha$ is winning: $s_\alpha \to 1$. Pairs without $\alpha$ have two small factors and drop
# out first. What remains are the $T - 1$ pairs $(\alpha, t)$, and their strength is
#
# $$c_t = s_\alpha s_t (\gamma_\alpha - \gamma_t)
# \;\approx\; (\gamma_\alpha - \gamma_t)\, e^{-p \cdot (k_\alpha - k_t)} .$$
#
# Now $\sum_t c_t (k_\alpha - k_t)$ is a gradient that we know from lesson 01: that of the exponential loss of
# a *linear classifier* $p$ whose data points are the **comparisons** $a_t = k_\alpha - k_t$, all with label
# $+1$, counted with weights $\gamma_\alpha - \gamma_t$. We also know where it leads. As long as the weights
# are positive they do not matter, the norm diverges, and the direction tends to the hard-margin SVM of the
# points $a_t$. (Negative weights: section 5.)

# %% [markdown]
# ### Exercise 06.1: The comparisons
#
# ★☆☆ · 6 minutes
#
# Build the data points of this hidden classifier. There are $n$ sequences, all compared with the same $p$; in
# sequence $i$ the token $\alpha_i$ is `selected[i]`. The rows are $k_{i\alpha_i} - k_{it}$ for all $t \neq
# \alpha_i$, ordered by $i$, then by $t$.
#
# <details><summary>Hint</summary>
#
# Two loops, over the sequences and, inside, over their tokens, that skip $t = \alpha_i$. Collect the
# differences in a list and return `np.array(list)`.
# </details>


# %%
@exercise("06.1")
def comparisons(keys, selected):
    """Return the rows k_alpha - k_t, (n (T - 1), d), for keys (n, T, d) and token numbers selected (n,)."""
    ### BEGIN SOLUTION
    n, T, _ = keys.shape
    return np.array(
        [keys[i, selected[i]] - keys[i, t] for i in range(n) for t in range(T) if t != selected[i]]
    )
    ### END SOLUTION


# %%
check("06.1", comparisons)

# %% [markdown]
# ### Exercise 06.2: How hard each comparison pushes
#
# ★☆☆ · 6 minutes
#
# For one sequence and a token $\alpha$ (`selected`), return the exact strengths $c_t = s_\alpha s_t
# (\gamma_\alpha - \gamma_t)$ of all $T$ tokens. Entry $\alpha$ is then automatically 0.
#
# <details><summary>Hint</summary>
#
# The function `attention(p, keys)` above gives $s$. The rest is one line without a loop.
# </details>


# %%
@exercise("06.2")
def pushes(p, keys, scores, selected):
    """Return c_t for each token, (T,), for p (d,), keys (T, d), scores (T,) and a token number selected."""
    ### BEGIN SOLUTION
    s = attention(p, keys)
    return s[selected] * s * (scores[selected] - scores)
    ### END SOLUTION


# %%
check("06.2", pushes)

# %% [markdown]
# Follow the lowest orange path of Figure 1, where token 2 wins. The forces $c_t$, at four moments:

# %%
path = descend(starts[-1], keys, spread, steps=300)
print("step   c_1      c_3     cosine with the full gradient")
for step in (0, 50, 100, 300):
    p = path[step]
    c = pushes(p, keys, spread, 1)
    late = c @ (keys[1] - keys)  # the pairs (alpha, t) alone
    full = -gradient(p, keys, spread)
    alike = late @ full / np.linalg.norm(late) / np.linalg.norm(full)
    print(f"{step:4d} {c[0]:+.0e}  {c[2]:+.0e}  {alike:.6f}")
    if step == 0:
        at_first = c[2] / -c[0]
again = "exercise {} is not right yet: see what its check says"
assert alike > 0.999999, again.format("06.2")
assert 30 < at_first < 50 < 400 < c[2] / -c[0], again.format("06.2")

# %% [markdown]
# Token 3 is worse than token 2, so it pushes $p$ along $k_2 - k_3$ and strengthens token 2. Token 1 is
# better, so its strength is negative: it pulls $p$ away. At the start its pull is more than 30 times weaker
# than the push of token 3; at step 300, more than 400 times. Token 1 loses this tug of war although it is the
# better token, because it falls *further behind*: its exponential $e^{-p \cdot a_t}$ dies faster. Section 5
# makes this a criterion. The last column confirms that the pairs without $\alpha$ soon do not matter.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. The SVM over tokens
#
# With $n$ sequences we minimise the mean loss
#
# $$L(p) = \frac1n \sum_{i=1}^n \ell\Big(\sum_t s_{it}\, \gamma_{it}\Big), \qquad
# s_i = \mathrm{softmax}(h_i), \qquad h_{it} = k_{it} \cdot p .$$
#
# Choose one token $\alpha_i$ in each. The argument above predicts the direction of
#
# > **Att-SVM**
# >
# > $$p_{\mathrm{mm}}(\alpha) = \arg\min_p \|p\| \quad \text{subject to} \quad
# > p \cdot (k_{i\alpha_i} - k_{it}) \ge 1 \quad \text{for every } i \text{ and every } t \neq \alpha_i .$$
#
# It separates the selected tokens from all others with the largest margin, $1/\|p_{\mathrm{mm}}\|$ (mm stands
# for max-margin). If no $p$ satisfies the constraints, the choice $\alpha$ is *infeasible*. Labels are gone;
# the keys are compared within each sequence only. Lesson 02 solved such problems by nonnegative least
# squares.


# %%
def att_svm(keys, selected):
    """p_mm (d,) for keys (n, T, d) and token numbers selected (n,), as in lesson 02."""
    A = np.asarray(comparisons(keys, selected))
    # distance from (0, ..., 0, 1) to the cone of the columns (a_t, 1): lesson 02
    lam, distance = nnls(np.vstack([A.T, np.ones(len(A))]), np.r_[np.zeros(A.shape[1]), 1.0])
    if distance < 1e-9:
        raise ValueError("infeasible: no p prefers the selected tokens to all others")
    return A.T @ lam / (1 - lam.sum())


for token in (0, 1):
    p_mm = att_svm(keys[None], np.array([token]))
    library = svm.solve(svm.token_problem(torch.tensor(keys[None]), torch.tensor([token])))
    print(f"token {token + 1}: p_mm = {p_mm}, half its squared norm {p_mm @ p_mm / 2:.5f}")
    assert np.allclose(p_mm, library.value, atol=1e-9), again.format("06.1")
    assert library.gap < 1e-9  # the certificate of lesson 02
global_p, local_p = att_svm(keys[None], np.array([0])), att_svm(keys[None], np.array([1]))
assert round(global_p @ global_p / 2, 5) == 0.49505
assert round(local_p @ local_p / 2, 5) == 0.5

# %% [markdown]
# The paper's code prints the same two objectives, 0.49505 and 0.50000. These are the dashed rays of Figure 1:
# fact 3 is explained. Training never saw an SVM, and the SVM never saw a score: scores decide *which*
# $\alpha$, keys decide *the direction*.
#
# Now the measurement: the cosine between $p$ after 1,000 steps and the $p_{\mathrm{mm}}$ of the token that
# won, from each of the six starts.

# %%
for scores in (equal, spread):
    last = descend(starts, keys, scores, steps=1000)[-1]
    targets = [(global_p, local_p)[token] for token in attention(last, keys).argmax(axis=-1)]
    cosines = geometry.cosine(torch.tensor(last), torch.tensor(np.array(targets)))
    print("scores", scores, "smallest of the six cosines", f"{cosines.min():.4f}")
    assert cosines.min() > 0.9995

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. One path, two clocks
#
# How fast? Near the end, plain gradient descent feels a force of size $e^{-m}$, where
# $m = \min_t p \cdot a_t$ is the smallest margin. As in lesson 01, $m$ then grows at the rate $e^{-m}$, which
# gives $m \approx \log j$ after $j$ steps, and since $p \approx m\, p_{\mathrm{mm}}$,
#
# $$\|p_j\| \approx \|p_{\mathrm{mm}}\| \log j \quad \text{(plain)}, \qquad
# \|p_j\| \approx \eta\, j \quad \text{(normalised steps of length } \eta).$$
#
# Along the way $p = m\, p_{\mathrm{mm}} + r$ with a remainder $r$ that stays bounded (we do not prove it;
# Figure 2 shows the slope), so the angle to the ray shrinks like $1/\|p\|$, whatever the clock.

# %%
steps = 20_000
plain = descend(np.zeros(2), keys, equal, steps, lr=10, normalise=False)[1:]
fixed = descend(np.zeros(2), keys, equal, 1000, lr=0.1)[1:]
length = np.linalg.norm(global_p)


def norm_and_angle(path):
    """Norm, and angle to the ray of token 1 in degrees."""
    norm = np.linalg.norm(path, axis=-1)
    return norm, np.degrees(np.arccos(path @ global_p / norm / length))


norm, angle = norm_and_angle(fixed)
norm_plain, angle_plain = norm_and_angle(plain)
fig, (clock, course) = plt.subplots(1, 2, figsize=(9.5, 3.8))
for path, color, marker, name in ((plain, BLUE, "o", "plain"), (fixed, ORANGE, "s", "normalised")):
    at = np.unique(np.geomspace(1, len(path), 25).astype(int))
    style = {"marker": marker, "markersize": 5, "linestyle": "", "color": color, "label": name}
    clock.semilogx(at, norm_and_angle(path[at - 1])[0], **style)
    course.loglog(*norm_and_angle(path[at - 1]), **style)
j = np.geomspace(1, steps)
clock.plot(j, norm_plain[-1] + length * np.log(j / steps), "--", color=BLUE, linewidth=1.5)
clock.plot(j, 0.1 * j, "--", color=ORANGE, linewidth=1.5)
course.plot(
    norm[100:], angle[-1] * norm[-1] / norm[100:], "--", color=BLACK, linewidth=1.5, label=r"slope $-1$"
)
clock.set(xlabel="step $j$", ylabel=r"$\|p_j\|$", ylim=(0, 13))
course.set(xlabel=r"$\|p\|$", ylabel="angle to ray 1 (degrees)")
course.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
course.minorticks_off()
clock.legend()
course.legend()
show(
    fig,
    alt="Left: norm of p against step, logarithmic step axis; plain descent ends on a straight dashed line "
    "and reaches 8.8 after 20,000 steps, normalised descent leaves the picture after 130. Right: angle to "
    "the ray against the norm; both methods lie on one falling curve, in the end a line of slope minus one.",
)
print(f"plain: norm {norm_plain[-1]:.2f}, angle {angle_plain[-1]:.0f} degrees after {steps} steps")
print(f"normalised: norm {norm[-1]:.1f}, angle {angle[-1]:.1f} degrees after 1000 steps")
slope = (norm_plain[-1] - norm_plain[1999]) / np.log(steps / 2000)
assert 0.97 < slope / length < 1
assert round(length, 3) == 0.995
assert round(angle[-1], 1) == 1.3
between = np.interp(norm_plain[99:], norm, angle)  # angle of the normalised run at the same norm
assert np.abs(angle_plain[99:] / between - 1).max() < 0.03

# %% [markdown]
# **Figure 2.** Scores (1, .9, .9), start at 0, steps $\eta = 10$ (plain) and $0.1$ (normalised). Left: the
# norm; dashed, the predicted slope $\|p_{\mathrm{mm}}\| = 0.995$ per unit of $\log j$, and $\eta j$. Right:
# the angle to the ray of token 1 against the norm; dashed, slope $-1$.

# %% [markdown]
# On the left the slope is within 3% of the predicted one. On the right the two methods lie on one curve: from
# step 100 of the plain run on, their angles at equal norm agree within 3%. They follow nearly the same
# *path*, as in lesson 01, and only their clocks differ. So in this course we mostly train with normalised
# steps: same destination, and we can see it.

# %% [markdown]
# ### Exercise 06.3: How long until the norm is R?
#
# ★★☆ · 6 minutes
#
# Plain gradient descent has reached norm $R_0$ at step $j_0$, and from then on follows $\|p_j\| =
# \|p_{\mathrm{mm}}\| \log j + \text{const}$. At which step is the norm $R$? (`length` is
# $\|p_{\mathrm{mm}}\|$.)
#
# <details><summary>Hint</summary>
#
# Write the law down for $j_0$ and for $j$ and subtract: the constant goes.
# </details>


# %%
@exercise("06.3")
def steps_needed(R, R0, j0, length):
    """Return the step at which the norm is R; R0, j0, length as in the text, all numbers."""
    ### BEGIN SOLUTION
    return j0 * np.exp((R - R0) / length)
    ### END SOLUTION


# %%
check("06.3", steps_needed)

# %%
needed = steps_needed(100, norm_plain[-1], steps, length)
print(f"norm 100: plain, after about 10^{np.log10(needed):.0f} steps; ", end="")
print(f"normalised, after about {1000 + (100 - norm[-1]) / 0.1:.0f}")
assert 43 < np.log10(needed) < 45, again.format("06.3")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Which token wins?
#
# The SVM has a solution for token 1 and one for token 2; training chose. Section 2 has the reason ready: at
# late times only the comparisons with the *smallest* margin still push. Call them by name.
#
# - The **support tokens** of sequence $i$ are the $t \neq \alpha_i$ whose constraint is tight,
#   $p_{\mathrm{mm}} \cdot (k_{i\alpha_i} - k_{it}) = 1$. A sequence may have none.
# - A choice $\alpha$ is **locally optimal** if each $\alpha_i$ scores higher than every support token of its
#   sequence: $\gamma_{i\alpha_i} > \gamma_{it}$.
# - It is **globally optimal** if each $\alpha_i$ has the best score of its whole sequence.
#
# If a support token scores higher, its force is negative where it matters most, and $p$ is pulled off the
# ray. If it scores lower it pushes $p$ along the ray, and a better token further behind is forgotten,
# exponentially.

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix $v$, let $\ell$ be smooth
# > and strictly decreasing, and run gradient descent on $p$ with a small constant step.
# >
# > *Local.* Let $\alpha$ be locally optimal and its Att-SVM feasible. From every start that is close enough
# > to $p_{\mathrm{mm}}(\alpha)$ in direction and far enough from the origin, $\|p_j\| \to \infty$ and
# > $p_j/\|p_j\| \to p_{\mathrm{mm}}(\alpha)/\|p_{\mathrm{mm}}(\alpha)\|$.
# >
# > *Global.* If in each sequence all tokens but the best have equal scores, the same holds from **every**
# > start with the best tokens as $\alpha$, provided their Att-SVM is feasible.
#
# The global half takes one line. With equal lower scores only pairs with the best token exert a force, and
# every such force has a positive part along $p_{\mathrm{mm}}$:
#
# $$-\nabla L \cdot p_{\mathrm{mm}} = |\ell'|\, s_\alpha \sum_{t \neq \alpha} s_t\,
# (\gamma_\alpha - \gamma_t)\; p_{\mathrm{mm}} \cdot (k_\alpha - k_t) \;>\; 0 .$$
#
# So no point $p$ is stationary, and the way along $p_{\mathrm{mm}}$ only ever goes forward: fact 1 is
# explained. (This is for one sequence; for several, average. That the direction converges too takes the paper
# more work.)

# %% [markdown]
# ### Exercise 06.4: Who has to be beaten?
#
# ★★★ · 12 minutes
#
# Say for each sequence whether its selected token scores strictly higher than each of its support tokens,
# given the solution `p_mm`. Support tokens are those with $p_{\mathrm{mm}} \cdot (k_{i\alpha_i} - k_{it})$
# equal to 1 up to rounding. A sequence without support tokens passes. (The choice is locally optimal if all
# sequences pass.)
#
# <details><summary>Hint</summary>
#
# Margins first: `h = keys @ p_mm`, then the selected token's logit minus all logits, (n, T). For the support
# tokens there is `np.isclose(margins, 1, atol=1e-6)`. A sequence passes if no token is a support token and
# scores at least as high.
# </details>


# %%
@exercise("06.4")
def beats_support(keys, scores, selected, p_mm):
    """Return a bool per sequence, (n,), for keys (n, T, d), scores (n, T), selected (n,) and p_mm (d,)."""
    ### BEGIN SOLUTION
    i = np.arange(len(keys))
    h = keys @ p_mm  # (n, T)
    support = np.isclose(h[i, selected][:, None] - h, 1, atol=1e-6)
    at_least_as_good = scores >= scores[i, selected][:, None]
    return ~(support & at_least_as_good).any(axis=1)
    ### END SOLUTION


# %%
check("06.4", beats_support)

# %%
for scores in (equal, spread):
    for token, p_mm in ((0, global_p), (1, local_p)):
        margins = (keys[token] - keys) @ p_mm
        support = [t + 1 for t in range(3) if np.isclose(margins[t], 1)]
        kept = beats_support(keys[None], scores[None], np.array([token]), p_mm)[0]
        print(f"scores {scores}, token {token + 1}: support tokens {support}, ", end="")
        print("locally optimal" if kept else "not locally optimal")
        assert support == [3]
        assert bool(kept) == (token == 0 or scores is spread), again.format("06.4")

# %% [markdown]
# Fact 2 is explained. The only support token of token 2 is token 3. On the left it ties
# with token 2 and exerts no force, so token 1's weak pull is the only one left. Making token 3 worse gives
# token 2 something to beat.
#
# Where exactly is the border between the two destinations? That depends on the start. We compute it.

# %%
third_scores = (0.0, 0.8, 0.89)
grid = np.linspace(-4, 4, 41)
plane = np.stack(np.meshgrid(grid, grid), axis=-1)  # (41, 41, 2) starts
colors = ListedColormap([BLUE, ORANGE])
shares = []
fig, axes = plt.subplots(1, 3, figsize=(10, 3.7), sharey=True)
for ax, third in zip(axes, third_scores, strict=True):
    ends = descend(plane, keys, np.array([1, 0.9, third]), steps=600)[-1]
    second_wins = attention(ends, keys).argmax(axis=-1) == 1
    shares.append(second_wins.mean())
    ax.pcolormesh(grid, grid, second_wins, cmap=colors, vmin=0, vmax=1, alpha=0.75)
    draw_rays(ax, rays)
    ax.set(xlim=(-4, 4), ylim=(-4, 4), aspect="equal", xlabel="start $p_1$")
    ax.set_title(rf"$\gamma_3 = {third:g}$")
axes[0].set_ylabel("start $p_2$")
show(
    fig,
    alt="Three maps of starts in the square from -4 to 4. Blue starts end at token 1, orange at token 2. "
    "The orange region, at the lower right, covers a third of the square for a third score of 0, a seventh "
    "for 0.8 and nothing for 0.89.",
)
print("share of starts that end at token 2:", *(f"{share:.2f}" for share in shares))
far = descend(np.array([80.0, 0.0]), keys, np.array([1, 0.9, 0.89]), steps=600)[-1]
print("from (80, 0) with a third score of 0.89, token", attention(far, keys).argmax() + 1, "wins")
assert np.allclose(shares, (0.33, 0.15, 0.0), atol=0.005)
assert attention(far, keys).argmax() == 1
border = descend(np.array([[0, -0.8], [0, -0.9]]), keys, spread, steps=400)[-1]
assert list(attention(border, keys).argmax(axis=-1)) == [0, 1]

# %% [markdown]
# **Figure 3.** Where normalised descent ends, start by start: at token 1 (blue) or token 2 (orange), for
# three scores of token 3. Dashed: the two Att-SVM directions. In the third panel token 2 has a cone too, but
# it begins beyond the window.

# %% [markdown]
# As $\gamma_3$ rises to $\gamma_2 = 0.9$, token 2's hold weakens: a third of the square, then 15%, then none
# of it. At 0.89 token 2 is still locally optimal, and the theorem still gives it a cone, but one that begins
# "far enough from the origin": a start at $(80, 0)$ stays. At 0.9 the cone is gone.
#
# **Try it.** Move the start and the third token's score, and predict the colour before you let go. With the
# start at $p_1 = 0$ and score 0, which $p_2$ is the last to reach token 1?
#
# <details><summary>Answer</summary>
#
# $-0.8$ on the slider; from $-0.9$ token 2 wins.
# </details>


# %% tags=["nbval-ignore-output", "widget"]
def one_path(p1, p2, third):
    path = descend(np.array([[p1, p2]]), keys, np.array([1, 0.9, third]), steps=400)
    s = attention(path[-1, 0], keys)
    figure = Figure(figsize=(5, 4.6), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.13, 0.13, 0.84, 0.77))
    draw_rays(ax, rays)
    draw_paths(ax, path, keys, window=(-5, 9, -5, 9))
    ax.set_title(f"attention after 400 steps: {s[0]:.2f}, {s[1]:.2f}, {s[2]:.2f}", fontsize=12)
    return figure


wide = {"style": {"description_width": "110px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    one_path,
    p1=ipywidgets.FloatSlider(value=0.0, min=-4, max=4, step=0.1, description="start p1", **wide),
    p2=ipywidgets.FloatSlider(value=-0.5, min=-4, max=4, step=0.1, description="start p2", **wide),
    third=ipywidgets.FloatSlider(
        value=0.0, min=0, max=0.99, step=0.01, description="score of token 3", **wide
    ),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Forty problems at random, and a look ahead to W
#
# Toys can be chosen; random data cannot. We draw 40 trials of $n = 6$ sequences with $T = 8$ tokens each, in
# $d = 10$ dimensions, all vectors uniform on the unit sphere, keys equal to values, labels by a fair coin.
# One $p$ has to serve six sequences: 42 comparisons in 10 dimensions.
#
# Transformers also ask with a *query*: each sequence brings its own $z_i$, and the logits are $h_{it} =
# x_{it}^\top W z_i$ with a trained matrix $W$. This is part III of the course. Here it is enough that
# everything carries over once you see the comparisons.

# %% [markdown]
# ### Exercise 06.5: The same comparisons for W
#
# ★★☆ · 6 minutes
#
# The selected token is now ahead of token $t$ by
#
# $$(x_{i\alpha_i} - x_{it})^\top W z_i = \langle A, W \rangle = \sum_{jk} A_{jk} W_{jk}$$
#
# for some matrix $A$, because it is linear in $W$. Return the matrices $A$, one for each $i$ and each $t \neq
# \alpha_i$, ordered by $i$, then by $t$.
#
# <details><summary>Hint</summary>
#
# $a^\top W z = \sum_{jk} a_j W_{jk} z_k$. Your `comparisons(X, selected)` gives all $a$; every $T - 1$ of
# them share one query. `np.outer` makes one matrix.
# </details>


# %%
@exercise("06.5")
def matrix_comparisons(X, z, selected):
    """Return the matrices A, (n (T - 1), d, d), for tokens X (n, T, d), queries z (n, d), selected (n,)."""
    ### BEGIN SOLUTION
    rows = np.asarray(comparisons(X, selected))
    queries = np.repeat(z, X.shape[1] - 1, axis=0)  # one for each row
    return rows[:, :, None] * queries[:, None, :]
    ### END SOLUTION


# %%
check("06.5", matrix_comparisons)
one = data.random_tokens(n=2, T=3, d=4, seed=0)
problem = svm.attention_problem(one.X, one.z, one.optimal)  # the library keeps a and z apart
mine = matrix_comparisons(one.X.numpy(), one.z.numpy(), one.optimal.numpy())
assert np.allclose(problem.a[:, :, None] * problem.b[:, None, :], mine), again.format("06.5")

# %% [markdown]
# The Att-SVM for $W$ is then $\min \|W\|_F$ subject to $\langle A, W \rangle \ge 1$ for all of these: 42
# comparisons again, in 100 dimensions. We train $p$, then $W$, each from zero with 2,000 normalised steps of
# length 0.2; and $W$ once more with the **textbook** softmax gradient,
# $s_t(\gamma_t - \sum_\tau s_\tau \gamma_\tau)$, which is what torch and most other software compute.
# Selected tokens are read at the end, their SVMs solved, and each path compared with its own solution. The
# library trains all 40 *trials* at once, as one model; given the six starts of Figure 1 as trials, it takes
# the same six paths.

# %%
random = data.random_tokens(n=6, T=8, d=10, trials=40, seed=2)
record_at = [1, 3, 10, 20, 50, 100, 200, 350, 500, 600, 700, 1000, 1400, 2000]


def logits(Model, weights):
    return Model(d=10, trials=40, init=weights).logits(random)


def run(Model, name, **options):
    """Train 40 trials, then solve the Att-SVM of the tokens they selected."""
    model = Model(d=10, trials=40)
    record = {
        "weights": lambda m: getattr(m, name),
        # 1 - max_t s_it of the least decided sequence i: amax is over tokens, amin over sequences
        "unsure": lambda m: 1 - m.attention(random).amax(-1).amin(-1),
    }
    history = train.fit(
        model,
        random,
        optim.NormalizedGD(model.parameters(), lr=0.2, batch_dims=1),  # each trial has its own norm
        steps=2000,
        record=record,
        every=record_at,
        progress=False,
        **options,
    )
    selected = geometry.selected_tokens(model.attention(random))  # (40, 6)
    if name == "p":
        problem = svm.token_problem(random.keys, selected)
    else:
        problem = svm.attention_problem(random.X, random.z, selected)
    target = svm.solve(problem).value
    from_target = [1 - geometry.cosine(w, target) for w in history["weights"][1:]]  # step 0 has no direction
    return {
        "error": torch.stack(from_target),  # (records, 40)
        "unsure": history["unsure"][1:],
        "selected": selected,
        "target": target,
        "local": geometry.locally_optimal(random.scores, logits(Model, target), selected),
        "global": (selected == random.optimal).all(dim=-1),
    }


results = {
    "p": run(models.PromptAttention, "p"),
    "W": run(models.CrossAttention, "W"),
    "W, textbook": run(models.CrossAttention, "W", softmax=textbook_softmax),
}
print("40 trials   cosine, smallest   locally optimal   globally optimal")
for name in ("p", "W"):
    found = results[name]
    smallest = 1 - found["error"][-1].max()
    print(f"{name:11s} {smallest:13.4f} {found['local'].sum():15d} {found['global'].sum():17d}")

# %% slideshow={"slide_type": "subslide"}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
for (name, found), color, marker in zip(results.items(), (BLUE, GREEN, ORANGE), "os^", strict=True):
    style = {"color": color, "marker": marker, "markersize": 5, "label": name}
    low, middle, high = found["error"].quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), dim=1)
    left.loglog(record_at, middle, **style)
    left.fill_between(record_at, low, high, color=color, alpha=0.15, linewidth=0)
unsure = results["W"]["unsure"].median(dim=1).values
right.loglog(record_at, unsure.where(unsure > 0, torch.nan), color=GREEN, marker="s", markersize=5)
right.axhline(2.0**-53, color=BLACK, linestyle="--", linewidth=1.5)
right.text(1, 2.0**-53 * 4, "rounding unit of float64", fontsize=11)
left.set(xlabel="step", ylabel="1 - cosine to the Att-SVM")
right.set(xlabel="step", ylabel="attention off the winner", xlim=left.get_xlim())
left.legend(loc="lower left")
show(
    fig,
    alt="Left: one minus the cosine to the Att-SVM against step, both logarithmic. For p and for W it falls "
    "steadily below 0.001; with the textbook gradient it follows at first and turns up after about 500 "
    "steps, to above 0.1. Right: the attention not on the winning token falls to the rounding unit of "
    "float64 in the same steps.",
)

# %% [markdown]
# **Figure 4.** Forty random trials: median and the middle 80%. Left: distance of the direction from the
# Att-SVM of the tokens that each run has selected in the end. (The upper edge of the orange band: in a few of
# the 40 textbook runs rounding noise moves the selection late, so that they are measured against an SVM which
# they were not heading for before.) Right: the median of $1 - \max_t s_{it}$ for $W$, in the least decided
# sequence; the curve ends where this is exactly 0 in float64.

# %%
p, W, textbook = results.values()
for found in (p, W):
    assert (found["error"][-1] < 0.002).all()
    assert found["error"][-1].median() < 0.0005
    assert found["local"].all()
assert p["global"].sum() == 3
assert W["global"].sum() == 21
assert textbook["error"][-1].median() > 300 * W["error"][-1].median()
moved = (textbook["selected"] != W["selected"]).any(dim=-1).sum()
assert 4 <= moved <= 12  # a few; rounding noise is not the same on every machine
assert textbook["error"].median(dim=1).values.min() < 0.01
assert textbook["error"][-1].median() > 0.1

tokens = data.toy_one_sequence(scores=tuple(spread))
six = models.PromptAttention(d=2, trials=6, init=torch.tensor(starts))
train.fit(six, tokens, optim.NormalizedGD(six.parameters(), lr=0.1, batch_dims=1), steps=300, progress=False)
assert np.allclose(six.p.detach(), descend(starts, keys, spread, steps=300)[-1], atol=1e-9)

own = [
    beats_support(*(a[k].numpy() for a in (random.keys, random.scores, p["selected"], p["target"])))
    for k in range(40)
]
assert np.array_equal(np.all(own, axis=1), p["local"]), again.format("06.4")

guess = torch.randn(40, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
picked = logits(models.PromptAttention, guess).argmax(-1)
at_picked = logits(models.PromptAttention, svm.solve(svm.token_problem(random.keys, picked)).value)
by_chance = geometry.locally_optimal(random.scores, at_picked, picked)
print("locally optimal among 40 choices that a random p makes:", by_chance.sum().item())
assert by_chance.sum() == 0

# %% [markdown]
# Three things to take from the figure and the numbers.
#
# **The prediction holds.** After 2,000 steps, all 40 trials of $p$ and all 40 of $W$ point along their
# Att-SVM with a cosine above 0.998, in the median above 0.9995. (Some runs change tokens late. We chose a
# seed where all changes are over by step 2,000; with others a trial or two are still on their way, and their
# cosine is lower.)
#
# **Attention selects locally optimal tokens.** All 40 choices made by $p$ are locally optimal, and all 40
# made by $W$. This is no accident: of 40 choices picked by a *random* $p$ (feasible, since that $p$ separates
# them) none is, because keys drawn without a look at the scores leave it to chance, for each of several
# support tokens, who scores higher. But *globally* optimal are only 3 of 40 for $p$, against 21 for $W$: with
# 100 dimensions to move in, fewer choices are traps. Lesson 12 makes that a theorem.
#
# **The textbook gradient gets it wrong.** It approaches the same solution, then turns round: after 2,000
# steps its median error is more than 300 times ours. The right panel shows why. Once $1 - \max_t s_t$ falls
# to the rounding unit, $\gamma_t - \sum_\tau s_\tau \gamma_\tau$ at the winner is pure rounding noise;
# normalising blows the noise up to a full step. The library measures every score from the winner's, so that
# nothing cancels, and factors out the largest of the small weights before exponentiating, so that nothing
# underflows (lesson 05).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Where it breaks
#
# The theorem needs a feasible Att-SVM and a choice that beats its support tokens strictly. Take each away.
#
# **No direction singles the token out.** Put the best token between two others: keys $(-1, 0)$, $(0, h)$,
# $(1, 0)$ with scores $0, 1, 0$. For $h > 0$ the Att-SVM has margin $h$. At $h = 0$ the best key lies in the
# convex hull of the others, and *no* $p$ prefers it to both.
#
# **Tied scores.** Keys $(1, 0)$, $(0.8, 0.6)$, $(0, 0)$ with scores $1, 1, 0$. Nothing pushes token 1 and
# token 2 apart: the comparison between them exerts no force at all, but the Att-SVM contains it. Each tied
# token is a support token of the other, so neither is locally optimal and the theorem is silent.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
ends = {}
for h, color in ((0.5, BLUE), (0.1, GREEN), (0.0, ORANGE)):
    three = np.array([[-1, 0], [0, h], [1, 0]])
    path = descend(np.array([0.73, 0.0]), three, np.array([0.0, 1.0, 0.0]), steps=400)
    on_best = attention(path, three)[:, 1]
    left.plot(on_best, color=color, label=f"$h = {h:g}$")
    norm = np.linalg.norm(path, axis=-1)
    ends[h] = on_best[-1], norm[-1]
    if h == 0:
        assert norm[10:].max() < 0.1  # below one step length for good
        assert on_best.max() < 1 / 3 + 1e-9
left.axhline(1 / 3, color=BLACK, linestyle="--", linewidth=1.5)
left.set(xlabel="step", ylabel="attention on the best token", ylim=(0, 1.05))
left.legend(loc="center right", bbox_to_anchor=(1, 0.6))

tied, tied_scores = np.array([[1, 0], [0.8, 0.6], [0, 0]]), np.array([1.0, 1.0, 0.0])
tied_starts = np.array([[0, -2], [0, -0.5], [1, 0], [0, 0.5], [1, 1], [-1, 2]])
path = descend(tied_starts, tied, tied_scores, steps=2000)
full = np.array([att_svm(tied[None], np.array([token])) for token in (0, 1)])
reduced = tied[:2]  # without the tied comparison only k_alpha - 0 is left: the key itself, of length 1
draw_rays(right, reduced)
draw_rays(right, full, style=":")
draw_paths(right, path, tied, window=(-2, 9, -4, 7))
right.text(3.6, -3.6, "Att-SVM, token 1", fontsize=11)
right.text(0.2, 6.2, "Att-SVM, token 2", fontsize=11)
right.text(3.5, -0.7, "token 1 without the tie", fontsize=11)
right.text(3.0, 2.5, "token 2 without the tie", fontsize=11, rotation=36.9, rotation_mode="anchor")
show(
    fig,
    alt="Left: attention on the best token against steps. For h = 0.5 and 0.1 it goes to one, for h = 0 it "
    "stays at one third. Right: six paths in the p-plane for tied scores run along two dashed rays, the keys "
    "of the tied tokens, and not along the two dotted rays of the Att-SVM.",
)
winner = attention(path[-1], tied).argmax(axis=-1)
unit = path[-1] / np.linalg.norm(path[-1], axis=-1, keepdims=True)  # (6, 2)
to_full = (unit * full[winner]).sum(axis=-1) / np.linalg.norm(full[winner], axis=-1)
to_reduced = (unit * reduced[winner]).sum(axis=-1)
print(f"h = 0: attention on the best token {ends[0.0][0]:.2f}, norm of p below 0.1: {ends[0.0][1] < 0.1}")
print(f"ties: cosine to the Att-SVM {to_full.mean():.1f}, without the tied comparison {to_reduced.min():.3f}")
hopeless = torch.tensor([[[-1.0, 0], [0, 0], [1, 0]], [[0, 1], [0, 1], [1, 0]]], dtype=torch.float64)
problem = svm.token_problem(hopeless[:, None], torch.tensor([[1], [1]]))  # between two others; twice the same
assert list(svm.solve(problem, throw=False).status) == ["infeasible", "infeasible"]
assert abs(ends[0.0][0] - 1 / 3) < 0.01
assert ends[0.0][1] < 0.1
assert ends[0.1][0] > 0.95
assert ends[0.1][1] > 30
for token in (0, 1):  # the tied rival is a support token
    assert np.isclose(full[token] @ (tied[token] - tied[1 - token]), 1)
assert np.allclose(to_full, 0.6, atol=0.05)
assert to_reduced.min() > 0.999

# %% [markdown]
# **Figure 5.** Left: the best token between two others, lifted by $h$; normalised descent from $(0.73, 0)$.
# Right: tied scores. Paths run along the dashed rays, the Att-SVM without the tied comparison (blue: token 1
# wins, orange: token 2), and not along the dotted ones, the full Att-SVM of each tied token.

# %% [markdown]
# Left: with $h = 0.1$ the best token still wins, only later: the margin is small. With $h = 0$ the solver
# reports *infeasible*, $\|p\|$ falls below one step length and stays there, and attention never exceeds
# $1/3$. Here attention stays soft for ever.
#
# Right: $\|p\|$ diverges and the direction converges, to the *wrong* SVM, the one without the tied
# comparison: its cosine with that is above 0.999. A word that occurs twice in a sentence is the extreme case:
# equal keys, equal scores, an infeasible Att-SVM, and attention shared half and half for ever.
#
# With Figure 4 that makes three breaks, and three ways to recognise them:
#
# | situation | what you see | cosine to the winner's Att-SVM |
# |---|---|---|
# | no direction singles the best token out | $\lVert p \rVert$ bounded, attention soft | none: infeasible |
# | tied scores | $\lVert p \rVert$ diverges, direction converges elsewhere | settles at 0.6 here |
# | textbook gradient, long run | direction turns round in rounding noise | above 0.99, then below 0.9 |

# %% [markdown]
# ### Exercise 06.6: Every start, several sequences
#
# ★★★ · 12 minutes · in words
#
# Section 5 showed the global half of the theorem for one sequence. Show the same step for $n$ sequences,
# $L(p) = \frac1n \sum_i \ell\big(\sum_t s_{it} \gamma_{it}\big)$: if in every sequence all tokens but the
# best have equal scores, and the Att-SVM of the best tokens is feasible, then $-\nabla L(p) \cdot
# p_{\mathrm{mm}} > 0$ at every $p$. Say where you use each assumption, and which term spoils the argument
# when the lower scores differ. Double click the next cell to write in it; the solution's notebook has a model
# answer.
#
# <details><summary>Hint</summary>
#
# Write the gradient of section 2 once for each sequence and average. Which pairs of tokens are left? What
# does the Att-SVM say about each of them?
# </details>

# %% [markdown] tags=["written"] exercise="06.6"
# ### BEGIN SOLUTION
# The gradient of an average is the average of the gradients. With section 2 for each sequence,
#
# $$-\nabla L(p) = \frac1n \sum_i |\ell_i'| \sum_{t < \tau} s_{it}\, s_{i\tau}\, (\gamma_{it} -
# \gamma_{i\tau})\, (k_{it} - k_{i\tau}),$$
#
# where $\ell_i'$ is the slope of the loss at the output of sequence $i$. *Equal lower scores*: every pair
# without the best token $\alpha_i$ has $\gamma_{it} = \gamma_{i\tau}$ and drops out, so
#
# $$-\nabla L(p) \cdot p_{\mathrm{mm}} = \frac1n \sum_i |\ell_i'| \sum_{t \neq \alpha_i} s_{i\alpha_i}
# s_{it}\, (\gamma_{i\alpha_i} - \gamma_{it})\; p_{\mathrm{mm}} \cdot (k_{i\alpha_i} - k_{it}).$$
#
# Every factor is positive: $|\ell_i'|$ because the loss has a negative slope everywhere, the attentions
# because softmax never gives 0, the gap because $\alpha_i$ is the best token, and the last one is at least 1.
# *Feasible*: one $p_{\mathrm{mm}}$ satisfies the constraints of all sequences together. So the sum is
# positive at every $p$, and no $p$ is stationary.
#
# If the lower scores differ, the pairs of losers stay and add $(\gamma_{it} - \gamma_{i\tau})\,
# p_{\mathrm{mm}} \cdot (k_{it} - k_{i\tau})$. The Att-SVM compares each token with $\alpha_i$ and says
# nothing about the sign of this: two losers can push $p$ back, as tokens 2 and 3 do on the right of Figure 1.
# ### END SOLUTION

# %% [markdown]
# ## Questions
#
# **1.** All scores of a sequence are raised by 1. Which of these change: the Att-SVM, the locally optimal
# tokens, the path of normalised descent?
# <details><summary>Answer</summary>
#
# None of them, with one sequence. Only differences of scores enter; the factor $|\ell'|$ changes, but
# normalised steps do not see it. (With several sequences $|\ell_i'|$ weighs them against each other, so the
# path changes; the candidates for its limit do not.)
# </details>
#
# **2.** All keys are doubled. What happens to $p_{\mathrm{mm}}$, and to the slope of $\|p_j\|$ against $\log
# j$?
# <details><summary>Answer</summary>
#
# $p_{\mathrm{mm}}$ is halved, and so is the slope $\|p_{\mathrm{mm}}\|$: a larger margin needs a shorter $p$
# for the same attention.
# </details>
#
# **3.** Is a globally optimal choice with strictly best scores always locally optimal?
# <details><summary>Answer</summary>
#
# Yes, if feasible: a token that beats all others beats its support tokens.
# </details>
#
# **4.** A colleague trains attention with normalised gradient descent, sees the cosine to the SVM rise to
# 0.99 and then fall to 0.6, and concludes that the theory is wrong. What do you ask first?
# <details><summary>Answer</summary>
#
# How the softmax gradient is computed, and what $1 - \max_t s_t$ was when the cosine turned (Figure 4). Then
# whether the selected tokens were read at the end.
# </details>

# %%
progress("06")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Late in training, the gradient on $p$ is that of a linear classifier whose data points are the comparisons
#   $k_\alpha - k_t$. So $\|p\| \to \infty$ and $p$ turns to the **Att-SVM** of the selected tokens: like
#   $\|p_{\mathrm{mm}}\| \log j$ in $j$ steps of plain descent, in proportion to $j$ under normalised descent,
#   along the same path.
# - Keys give the direction of each candidate; scores decide which candidates can hold. A choice holds if it
#   is **locally optimal**: it has to beat its support tokens, not everybody. Which one is reached depends on
#   the start.
# - In 40 random problems, all selections were locally optimal; few were global for $p$, about half for $W$.
# - It breaks where a token cannot be separated, where scores tie, and where the gradient is rounding noise.
#
# **Further reading.** D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention
# Mechanism* (NeurIPS 2023): the theorem and the toy. D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak,
# *Transformers as Support Vector Machines* (2023): the same for $W$ and for keys and queries. D. Soudry and
# others, *The Implicit Bias of Gradient Descent on Separable Data* (JMLR 2018): the linear result underneath.
#
# **New in the library:** [`geometry.selected_tokens`](../mini_attn/geometry.py),
# [`geometry.locally_optimal`](../mini_attn/geometry.py), [`models.CrossAttention`](../mini_attn/models.py),
# [`svm.token_problem`](../mini_attn/svm/problem.py),
# [`svm.attention_problem`](../mini_attn/svm/problem.py).
#
# **Next:** [lesson 07](07_local_global_tokens.ipynb): cones, basins, and when local optima disappear.
