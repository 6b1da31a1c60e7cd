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
# - say how fast $\|p\|$ grows, and on the toy how far beside its ray a path ends;
# - decide from the data whether attention can stay with a given token;
# - name the situations in which the prediction fails, and recognise each by what it does.
#
# **You need** lesson 01 (margin, direction, $\log t$), lesson 02 (hard-margin SVM, nonnegative least squares)
# and lesson 05 (softmax attention and its gradient). Reckon with 90 minutes; five exercises and a written
# question are in the text.

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
from mini_attn.softmax import softmax, textbook_softmax

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=4, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "exercise {} is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.1 The idea in a picture
#
# One sequence has $T$ tokens. Two things matter about token $t$: its **key** $k_t \in \mathbb{R}^d$, which
# $p$ is compared with, and its **score** $\gamma_t = y\, v \cdot x_t$, what $y f$ would be with all
# attention on token $t$ ($x_t$ is the token itself, $v$ the fixed prediction head, $y = \pm 1$ the label). We
# minimise
#
# $$L(p) = \ell\Big(\sum_t s_t\, \gamma_t\Big), \qquad s = \mathrm{softmax}(h), \qquad h_t = k_t \cdot p,
# \qquad \ell(u) = \log(1 + e^{-u}).$$
#
# (Lesson 05 worked with values $g_t = v \cdot x_t$; with $y = 1$, as in the toy, scores and values are the
# same. As there, $t$ counts tokens and $j$ counts steps.) The toy has three tokens in the plane. We give them
# two sets of scores that differ in the third token alone, and start from six points. Scores and starts are
# those of Tarzanagh and others (2023), the paper this lesson follows.

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


def gradient(p, keys, scores, scaled=False):
    """The gradient of L in p, (..., d), with lesson 05's cures; with `scaled` right in direction only.

    Scores are measured from the winner's, so that nothing cancels. With `scaled` the largest weight among the
    losers that push is taken out in logarithms, so that nothing underflows either.
    """
    h = p @ keys.T
    lead = h.max(axis=-1, keepdims=True) - h
    log_s = -lead - np.log(np.exp(-lead).sum(axis=-1, keepdims=True))
    difference = scores - scores[h.argmax(axis=-1)][..., None]
    log_loser = np.where(difference == 0, -np.inf, log_s)
    if scaled:
        log_loser = log_loser - log_loser.max(axis=-1, keepdims=True)
    pull, s = np.exp(log_loser) * difference, np.exp(log_s)
    slopes = pull - s * pull.sum(axis=-1, keepdims=True)  # derivatives of sum_t s_t gamma_t in the logits
    steep = 1 / (1 + np.exp((s * scores).sum(axis=-1, keepdims=True)))  # |l'|
    return -steep * (slopes @ keys)


def descend(p, keys, scores, steps, lr=0.1, normalise=True):
    """Gradient descent on p, by default with steps of length lr: returns the path (steps + 1, ..., d)."""
    path = [np.asarray(p, dtype=float)]
    for _ in range(steps):
        g = gradient(path[-1], keys, scores, scaled=normalise)
        if normalise:
            g = g / np.linalg.norm(g, axis=-1, keepdims=True)
        path.append(path[-1] - lr * g)
    return np.array(path)


# %% [markdown]
# **Predict before you run on.** The first token has the best score in both sets. Will all six starts find it?

# %%
paths = {"equal": descend(starts, keys, equal, steps=300), "spread": descend(starts, keys, spread, steps=300)}
winners = {name: attention(path[-1], keys).argmax(axis=-1) + 1 for name, path in paths.items()}
for name, scores in (("equal", equal), ("spread", spread)):
    print("scores", scores, "winners", winners[name])
rays = np.array([[-0.1, 1.0], [1.0, 0.0]])  # section 6.3 says where these come from


# %% jupyter={"source_hidden": true}
def draw_rays(ax, rays, style="--"):
    """Rays from the origin, beyond the picture."""
    for ray in rays:
        end = 100 * ray / np.linalg.norm(ray)
        ax.plot([0, end[0]], [0, end[1]], style, color=BLACK, linewidth=1.5, zorder=1)


def draw_paths(ax, path, keys, window):
    """Paths (steps + 1, starts, 2) in the p-plane, coloured by the token that wins in the end."""
    winner = attention(path[-1], keys).argmax(axis=-1)
    for token, line in zip(winner, path.transpose(1, 2, 0), strict=True):
        style = "-" if token == 0 else (0, (5, 1))
        ax.plot(*line, linestyle=style, color=(BLUE, ORANGE, GREEN)[token], zorder=2)
        ax.plot(*line[:, 0], "o", color=BLACK, markersize=4, zorder=3)
    ax.set(xlim=window[:2], ylim=window[2:], xlabel="$p_1$", ylabel="$p_2$", aspect="equal")


fig, axes = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True)
for ax, (name, scores) in zip(axes, (("equal", equal), ("spread", spread)), strict=True):
    draw_rays(ax, rays)
    draw_paths(ax, paths[name], keys, window=(-6, 14, -4, 16))
    ax.text(0.3, 14.5, "ray 1")
    ax.text(8, 1, "ray 2")
    ax.text(-5.7, 0.5, "token 1\nwins", color=plots.ink("blue"))
    ax.set_title(f"scores {scores[0]:g}, {scores[1]:g}, {scores[2]:g}")
    ax.set_yticks([0, 5, 10, 15])
axes[1].text(7.5, -3, "token 2 wins", color=plots.ink("vermillion"))
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
#
# "Never" is a long time. So we do not stop: 20,000 steps later, at $\|p\| = 2000$, the winners are the same.
# (By then the largest losing attention is near $e^{-2000}$, and so is the gradient: without the logarithms of
# lesson 05 it would have been 0 since step 7,500, and for its *square*, which the norm needs, since step
# 3,700.)

# %%
assert winners["equal"].tolist() == [1, 1, 1, 1, 1, 1]
assert winners["spread"].tolist() == [1, 1, 1, 1, 2, 2]
for name, scores in (("equal", equal), ("spread", spread)):
    far = descend(starts, keys, scores, steps=20_000)[[1000, -1]]
    assert np.array_equal(attention(far, keys).argmax(axis=-1) + 1, [winners[name]] * 2)
    assert np.abs(np.linalg.norm(far[-1], axis=-1) - 2000).max() < 3
    unit = far / np.linalg.norm(far, axis=-1, keepdims=True)
    cosines = (unit * (rays / np.linalg.norm(rays, axis=1)[:, None])[winners[name] - 1]).sum(axis=-1)
    early, late = cosines.min(axis=1)
    print(f"scores {scores}, least cosine to its ray: step 1,000 {early:.4f}, step 20,000 {late:.6f}")
    assert cosines[0].min() > 0.9995
    assert cosines[1].min() > 0.99999

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.2 Forces between tokens
#
# Where does a gradient step push $p$, and how hard? What matters about a selected token is whom it is ahead
# of. So compare it with each of the others.

# %% [markdown]
# ### Exercise 06.1: The comparisons
#
# ★☆☆ · 6 minutes
#
# There are $n$ sequences, all compared with the same $p$; in sequence $i$ the token $\alpha_i$ is
# `selected[i]`. Return the **comparisons** $a_{it} = k_{i\alpha_i} - k_{it}$ for all $t \neq \alpha_i$ as
# rows, ordered by $i$, then by $t$. Two tokens may have equal keys: such a row is 0, and it stays.
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
# ★★☆ · 8 minutes
#
# Lesson 05's chain rule gives $-\nabla L(p) = |\ell'| \sum_t s_t \big(\gamma_t - \sum_\tau s_\tau
# \gamma_\tau\big)\, k_t$. Rewrite it on paper as a sum over *pairs* of tokens: each pair $t < \tau$ pushes
# $p$ along $k_t - k_\tau$, with which strength? Then take one sequence and a token $\alpha$ (`selected`), and
# return the strength with which each pair $(\alpha, t)$ pushes along $k_\alpha - k_t$, without the common
# factor $|\ell'|$: $T$ numbers. (Entry $\alpha$ comes out as 0.)
#
# <details><summary>Hint</summary>
#
# The weights sum to one, so $\gamma_t - \sum_\tau s_\tau \gamma_\tau = \sum_\tau s_\tau (\gamma_t -
# \gamma_\tau)$. In the double sum each pair occurs twice; the sign changes with the order. The function
# `attention(p, keys)` above gives $s$.
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
# What you have found:
#
# $$-\nabla L(p) = |\ell'| \sum_{t < \tau} s_t\, s_\tau\, (\gamma_t - \gamma_\tau)\, (k_t - k_\tau).$$
#
# Each pair exerts a force along the line between its two keys, towards the one with the higher score, in
# proportion to the attention that both still get. A pair with equal scores exerts none.
#
# Suppose token $\alpha$ is winning, with the **lead** $\Delta_t = h_\alpha - h_t = p \cdot a_t$ over token
# $t$. A pair of losers has the factor $s_t s_\tau \le e^{-\Delta_t - \Delta_\tau}$: beside the strongest pair
# with $\alpha$ it dies out. What remains are the $T - 1$ pairs $(\alpha, t)$, with strengths
#
# $$c_t = s_\alpha s_t (\gamma_\alpha - \gamma_t)
# \;\approx\; (\gamma_\alpha - \gamma_t)\, e^{-p \cdot a_t} .$$
#
# Now $\sum_t c_t\, a_t$ is a gradient that we know from lesson 01: that of the exponential loss of
# a *linear classifier* $p$ whose data points are the comparisons $a_t$, all with label $+1$, counted with
# weights $\gamma_\alpha - \gamma_t$. We also know where it leads. As long as the weights are positive and
# some $p$ has all leads positive, the values of the weights do not matter: the norm diverges, and the
# direction tends to the hard-margin SVM of the points $a_t$. (Negative weights: section 6.5.)
#
# Follow the lowest orange path of Figure 1, where token 2 wins. The strengths $c_t$, at four moments:

# %%
path = paths["spread"][:, -1]
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
assert alike > 0.999999, again.format("06.2")
assert 30 < at_first < 50 < 400 < c[2] / -c[0], again.format("06.2")

# %% [markdown]
# Token 3 is worse than token 2, so it pushes $p$ along $k_2 - k_3$ and strengthens token 2. Token 1 is
# better, so its strength is negative: it pulls $p$ away. At the start its pull is more than 30 times weaker
# than the push of token 3; at step 300, more than 400 times. Token 1 loses this tug of war although it is the
# better token, because it falls *further behind*: its exponential $e^{-p \cdot a_t}$ dies faster. Section 6.5
# makes this a criterion. The last column confirms that the pairs without $\alpha$ soon do not matter.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.3 The SVM over tokens
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
# It puts the selected tokens ahead of all others with the largest margin, $1/\|p_{\mathrm{mm}}\|$ (mm stands
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
assert np.allclose(global_p / global_p[1], rays[0]), again.format("06.1")
assert np.allclose(local_p, rays[1]), again.format("06.1")

# %% [markdown]
# The paper's code prints the same two objectives, 0.49505 and 0.50000. These are the dashed rays of Figure 1:
# fact 3 is explained. Training never saw an SVM, and the SVM never saw a score: scores decide *which*
# $\alpha$, keys decide *the direction*. The cosines printed below Figure 1 are the measurement: above 0.9995
# after 1,000 steps from each of the twelve starts, above 0.99999 after 20,000.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.4 One path, two clocks
#
# How fast? Near the end, plain gradient descent feels a force of size $e^{-\Delta}$, where $\Delta = \min_t p
# \cdot a_t$ is the smallest lead. As in lesson 01, $\Delta$ then grows at the rate $e^{-\Delta}$, which
# gives $\Delta \approx \log j$ after $j$ steps, and since $p \approx \Delta\, p_{\mathrm{mm}}$,
#
# $$\|p_j\| \approx \|p_{\mathrm{mm}}\| \log j \quad \text{(plain)}, \qquad
# \|p_j\| \approx \eta\, j \quad \text{(normalised steps of length } \eta).$$
#
# So much for the clocks. The *path* is common to both, because normalising changes the length of a step and
# not its direction. On our toy it can be found with a pencil.

# %% [markdown]
# ### Exercise 06.3: How far beside the ray?
#
# ★★★ · 15 minutes
#
# Keys $(-c, 1)$, $(1, 0)$, $(0, 0)$ with $c > 0$ (the toy has $c = 0.1$), and the two lower scores equal.
# Every path becomes parallel to ray 1, the direction of $(-c, 1)$. At what distance from it? Take steps so
# small that the path is a curve, start at $p$, and return the distance in the limit, counted positive to the
# *right* of the ray: on the side of $(1, c)$.
#
# 1. Which pairs exert a force? In which proportion? Write down $dp_2 / dp_1$.
# 2. Separate the variables and integrate: some expression in $p_1$ and $p_2$ is the same all along the path.
# 3. Far out $p_1 \to -\infty$. What is left of the expression?
#
# <details><summary>Hint for 1 and 2</summary>
#
# Tokens 2 and 3 tie, so the pairs $(1, 2)$ and $(1, 3)$ are left, with strengths in the proportion $s_2 : s_3
# = e^{p_1} : 1$. The step is along $e^{p_1} (-1 - c,\ 1) + (-c,\ 1)$. And
# $$\int \frac{1 + e^x}{c + (1 + c)\, e^x}\, dx = \frac{x}{c} - \frac{\log(c + (1 + c)\, e^x)}{c\,(1 + c)} .$$
# </details>
#
# <details><summary>Hint for 3</summary>
#
# $p_1 + c\,p_2 - \log(c + (1 + c) e^{p_1}) / (1 + c)$ stays what it was at the start. In the limit the
# logarithm is $\log c$. The distance is $(p_1 + c\, p_2) / \sqrt{1 + c^2}$.
# </details>


# %%
@exercise("06.3")
def beside_ray(p, c):
    """Return how far from ray 1 the path from p (2,) ends, positive to its right; c is a number."""
    ### BEGIN SOLUTION
    turned = np.log(1 + (1 + c) * np.exp(p[0]) / c) / (1 + c)
    return (p[0] + c * p[1] - turned) / np.sqrt(1 + c**2)
    ### END SOLUTION


# %%
check("06.3", beside_ray)

# %%
steps = 20_000
plain = descend(starts, keys, equal, steps, lr=10, normalise=False)[1:]  # (steps, starts, d)
fixed = descend(starts, keys, equal, 1000, lr=0.1)[1:]
length = np.linalg.norm(global_p)
right_of_ray = np.array([1, 0.1]) / np.sqrt(1.01)
print("start p_2       ", starts[:, 1])
print("predicted       ", np.array([beside_ray(p, 0.1) for p in starts]))
beside = fixed[-1] @ right_of_ray
print("normalised steps", beside)


def conserved(p):
    """What exercise 06.3 says is the same all along a path: p (..., 2) -> (...)."""
    return p[..., 0] + 0.1 * p[..., 1] - np.log(0.1 + 1.1 * np.exp(p[..., 0])) / 1.1


slope = (np.linalg.norm(plain[-1, 2]) - np.linalg.norm(plain[1999, 2])) / np.log(10)
print(f"plain steps from 0: slope of the norm in log j {slope:.3f}, predicted {length:.3f}")
assert np.abs(beside - [beside_ray(p, 0.1) for p in starts]).max() < 0.01, again.format("06.3")
assert np.abs(conserved(plain) - conserved(starts)).max() < 0.003
assert np.abs(conserved(fixed) - conserved(starts)).max() < 0.01
assert np.isclose(beside_ray(np.zeros(2), 0.1), -np.log(12) / 1.1 / np.sqrt(1.01)), again.format("06.3")
assert 0.96 < slope / length < 1


# %% jupyter={"source_hidden": true}
def norm_and_angle(path):
    """Norm, and angle to the ray of token 1 in degrees."""
    norm = np.linalg.norm(path, axis=-1)
    return norm, np.degrees(np.arccos(path @ global_p / norm / length))


fig, (clock, course) = plt.subplots(1, 2, figsize=(9.5, 3.8))
for path, color, marker, name in ((plain, BLUE, "o", "plain"), (fixed, ORANGE, "s", "normalised")):
    at = np.unique(np.geomspace(1, len(path), 25).astype(int))
    style = {"marker": marker, "markersize": 5, "linestyle": "", "color": color, "label": name}
    clock.semilogx(at, norm_and_angle(path[at - 1, 2])[0], **style)
    course.loglog(*norm_and_angle(path[at - 1, 2]), **style)
j = np.geomspace(1, steps)
clock.plot(j, np.linalg.norm(plain[-1, 2]) + length * np.log(j / steps), "--", color=BLUE, linewidth=1.5)
clock.plot(j, 0.1 * j, "--", color=ORANGE, linewidth=1.5)
norm = np.geomspace(3, 100)
side = abs(beside_ray(np.zeros(2), 0.1))
course.plot(norm, np.degrees(np.arcsin(side / norm)), "--", color=BLACK, linewidth=1.5, label="predicted")
clock.set(xlabel="step $j$", ylabel=r"$\|p_j\|$", ylim=(0, 13))
course.set(xlabel=r"$\|p\|$", ylabel="angle to ray 1 (degrees)")
course.set_yticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"])
course.minorticks_off()
clock.legend()
course.legend()
show(
    fig,
    alt="Left: norm of p against step, logarithmic step axis; plain descent ends on a straight dashed line "
    "and reaches 8.8 after 20,000 steps, normalised descent leaves the picture after 130. Right: angle to "
    "the ray against the norm; both methods lie on one falling curve, in the end on the dashed prediction.",
)

# %% [markdown]
# **Figure 2.** Scores (1, .9, .9), start at 0, steps $\eta = 10$ (plain) and $0.1$ (normalised). Left: the
# norm; dashed, lines of slope $\|p_{\mathrm{mm}}\| = 0.995$ per unit of $\log j$ (through the last dot) and
# $\eta j$. Right: the angle to the ray of token 1 against the norm; dashed, $\arcsin(2.25 / \|p\|)$, the
# limit of exercise 06.3 with nothing fitted.

# %% [markdown]
# Left: the slope is within 4% of the predicted one. Right: both methods lie on one curve, and from all six
# starts the expression of exercise 06.3 moves by less than 0.003 in 20,000 plain steps and by less than 0.01
# in 1,000 normalised ones (longer steps cut the corner more). So $p = \Delta\, p_{\mathrm{mm}} + r$ with a
# remainder $r$ that tends to a vector *across* the ray, of length 2.25 from the start at 0, and the angle
# falls like $\|r\| / \|p\|$, whatever the clock. In this course we mostly train with normalised steps: same
# destination, and we can see it. How long would plain steps need for $\|p\| = 100$? The clock says
# $20{,}000\, e^{(100 - 8.8)/0.995}$.

# %%
norm_plain, norm_fixed = np.linalg.norm(plain[-1, 2]), np.linalg.norm(fixed[-1, 2])
needed = steps * np.exp((100 - norm_plain) / length)
print(f"norm 100: plain, after about 10^{np.log10(needed):.0f} steps; ", end="")
print(f"normalised, after about {1000 + (100 - norm_fixed) / 0.1:.0f}")
assert 43 < np.log10(needed) < 45
assert round(length, 3) == 0.995
assert round(norm_plain, 1) == 8.8

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.5 Which token wins?
#
# The SVM has a solution for token 1 and one for token 2; training chose. Section 6.2 has the reason ready: at
# late times only the comparisons with the *smallest* lead still push. Call them by name.
#
# - The **support tokens** of sequence $i$ are the $t \neq \alpha_i$ whose constraint is tight,
#   $p_{\mathrm{mm}} \cdot (k_{i\alpha_i} - k_{it}) = 1$. A sequence may have none.
# - A choice $\alpha$ is **locally optimal** if each $\alpha_i$ scores higher than every support token of its
#   sequence: $\gamma_{i\alpha_i} > \gamma_{it}$.
# - It is **globally optimal** if each $\alpha_i$ has the best score of its whole sequence.
#
# Why these? Lesson 02 writes the solution as $p_{\mathrm{mm}} = \sum \lambda_{it}\, a_{it}$ over support
# tokens, with $\lambda_{it} \ge 0$. Descent builds $p$ from the same vectors, and gives $a_{it}$ a weight of
# the sign of $\gamma_{i\alpha_i} - \gamma_{it}$. If a support token scores higher, its weight comes out
# negative where the SVM asks for a positive one, and $p$ is pulled off the ray. If it scores lower it pushes
# $p$ along, and a better token further behind is forgotten, exponentially. (Lesson 07 makes this precise, and
# finds where $\lambda_{it} = 0$ spoils it.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix $v$, let $\ell$ be smooth
# > with $\ell' < 0$ everywhere, and run gradient descent on $p$ with a small constant step.
# >
# > *Local.* Let $\alpha$ be locally optimal and its Att-SVM feasible. From every start that is close enough
# > to $p_{\mathrm{mm}}(\alpha)$ in direction and far enough from the origin, $\|p_j\| \to \infty$ and
# > $p_j/\|p_j\| \to p_{\mathrm{mm}}(\alpha)/\|p_{\mathrm{mm}}(\alpha)\|$.
# >
# > *Global.* If in each sequence all tokens but the best have equal scores, the same holds from **every**
# > start with the best tokens as $\alpha$, provided their Att-SVM is feasible.
#
# The theorem is about small constant steps, our figures take normalised ones. We do not prove that the same
# holds for these; section 6.4 is why we expect it, and plain steps of 10 from the six starts of Figure 1 do
# choose the same tokens.
#
# Half of the global half takes a few lines. With equal lower scores only pairs with the best token exert a
# force, and every such force has a positive part along $p_{\mathrm{mm}}$:
#
# $$-\nabla L \cdot p_{\mathrm{mm}} = |\ell'|\, s_\alpha \sum_{t \neq \alpha} s_t\,
# (\gamma_\alpha - \gamma_t)\; p_{\mathrm{mm}} \cdot (k_\alpha - k_t) \;>\; 0 .$$
#
# So $p \cdot p_{\mathrm{mm}}$ grows at every step. In a ball $\|p\| \le r$ the right-hand side has a positive
# minimum, so each step that begins there adds at least a fixed amount. If $p$ came back to the ball again
# and again, $p \cdot p_{\mathrm{mm}}$ would grow beyond what the ball allows. Hence $\|p\| \to \infty$. (This
# is for one sequence; for several, see section 6.9. That the *direction* converges too takes the paper more
# work; on the toy, exercise 06.3 did it.) That is fact 1.

# %%
for name, scores in (("equal", equal), ("spread", spread)):
    end = plain[-1] if name == "equal" else descend(starts, keys, scores, steps, lr=10, normalise=False)[-1]
    assert np.array_equal(attention(end, keys).argmax(axis=-1) + 1, winners[name])

# %% [markdown]
# ### Exercise 06.4: Who has to be beaten?
#
# ★☆☆ · 8 minutes
#
# Say for each sequence whether its selected token scores strictly higher than each of its support tokens,
# given the solution `p_mm`. Leads at `p_mm` are right to six digits; a lead of 1.01 is not tight. A sequence
# without support tokens passes. (The choice is locally optimal if all sequences pass.)
#
# <details><summary>Hint</summary>
#
# Leads first: `h = keys @ p_mm`, then the selected token's logit minus all logits, (n, T). For the support
# tokens there is `np.isclose(leads, 1, atol=1e-6)`. A sequence passes if no token is a support token and
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
        leads = (keys[token] - keys) @ p_mm
        support = [t + 1 for t in range(3) if np.isclose(leads[t], 1)]
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
grid = np.linspace(-8, 8, 41)
plane = np.stack(np.meshgrid(grid, grid), axis=-1)  # (41, 41, 2) starts
second_wins = []
for third in third_scores:
    ends = descend(plane, keys, np.array([1, 0.9, third]), steps=300, lr=0.2)[-1]
    second_wins.append(attention(ends, keys).argmax(axis=-1) == 1)
print("share of starts that end at token 2:", *(f"{wins.mean():.2f}" for wins in second_wins))
assert np.allclose([wins.mean() for wins in second_wins], (0.36, 0.27, 0.16), atol=0.005)
near = (np.abs(plane) <= 4).all(axis=-1)
assert np.allclose([wins[near].mean() for wins in second_wins], (0.33, 0.15, 0), atol=0.01)
on_ray = descend(np.array([[8.0, 0], [80, 0]]), keys, np.array([1, 0.9, 0.89]), steps=2000)[-1]
assert list(attention(on_ray, keys).argmax(axis=-1)) == [0, 1]
border = descend(np.array([[0, -0.8], [0, -0.9]]), keys, spread, steps=400)[-1]
assert list(attention(border, keys).argmax(axis=-1)) == [0, 1]

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.7), sharey=True)
for ax, third, wins in zip(axes, third_scores, second_wins, strict=True):
    colors = ListedColormap([BLUE, ORANGE])
    ax.pcolormesh(grid, grid, wins, cmap=colors, vmin=0, vmax=1, alpha=0.6, rasterized=True)
    draw_rays(ax, rays)
    ax.text(-7, 4, "token 1 wins")
    ax.text(0, -6.8, "token 2 wins")
    ax.set(xlim=(-8, 8), ylim=(-8, 8), aspect="equal", xlabel="start $p_1$")
    ax.set_title(rf"$\gamma_3 = {third:g}$")
axes[0].set_ylabel("start $p_2$")
show(
    fig,
    alt="Three maps of starts in the square from -8 to 8. Blue starts end at token 1, orange at token 2. "
    "The orange region lies at the lower right. For a third score of 0 it reaches up to ray 2; for 0.8 and "
    "0.89 its edge lies further down, near p2 = -2 and -4; it covers 36%, 27% and 16% of the square.",
)

# %% [markdown]
# **Figure 3.** Where normalised descent ends, start by start, for three scores of token 3: at token 1 or, in
# the darker region at the lower right, at token 2. Dashed: the two Att-SVM directions.

# %% [markdown]
# As $\gamma_3$ rises to $\gamma_2 = 0.9$, token 2's region withdraws from the origin. Of the starts with both
# coordinates within 4 it has a third, then 15%, then none. At 0.89 token 2 is still locally optimal and has
# its cone around ray 2, but "far enough from the origin" is far: $(8, 0)$ is lost, $(80, 0)$ stays. At 0.9
# the cone is gone.
#
# **Try it.** Move the start and the third token's score, and predict the colour before you let go. With the
# start at $p_1 = 0$ and score 0, which $p_2$ is the last to reach token 1?
#
# <details><summary>Answer</summary>
#
# $-0.8$ on the slider; from $-0.9$ token 2 wins.
# </details>


# %% tags=["nbval-ignore-output", "widget"]
def one_path(p2, third):
    path = descend(np.array([[0, p2]]), keys, np.array([1, 0.9, third]), steps=400)
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
    alt="The plane of p with the two dashed rays, and one path that starts on the vertical axis.",
    p2=ipywidgets.FloatSlider(value=-0.5, min=-4, max=4, step=0.1, description="start p2", **wide),
    third=ipywidgets.FloatSlider(
        value=0.0, min=0, max=0.99, step=0.01, description="score of token 3", **wide
    ),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.6 A hundred problems at random, and a look ahead to W
#
# Toys can be chosen; random data cannot. We draw 100 trials of $n = 6$ sequences with $T = 8$ tokens each, in
# $d = 10$ dimensions, all vectors uniform on the unit sphere, keys equal to tokens, labels by a fair coin.
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
# comparisons again, in 100 dimensions. We train $p$ and $W$ from zero, 2,000 normalised steps each. Some
# runs change tokens late, so we take steps that grow, of length $0.1 \sqrt{j}$: that reaches norms of 2,000
# and more instead of 200. Selected tokens are read at the end, their SVMs solved, and each path compared
# with its own solution. The library trains all 100 *trials* at once, as one model; given the six starts of
# Figure 1 as trials, it takes the same six paths.

# %%
TRIALS = 100
random = data.random_tokens(n=6, T=8, d=10, trials=TRIALS, seed=2)
record_at = [1, 3, 10, 20, 50, 100, 150, 200, 300, 500, 700, 1000, 1400, 2000]


def att_svm_of(Model, selected):
    """The Att-SVMs of selected tokens (trials, n), as far as they are feasible."""
    if Model is models.PromptAttention:
        return svm.solve(svm.token_problem(random.keys, selected), throw=False)
    return svm.solve(svm.attention_problem(random.X, random.z, selected), throw=False)


def logits(Model, weights):
    return Model(d=10, trials=TRIALS, init=weights).logits(random)


def run(Model, steps=2000, **options):
    """Train all trials, then solve the Att-SVM of the tokens that each has selected."""
    model = Model(d=10, trials=TRIALS)
    (name,) = dict(model.named_parameters())  # "p" or "W"
    history = train.fit(
        model,
        random,
        optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1),  # each trial has its own norm
        steps=steps,
        schedule=train.growing,  # step j has length 0.1 sqrt(j)
        record={"weights": lambda m: getattr(m, name)},
        every=record_at,
        progress=False,
        **options,
    )
    selected = geometry.selected_tokens(model.attention(random))  # (trials, 6)
    target = att_svm_of(Model, selected).value
    from_target = [1 - geometry.cosine(w, target) for w in history["weights"][1:]]  # step 0 has no direction
    return {
        "error": torch.stack(from_target),  # (records, trials)
        "selected": selected,
        "target": target,
        "local": geometry.locally_optimal(random.scores, logits(Model, target), selected),
        "global": (selected == random.optimal).all(dim=-1),
    }


results = {"p": run(models.PromptAttention), "W": run(models.CrossAttention)}
print("100 trials  least cosine  locally optimal  globally optimal  global feasible")
for name, Model in (("p", models.PromptAttention), ("W", models.CrossAttention)):
    found = results[name]
    found["possible"] = torch.as_tensor(att_svm_of(Model, random.optimal).status == "optimal")
    counts = [found[key].sum().item() for key in ("local", "global", "possible")]
    print(f"{name:9s} {1 - found['error'][-1].max():14.4f} {counts[0]:16d} {counts[1]:17d} {counts[2]:16d}")
    assert found["error"][-1].max() < 0.005
    assert found["error"][-1].median() < 2e-5
    assert found["local"].all()
    assert counts == {"p": [100, 6, 47], "W": [100, 72, 100]}[name]

# %%
tokens = data.toy_one_sequence(scores=tuple(spread))
six = models.PromptAttention(d=2, trials=6, init=torch.tensor(starts))
train.fit(six, tokens, optim.NormalizedGD(six.parameters(), lr=0.1, batch_dims=1), steps=300, progress=False)
assert np.allclose(six.p.detach(), paths["spread"][-1], atol=1e-9)

p_runs = results["p"]
beats = [
    beats_support(*(a[k].numpy() for a in (random.keys, random.scores, p_runs["selected"], p_runs["target"])))
    for k in range(TRIALS)
]
assert np.array_equal(np.all(beats, axis=1), p_runs["local"]), again.format("06.4")

guess = torch.randn(TRIALS, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
picked = logits(models.PromptAttention, guess).argmax(-1)
at_picked = logits(models.PromptAttention, att_svm_of(models.PromptAttention, picked).value)
by_chance = geometry.locally_optimal(random.scores, at_picked, picked)
print("locally optimal among 100 choices that a random p makes:", by_chance.sum().item())
assert by_chance.sum() <= 2

# %% [markdown]
# **The prediction holds.** All 100 trials of $p$ and all 100 of $W$ point along their Att-SVM with a cosine
# above 0.995, in the median above 0.99998. **Attention selects locally optimal tokens**: all 100 choices made
# by $p$ are locally optimal, and all 100 made by $W$. (On five other seeds, and after three times as many
# steps, too.) This is no accident: of 100 choices picked by a *random* $p$ (feasible, since that $p$ puts
# them ahead) hardly one is. That $p$ has not seen the head $v$, so it is left to chance, for each of several
# support tokens, who scores higher.
#
# **Globally optimal** is another matter. For $p$ the global choice is feasible in 47 of the 100 problems, and
# 6 runs end there; for $W$ it is always feasible, and 72 do. (Other seeds: 5 to 10 of 37 to 50 for $p$, 67 to
# 76 of 100 for $W$.) More dimensions help; lessons 07 and 12 say how.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.7 The same with the textbook gradient *(optional)*
#
# $s_t(\gamma_t - \sum_\tau s_\tau \gamma_\tau)$ is what torch and most other software compute. Lesson 05 says
# what to expect of it: once the winner leads by more than about 37, its own entry is lost. Is that what
# matters here? We make it a trial. Besides the textbook gradient we train $W$
#
# - with the *cured* gradient, in which we set the winner's entry to 0 once it leads by $53 \log 2 = 36.7$: no
#   other error, no noise;
# - with the *textbook* gradient, in which we replace the winner's entry by minus the sum of the others: all
#   its other errors stay.


# %%
def edited(base, edit):
    """A softmax whose gradient in the logits is that of `base`, then passed through `edit`."""

    def attend(h, batch_dims=None):  # batch_dims would ask for the gradient in logarithms
        if h.requires_grad:
            top = h.detach().topk(2)
            winner = torch.zeros_like(h, dtype=torch.bool).scatter_(-1, top.indices[..., :1], True)
            lead = top.values[..., :1] - top.values[..., 1:]
            h.register_hook(lambda slopes: edit(slopes, winner, lead))
        return base(h)

    return attend


lose = edited(softmax, lambda slopes, winner, lead: slopes.where(~winner | (lead < 36.7), 0))
restore = edited(
    textbook_softmax,
    lambda slopes, winner, lead: slopes.where(~winner, -slopes.where(~winner, 0).sum(-1, keepdim=True)),
)
results["W, textbook"] = run(models.CrossAttention, 1000, softmax=textbook_softmax)
results["W, entry lost"] = run(models.CrossAttention, 1000, softmax=lose)
results["W, entry restored"] = run(models.CrossAttention, 1000, softmax=restore)
print("median of 1 - cosine   after 100 steps   after 1,000")
for name, found in results.items():
    middle = found["error"].nanmedian(dim=1).values
    end = "above 0.5" if middle[11] > 0.5 else f"{middle[11]:.5f}"  # far off, rounding decides how far
    print(f"{name:20s} {middle[5]:17.4f} {end:>13s}")
middles = {name: found["error"].nanmedian(dim=1).values[11].item() for name, found in results.items()}
assert 0.5 < middles["W, textbook"] < 0.75
assert abs(middles["W, entry lost"] - middles["W, textbook"]) < 0.1
assert middles["W, entry restored"] < 1e-4
assert results["W, textbook"]["error"].nanmedian(dim=1).values.min() < 0.01

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(8, 4.2))
PURPLE = plots.COLORS["purple"]
looks = ((BLUE, "o", "-"), (GREEN, "s", "-"), (ORANGE, "^", "-"), (BLACK, "v", ":"), (PURPLE, "x", ":"))
for (name, found), (color, marker, line) in zip(results.items(), looks, strict=True):
    low, middle, high = found["error"].nanquantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), dim=1)
    at = record_at[: len(middle)]
    ax.loglog(at, middle, color=color, marker=marker, linestyle=line, markersize=6, label=name)
    if line == "-":
        ax.fill_between(at, low, high, color=color, alpha=0.15, linewidth=0)
ax.set(xlabel="step", ylabel="1 - cosine to the Att-SVM")
ax.legend(loc="lower left")
show(
    fig,
    alt="One minus the cosine to the Att-SVM against step, both logarithmic. For p and for W it falls "
    "steadily to below 0.0001; with the textbook gradient, and with the winner's entry set to zero, it "
    "follows at first and turns up after about 150 steps, to above 0.5. With that entry restored it falls "
    "like W's.",
)

# %% [markdown]
# **Figure 4.** A hundred random trials: distance of the direction from the Att-SVM of the tokens that each
# run has selected in the end; medians, and for the first three the middle 80%.

# %% [markdown]
# The textbook run approaches the same solution, then turns round. Losing that one entry, and nothing else,
# does the same to the cured gradient; putting it back, and nothing else, cures the textbook. The entry
# carries $k_\alpha$: with it the forces of a sequence are comparisons $k_\alpha - k_t$, without it they are
# $-k_t$, and $p$ or $W$ runs away from the losing keys instead of towards the selected one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.8 Where it breaks
#
# The theorem needs a feasible Att-SVM and a choice that beats its support tokens strictly. Take each away.
#
# **No direction singles the token out.** Put the best token between two others: keys $(-1, 0)$, $(0, b)$,
# $(1, 0)$ with scores $0, 1, 0$. For $b > 0$ the Att-SVM has margin $b$. At $b = 0$ the best key lies in the
# convex hull of the others, and *no* $p$ prefers it to both.
#
# **Tied scores.** Keys $(1, 0)$, $(0.8, 0.6)$, $(0, 0)$ with scores $1, 1, 0$. Nothing pushes token 1 and
# token 2 apart: the comparison between them exerts no force at all, but the Att-SVM contains it. Each tied
# token is a support token of the other, so neither is locally optimal and the theorem is silent.

# %%
between = {}
for b in (0.5, 0.1, 0.0):
    three = np.array([[-1, 0], [0, b], [1, 0]])
    path = descend(np.array([0.73, 0.0]), three, np.array([0.0, 1.0, 0.0]), steps=4000)
    between[b] = attention(path, three)[:, 1], np.linalg.norm(path, axis=-1)
on_best, norm = between[0.0]
print(f"b = 0: attention on the best token {on_best[-1]:.2f}, norm of p at most {norm[10:].max():.2f}")
assert norm[10:].max() < 0.1  # below one step length for good
assert on_best.max() < 1 / 3 + 1e-9
assert abs(on_best[-1] - 1 / 3) < 0.01
assert between[0.1][0][400] > 0.95
assert between[0.1][1][400] > 30

# the best token is singled out by no direction, and yet p runs off: another token is locally optimal
five, five_scores = np.array([[-0.5, 0], [2, 0], [0, 2], [0, -2], [-2, 0]]), np.array([1, 0.9, 0, 0, 0])
five_starts = np.random.default_rng(0).normal(size=(20, 2)) * 2
path = descend(five_starts, five, five_scores, steps=3000)
runs = (attention(path[-1], five)[:, 1] > 0.999).sum()
print(f"five tokens: token 2 has all attention in {runs} of 20 runs")
assert (attention(path[-1], five)[:, 1] > 0.999).all()
assert (np.linalg.norm(path[-1], axis=-1) > 290).all()

tied, tied_scores = np.array([[1, 0], [0.8, 0.6], [0, 0]]), np.array([1.0, 1.0, 0.0])
tied_starts = np.array([[0, -2], [0, -0.5], [1, 0], [0, 0.5], [1, 1], [-1, 2]])
tied_path = descend(tied_starts, tied, tied_scores, steps=2000)
full = np.array([att_svm(tied[None], np.array([token])) for token in (0, 1)])
reduced = tied[:2]  # without the tied comparison only k_alpha - 0 is left: the key itself, of length 1
winner = attention(tied_path[-1], tied).argmax(axis=-1)
unit = tied_path[-1] / np.linalg.norm(tied_path[-1], axis=-1, keepdims=True)  # (6, 2)
to_full = (unit * full[winner]).sum(axis=-1) / np.linalg.norm(full[winner], axis=-1)
to_reduced = (unit * reduced[winner]).sum(axis=-1)
print(f"ties: cosine to the Att-SVM {to_full.mean():.1f}, without the tied comparison {to_reduced.min():.3f}")
for token in (0, 1):  # the tied rival is a support token
    assert np.isclose(full[token] @ (tied[token] - tied[1 - token]), 1)
assert np.allclose(to_full, 0.6, atol=0.05)
assert to_reduced.min() > 0.999
hopeless = torch.tensor([[[-1.0, 0], [0, 0], [1, 0]], [[0, 1], [0, 1], [1, 0]]], dtype=torch.float64)
problem = svm.token_problem(hopeless[:, None], torch.tensor([[1], [1]]))  # between two others; twice the same
assert list(svm.solve(problem, throw=False).status) == ["infeasible", "infeasible"]

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
looks = ((BLUE, "-"), (GREEN, "--"), (ORANGE, "-."))
for (b, (on_best, _)), (color, line) in zip(between.items(), looks, strict=True):
    left.plot(on_best[:401], line, color=color, label=f"$b = {b:g}$")
left.axhline(1 / 3, color=BLACK, linestyle=":", linewidth=1.5)
left.text(150, 0.25, "one third", fontsize=11)
left.set(xlabel="step", ylabel="attention on the best token", ylim=(0, 1.05))
left.legend(loc="center right", bbox_to_anchor=(1, 0.6))
draw_rays(right, reduced)
draw_rays(right, full, style=":")
draw_paths(right, tied_path, tied, window=(-2, 9, -4, 7))
right.text(3.6, -3.6, "Att-SVM, token 1", fontsize=11)
right.text(0.2, 6.2, "Att-SVM, token 2", fontsize=11)
right.text(3.5, -0.7, "token 1 without the tie", fontsize=11)
right.text(3.0, 2.5, "token 2 without the tie", fontsize=11, rotation=36.9, rotation_mode="anchor")
show(
    fig,
    alt="Left: attention on the best token against steps. For b = 0.5 and 0.1 it goes to one, for b = 0 it "
    "stays at one third. Right: six paths in the p-plane for tied scores run along two dashed rays, the keys "
    "of the tied tokens, and not along the two dotted rays of the Att-SVM.",
)

# %% [markdown]
# **Figure 5.** Left: the best token between two others, lifted by $b$; normalised descent from $(0.73, 0)$.
# Right: tied scores. Paths run along the dashed rays, the Att-SVM without the tied comparison (solid: token 1
# wins, broken: token 2), and not along the dotted ones, the full Att-SVM of each tied token.

# %% [markdown]
# Left: with $b = 0.1$ the best token still wins, only later: the margin is small. With $b = 0$ the solver
# reports *infeasible* for it, and neither end token is locally optimal (the best one is its support token):
# $\|p\|$ falls below one step length and stays there, and attention on the best token never exceeds $1/3$.
# But an infeasible best token does not mean soft attention. If some other token is locally optimal, $p$ can
# run off to that one: of the five tokens with keys $(-\frac12, 0), (2, 0), (0, \pm 2), (-2, 0)$ and scores
# $1, 0.9, 0, 0, 0$ the best lies inside the hull, and from 20 of 20 starts all attention goes to token 2.
#
# Right: $\|p\|$ diverges and the direction converges, to the *wrong* SVM, the one without the tied
# comparison: its cosine with that is above 0.999. A word that occurs twice in a sentence is the extreme case:
# equal keys, equal scores, an infeasible Att-SVM, and attention shared half and half for ever.
#
# With Figure 4 these are the breaks, and how to recognise each:
#
# | situation | what you see | cosine to the winner's Att-SVM |
# |---|---|---|
# | no choice is locally optimal ($b = 0$) | $\lVert p \rVert$ bounded, attention soft | there is no winner |
# | the best token cannot be put ahead | another wins, if locally optimal | tends to 1, for that token |
# | tied scores | $\lVert p \rVert$ diverges, direction converges elsewhere | settles at 0.6 here |
# | winner's entry lost | the direction turns round | above 0.99, then below 0.5 |

# %% [markdown]
# ## 6.9 Several sequences *(optional)*
#
# ### Exercise 06.6: Every start, several sequences
#
# ★★★ · 12 minutes
#
# Section 6.5 showed for one sequence that every step leads forward. Show the same for $n$ sequences, $L(p) =
# \frac1n \sum_i \ell\big(\sum_t s_{it} \gamma_{it}\big)$: if in every sequence all tokens but the best have
# equal scores, and the Att-SVM of the best tokens is feasible, then $-\nabla L(p) \cdot p_{\mathrm{mm}} > 0$
# at every $p$. Say where you use each assumption, and which term spoils the argument when the lower scores
# differ. Answer in words: double click the next cell to write in it; the solution's notebook has a model
# answer.
#
# <details><summary>Hint</summary>
#
# Write the gradient of section 6.2 once for each sequence and average. Which pairs of tokens are left? What
# does the Att-SVM say about each of them?
# </details>

# %% [markdown] tags=["written"] exercise="06.6"
# ### BEGIN SOLUTION
# The gradient of an average is the average of the gradients. With section 6.2 for each sequence,
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
# because softmax never gives 0, the difference of scores because $\alpha_i$ is the best token, and the last
# one is at least 1. *Feasible*: one $p_{\mathrm{mm}}$ satisfies the constraints of all sequences together. So
# the sum is positive at every $p$, and no $p$ is stationary.
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
# How the softmax gradient is computed, and how far the winners were ahead when the cosine turned: near a lead
# of 37 (Figure 4)? Then whether the selected tokens were read at the end.
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
# - In 100 random problems, all selections were locally optimal; global were 6 of 47 where that is feasible
#   for $p$, and 72 of 100 for $W$.
# - It breaks where a token cannot be put ahead, where scores tie, and where the gradient loses the winner's
#   entry.
#
# ## Further reading
#
# D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
# 2023, arXiv 2306.13596): the theorem and the toy. D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak,
# *Transformers as Support Vector Machines* (2023, arXiv 2308.16898): the same for $W$ and for keys and
# queries. D. Soudry and others, *The Implicit Bias of Gradient Descent on Separable Data* (JMLR 2018, arXiv
# 1710.10345): the linear result underneath.
#
# **New in the library:** [`geometry.selected_tokens`](../mini_attn/geometry.py),
# [`geometry.locally_optimal`](../mini_attn/geometry.py), [`models.CrossAttention`](../mini_attn/models.py),
# [`svm.token_problem`](../mini_attn/svm/problem.py),
# [`svm.attention_problem`](../mini_attn/svm/problem.py), [`train.growing`](../mini_attn/train.py).
#
# **Next:** [lesson 07](07_local_global_tokens.ipynb): cones, basins, and when local optima disappear.
