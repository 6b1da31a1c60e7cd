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
# - explain, one force at a time, why gradient descent tends to its solution;
# - say how fast $\|p\|$ grows, and on the toy how far beside its ray a path ends;
# - decide from the data whether attention can stay with a given token, and from where;
# - name the situations in which the prediction fails, and recognise each by what it does.
#
# **You need** lesson 01 (margin, direction, $\log t$), lesson 02 (hard-margin SVM, nonnegative least squares)
# and lesson 05 (softmax attention and its gradient). Reckon with 90 minutes for four exercises, and with 30
# more for the optional sections 6.7 to 6.10, which hold another exercise and a written question.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp
from scipy.optimize import nnls

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.softmax import textbook_softmax

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
# "Never" is a long time. So we do not stop: with 2,000 steps of length 1 on to $\|p\| = 2030$, the winners
# are the same. (By then the largest losing attention is near $e^{-2000}$, and so is the gradient: without the
# logarithms of lesson 05 both would long be 0.)

# %%
assert winners["equal"].tolist() == [1, 1, 1, 1, 1, 1]
assert winners["spread"].tolist() == [1, 1, 1, 1, 2, 2]
for name, scores in (("equal", equal), ("spread", spread)):
    far = descend(paths[name][-1], keys, scores, steps=2000, lr=1)[[70, -1]]
    assert np.array_equal(attention(far, keys).argmax(axis=-1) + 1, [winners[name]] * 2)
    assert np.abs(np.linalg.norm(far, axis=-1) - [[100], [2030]]).max() < 3
    unit = far / np.linalg.norm(far, axis=-1, keepdims=True)
    cosines = (unit * (rays / np.linalg.norm(rays, axis=1)[:, None])[winners[name] - 1]).sum(axis=-1)
    early, last = cosines.min(axis=1)
    print(f"scores {scores}, least cosine to its ray: at norm 100 {early:.4f}, at norm 2,030 {last:.6f}")
    assert cosines[0].min() > 0.9995
    assert cosines[1].min() > 0.99999

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.2 Forces between tokens
#
# Where does a gradient step push $p$, and how hard? What matters about a selected token $\alpha$ is whom it
# is ahead of. So we look at its **comparisons** with the others, $a_t = k_\alpha - k_t$.

# %% [markdown]
# ### Exercise 06.1: How hard each comparison pushes
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
@exercise("06.1")
def pushes(p, keys, scores, selected):
    """Return c_t for each token, (T,), for p (d,), keys (T, d), scores (T,) and a token number selected."""
    ### BEGIN SOLUTION
    s = attention(p, keys)
    return s[selected] * s * (scores[selected] - scores)
    ### END SOLUTION


# %%
check("06.1", pushes)

# %% [markdown]
# What you have found:
#
# $$-\nabla L(p) = |\ell'| \sum_{t < \tau} s_t\, s_\tau\, (\gamma_t - \gamma_\tau)\, (k_t - k_\tau).$$
#
# Each pair exerts a force along the line between its two keys, towards the one with the higher score, in
# proportion to the attention that both still get. A pair with equal scores exerts none.
#
# Suppose token $\alpha$ is winning, with the **lead** $\Delta_t = h_\alpha - h_t = p \cdot a_t$ over token
# $t$, and all leads grow. Compare a pair of losers $(t, \tau)$ that exerts a force with a pair that contains
# $\alpha$. At least one of the two losers scores differently from $\alpha$, say $t$. Then $(\alpha, t)$
# exerts a force too, and attention on the two losers, $s_t s_\tau$, is $s_\tau / s_\alpha = e^{-\Delta_\tau}$
# times attention on that pair: beside it the losers' pair dies out.
#
# What remains are the $T - 1$ pairs $(\alpha, t)$, with strengths
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
    far_out = c @ (keys[1] - keys)  # the pairs (alpha, t) alone
    full = -gradient(p, keys, spread)
    alike = far_out @ full / np.linalg.norm(far_out) / np.linalg.norm(full)
    print(f"{step:4d} {c[0]:+.0e}  {c[2]:+.0e}  {alike:.6f}")
    if step == 0:
        at_first = c[2] / -c[0]
assert alike > 0.999999, again.format("06.1")
assert np.isclose(at_first, 9 * np.exp(1.5)), again.format("06.1")
assert c[2] / -c[0] > 400, again.format("06.1")

# %% [markdown]
# Token 3 is worse than token 2, so it pushes $p$ along $k_2 - k_3$ and strengthens token 2. Token 1 is
# better, so its strength is negative: it pulls $p$ away. At the start its pull is 40 times weaker than the
# push of token 3: nine times because token 2 beats token 3 by 0.9 and loses to token 1 by 0.1, and $e^{1.5}
# \approx 4.5$ times because from this start token 1 is further behind. So the push of token 3 begins to
# decide, and what keeps it decided is that token 1 falls *further behind*: its exponential $e^{-p \cdot a_t}$
# dies faster, and at step 300 its pull is more than 400 times weaker. Section 6.5 derives from where on. The
# last column confirms that the pair without $\alpha$ soon does not matter.

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
def comparisons(keys, selected):
    """The rows k_alpha - k_t, (n (T - 1), d), by i, then t, for keys (n, T, d) and tokens selected (n,)."""
    own = np.arange(keys.shape[1]) == selected[:, None]  # (n, T)
    return (keys[own][:, None] - keys)[~own]


def att_svm(keys, selected):
    """p_mm (d,) for keys (n, T, d) and token numbers selected (n,), as in lesson 02."""
    A = comparisons(keys, selected)
    # distance from (0, ..., 0, 1) to the cone of the columns (a_t, 1): lesson 02
    lam, distance = nnls(np.vstack([A.T, np.ones(len(A))]), np.r_[np.zeros(A.shape[1]), 1.0])
    if distance < 1e-9:
        raise ValueError("infeasible: no p prefers the selected tokens to all others")
    return A.T @ lam / (1 - lam.sum())


for token in (0, 1):
    p_mm = att_svm(keys[None], np.array([token]))
    library = svm.solve(svm.token_problem(torch.tensor(keys[None]), torch.tensor([token])))
    print(f"token {token + 1}: p_mm = {p_mm}, half its squared norm {p_mm @ p_mm / 2:.5f}")
    assert np.allclose(p_mm, library.value, atol=1e-9)
    assert library.gap < 1e-9  # the certificate of lesson 02
global_p, local_p = att_svm(keys[None], np.array([0])), att_svm(keys[None], np.array([1]))
assert round(global_p @ global_p / 2, 5) == 0.49505
assert round(local_p @ local_p / 2, 5) == 0.5
assert np.allclose(global_p / global_p[1], rays[0])
assert np.allclose(local_p, rays[1])

# %% [markdown]
# The paper's code prints the same two objectives, 0.49505 and 0.50000. These are the dashed rays of Figure 1:
# fact 3 is made plausible. (Section 6.2 assumed that $\alpha$ wins and all leads grow; section 6.5 has a
# theorem.) Training never saw an SVM, and the SVM never saw a score: keys decide *the direction* for
# each $\alpha$; scores and start decide *which* $\alpha$. The cosines printed below Figure 1 are the
# measurement.

# %% [markdown]
# ### Exercise 06.2: Two rivals
#
# ★★☆ · 8 minutes
#
# One sequence has three tokens, so the selected one has two comparisons, `a` and `b`, in $d$ dimensions,
# neither of which is a multiple of the other. How far is it ahead of each rival *at the Att-SVM*? Return the
# two leads $p_{\mathrm{mm}} \cdot a$ and $p_{\mathrm{mm}} \cdot b$, in this order. You need no solver: which
# of the two constraints are tight?
#
# <details><summary>Hint</summary>
#
# With the comparison $a$ alone, $p_{\mathrm{mm}} = a / \|a\|^2$, of length $1 / \|a\|$. Begin with the rival
# that asks for the longer $p$. If that $p$ is ahead of the other rival by 1 or more, you are done. If not,
# both constraints are tight.
# </details>


# %%
@exercise("06.2")
def leads_of_two(a, b):
    """Return the leads over two rivals at p_mm, (2,), for the comparisons a (d,) and b (d,)."""
    ### BEGIN SOLUTION
    # a @ b / (b @ b): the lead over a at the SVM of b alone. Only the longer comparison's can exceed 1
    return np.array([max(1, a @ b / (b @ b)), max(1, a @ b / (a @ a))])
    ### END SOLUTION


# %%
check("06.2", leads_of_two)
for token, p_mm in ((0, global_p), (1, local_p)):
    a, b = comparisons(keys[None], np.array([token]))
    print(f"token {token + 1} selected: leads {np.round(leads_of_two(a, b), 3)} over the others")
    assert np.allclose(leads_of_two(a, b), [p_mm @ a, p_mm @ b]), again.format("06.2")
assert np.allclose(leads_of_two(a, b), [1.1, 1]), again.format("06.2")

# %% [markdown]
# In the toy, whichever of tokens 1 and 2 is selected, only token 3 is as close as 1. The other rival is
# further behind, by a factor 1.1. Keep this tenth in mind.

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
# With small steps the *path* is common to both, because normalising changes the
# length of a step and not its direction. On our toy it can be found with a pencil.

# %% [markdown]
# ### Exercise 06.3: How far beside the ray?
#
# ★★★ · 15 minutes
#
# Keys $(-b, 1)$, $(1, 0)$, $(0, 0)$ with $b > 0$ (the toy has $b = 0.1$), and the two lower scores equal.
# Every path becomes parallel to ray 1, the direction of $(-b, 1)$. At what distance from it? Take steps so
# small that the path is a curve, start at $p$, and return the distance in the limit, counted positive to the
# *right* of the ray: on the side of $(1, b)$.
#
# 1. Which pairs exert a force? In which proportion? Write down $dp_2 / dp_1$.
# 2. Separate the variables and integrate: some expression in $p_1$ and $p_2$ is the same all along the path.
# 3. Far out $p_1 \to -\infty$. What is left of the expression?
#
# <details><summary>Hint for 1</summary>
#
# Tokens 2 and 3 tie, so the pairs $(1, 2)$ and $(1, 3)$ are left, with strengths in the proportion $s_2 : s_3
# = e^{p_1} : 1$. They push along $k_1 - k_2$ and $k_1 - k_3$.
# </details>
#
# <details><summary>Hint for 2</summary>
#
# The step is along $e^{p_1} (-1 - b,\ 1) + (-b,\ 1)$: divide its second component by its first. And
# $$\int \frac{1 + e^x}{b + (1 + b)\, e^x}\, dx = \frac{x}{b} - \frac{\log(b + (1 + b)\, e^x)}{b\,(1 + b)} .$$
# </details>
#
# <details><summary>Hint for 3</summary>
#
# Multiply by $b$, so that $p_1 + b\, p_2$ occurs: it is $\sqrt{1 + b^2}$ times the distance. As $p_1 \to
# -\infty$, only $e^{p_1}$ dies.
# </details>


# %%
@exercise("06.3")
def beside_ray(p, b):
    """Return how far from ray 1 the path from p (2,) ends, positive to its right; b is a number."""
    ### BEGIN SOLUTION
    turned = np.log(1 + (1 + b) * np.exp(p[0]) / b) / (1 + b)
    return (p[0] + b * p[1] - turned) / np.sqrt(1 + b**2)
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


rate = 10 * 0.1 * 1.01 / (1 + np.exp(1))  # eta (gamma_1 - gamma_3) ||k_1||^2 |l'(1)|
foreseen = np.hypot(length * np.log(rate * steps), beside_ray(np.zeros(2), 0.1))
print(f"norm after {steps} plain steps from 0: {np.linalg.norm(plain[-1, 2]):.3f}, predicted {foreseen:.3f}")
short = descend(starts, keys, equal, 10_000, lr=0.01)[-1] @ right_of_ray
missed = [np.abs(found - [beside_ray(p, 0.1) for p in starts]).max() for found in (beside, short)]
print(f"largest miss with steps of 0.1: {missed[0]:.4f}, of 0.01: {missed[1]:.4f}")
assert missed[0] < 0.01, again.format("06.3")
assert 8 < missed[0] / missed[1] < 12, again.format("06.3")
assert np.abs(conserved(plain) - conserved(starts)).max() < 0.003
assert np.isclose(beside_ray(np.zeros(2), 0.1), -np.log(12) / 1.1 / np.sqrt(1.01)), again.format("06.3")
assert abs(foreseen - np.linalg.norm(plain[-1, 2])) < 0.05, again.format("06.3")


# %% jupyter={"source_hidden": true}
def norm_and_angle(path):
    """Norm, and angle to the ray of token 1 in degrees."""
    norm = np.linalg.norm(path, axis=-1)
    return norm, np.degrees(np.arccos(path @ global_p / norm / length))


fig, (clock, turn) = plt.subplots(1, 2, figsize=(9.5, 3.8))
for path, color, marker, name in ((plain, BLUE, "o", "plain"), (fixed, ORANGE, "s", "normalised")):
    at = np.unique(np.geomspace(1, len(path), 25).astype(int))
    style = {"marker": marker, "markersize": 5, "linestyle": "", "color": color, "label": name}
    clock.semilogx(at, norm_and_angle(path[at - 1, 2])[0], **style)
    turn.loglog(*norm_and_angle(path[at - 1, 2]), **style)
j = np.geomspace(1, steps)
j = j[j > 10]  # the prediction is for large j
clock.plot(
    j, np.hypot(length * np.log(rate * j), beside_ray(np.zeros(2), 0.1)), "--", color=BLUE, linewidth=1.5
)
clock.plot(j, 0.1 * j, "--", color=ORANGE, linewidth=1.5)
norm = np.geomspace(10, 100)  # here too
side = abs(beside_ray(np.zeros(2), 0.1))
turn.plot(norm, np.degrees(np.arcsin(side / norm)), "--", color=BLACK, linewidth=1.5, label="predicted")
clock.set(xlabel="step $j$", ylabel=r"$\|p_j\|$", ylim=(0, 13))
turn.set(xlabel=r"$\|p\|$", ylabel="angle to ray 1 (degrees)")
turn.set_yticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"])
turn.minorticks_off()
clock.legend()
turn.legend()
show(
    fig,
    alt="Left: norm of p against step, logarithmic step axis; plain descent ends on a straight dashed line "
    "and reaches 8.8 after 20,000 steps, normalised descent leaves the picture after 130. Right: angle to "
    "the ray against the norm; both methods lie on one falling curve, in the end on the dashed prediction.",
)

# %% [markdown]
# **Figure 2.** Scores (1, .9, .9), start at 0, steps $\eta = 10$ (plain) and $0.1$ (normalised). Left: the
# norm; dashed, the two predictions. Right: the angle to the ray of token 1 against the norm; dashed,
# $\arcsin(2.25 / \|p\|)$, the limit of exercise 06.3. Nothing is fitted.

# %% [markdown]
# Left: near the ray each plain step adds $\eta\, |\ell'(1)|\, (\gamma_1 - \gamma_3)\, e^{-\Delta}\,
# \|k_1\|^2$ to the lead, which gives $\Delta = \log(\eta\, |\ell'(1)|\, (\gamma_1 - \gamma_3)\, \|k_1\|^2
# j)$. With the distance 2.25 beside the ray, $\|p_j\| = \sqrt{(\|p_{\mathrm{mm}}\| \Delta)^2 + 2.25^2}$: 8.85
# after 20,000 steps, measured 8.82. Right: both methods lie on one curve, and from all six starts the
# expression of exercise 06.3 moves by less than 0.003 in 20,000 plain steps. Normalised steps of 0.1 miss by
# less than 0.01, steps of 0.01 by a tenth of that: a longer step cuts the corner more.
#
# So $p = \Delta\, p_{\mathrm{mm}} + r$ with a remainder $r$ that tends to a vector *across* the ray, of
# length 2.25 from the start at 0, and the angle falls like $\|r\| / \|p\|$, whatever the clock. In this
# course we mostly train with normalised steps; small ones lead to the same ray, and we can see it. How long
# would plain steps need for $\|p\| = 100$? There $\Delta = \sqrt{100^2 - 2.25^2} / 0.995$, and the clock says
# $j = e^\Delta / 0.27$.

# %%
needed = np.exp(np.sqrt(100**2 - beside_ray(np.zeros(2), 0.1) ** 2) / length) / rate
print(f"norm 100: plain, after about 10^{np.log10(needed):.0f} steps; ", end="")
print(f"normalised, after about {1000 + (100 - np.linalg.norm(fixed[-1, 2])) / 0.1:.0f}")
assert 44 < np.log10(needed) < 44.4, again.format("06.3")
assert (round(length, 3), round(rate, 2)) == (0.995, 0.27)
assert round(np.linalg.norm(plain[-1, 2]), 2) == 8.82

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


# %%
def beats_support(keys, scores, selected, p_mm):
    """Whether each alpha_i scores higher than its support tokens, (n,); all: locally optimal."""
    i = np.arange(len(keys))
    h = keys @ p_mm  # (n, T)
    support = np.isclose(h[i, selected][:, None] - h, 1, atol=1e-6)
    return ~(support & (scores >= scores[i, selected][:, None])).any(axis=1)


for scores in (equal, spread):
    for token, p_mm in ((0, global_p), (1, local_p)):
        kept = beats_support(keys[None], scores[None], np.array([token]), p_mm)[0]
        print(f"scores {scores}, token {token + 1}:", "locally optimal" if kept else "not locally optimal")
        assert kept == (token == 0 or scores is spread)

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix $v$, let $\ell$ be smooth
# > with $\ell' < 0$ everywhere, and run gradient descent on $p$ with a small constant step.
# >
# > *Local.* Let $\alpha$ be locally optimal and its Att-SVM feasible. From every start that is close enough
# > to $p_{\mathrm{mm}}(\alpha)$ in direction and far enough from the origin, $\|p_j\| \to \infty$ and
# > $p_j/\|p_j\| \to p_{\mathrm{mm}}(\alpha)/\|p_{\mathrm{mm}}(\alpha)\|$.
# >
# > *Global.* Let there be **one** sequence, with one best token, all others of equal scores, and a feasible
# > Att-SVM. Then the same holds from **every** start, with the best token as $\alpha$.
#
# How close, how far and how small depend on the data and on each other. Our figures take normalised steps,
# for which the theorem says nothing. For small ones section 6.4 is why we expect the same (plain steps of 10
# from the starts of Figure 1 do choose the same tokens); for the growing ones of section 6.6 we measure.
#
# The global half is fact 1: with equal lower scores every force is one with the best token, and has a
# positive part along $p_{\mathrm{mm}}$. (Exercise 06.6 proves $\|p\| \to \infty$ from this. That the
# *direction* converges takes the paper more work; on the toy, exercise 06.3 did it. With several sequences it
# may converge elsewhere: lesson 12 has runs in which three carry the fourth to a worse token.)

# %%
for name, scores in (("equal", equal), ("spread", spread)):
    end = descend(starts, keys, scores, steps=2000, lr=10, normalise=False)[-1]
    assert np.array_equal(attention(end, keys).argmax(axis=-1) + 1, winners[name])

# %% [markdown]
# Fact 2 is explained as well. The only support token of token 2 is token 3. On the left it ties with token 2
# and exerts no force, so token 1's weak pull is the only one left. Making token 3 worse gives token 2
# something to beat.
#
# Where, then, is the border between the two destinations? Far out it can be derived.

# %% [markdown]
# ### Exercise 06.4: Where is the border?
#
# ★★★ · 15 minutes
#
# Keys as in exercise 06.3, $(-b, 1)$, $(1, 0)$, $(0, 0)$ with $b > 0$, now with scores $\gamma_1 > \gamma_2 >
# \gamma_3$. Far to the right, where $p_1$ is large, token 2 is ahead of token 3, and $e^{-p_1}$ may be
# neglected. Token 1 takes the attention over from the starts above some line, and never from those below it.
# Take small steps, and return the height $p_2$ of the line at a given $p_1$.
#
# 1. Two pairs are left, $(2, 3)$ and $(2, 1)$. In which proportion do they push?
# 2. Call the **excess** $E$ the lead of token 2 over token 1 minus its lead over token 3. How does $E$ change
#    along the path?
# 3. On the line $E$ stands still.
#
# <details><summary>Hint for 1</summary>
#
# The pair $(2, 3)$ pushes along $k_2 - k_3 = (1, 0)$ with $s_2 s_3 (\gamma_2 - \gamma_3)$, the pair $(2, 1)$
# along $k_1 - k_2 = (-1 - b, 1)$ with $s_2 s_1 (\gamma_1 - \gamma_2)$. What is $s_1 / s_3$, in terms of $E$?
# </details>
#
# <details><summary>Hint for 2</summary>
#
# Write both leads in $p_1$ and $p_2$, and $E$ with them. By how much does a step $(dp_1, dp_2)$ change $E$?
# Both pairs change it.
# </details>
#
# <details><summary>Hint for 3</summary>
#
# Divide both pairs' shares of $dE$ by $s_2 s_3$: $E$ is left in one exponential only. Then $p_2 = b p_1 - E$.
# </details>


# %%
@exercise("06.4")
def border(p1, b, scores):
    """Return the height p_2 of the border at p1, a number, for b > 0 and scores (3,), decreasing."""
    ### BEGIN SOLUTION
    best, second, third = scores
    excess = np.log((1 + b + b**2) * (best - second) / (b * (second - third)))
    return b * p1 - excess
    ### END SOLUTION


# %%
check("06.4", border)

# %%
third_scores = (0.0, 0.8, 0.89)
print("  b   scores            border at p_1 = 20   token that wins from 0.02 above, below")
families = [(0.1, (1, 0.9, third)) for third in third_scores]
families += [(0.3, (1, 0.9, 0.4)), (0.1, (1, 0.5, 0.1)), (0.5, (1, 0.8, 0.75))]
for b, three in families:
    line = np.array([border(p1, b, np.array(three)) for p1 in (8, 20, 40)])
    beside = np.array([[[p1, p2 + 0.02], [p1, p2 - 0.02]] for p1, p2 in zip((8, 20, 40), line, strict=True)])
    ends = descend(beside, np.array([[-b, 1], [1, 0], [0, 0]]), np.array(three), steps=1500, lr=0.2)[-1]
    found = attention(ends, np.array([[-b, 1], [1, 0], [0, 0]])).argmax(axis=-1) + 1
    print(f"{b:4} {three!s:20s} {line[1]:14.2f} {found[1]!s:>22s}")
    assert (found == [1, 2]).all(), again.format("06.4")
on_ray = np.log(1.11 * 0.1 / (0.1 * 0.01)) / 0.1  # where the line for 0.89 meets ray 2, p_2 = 0
assert np.isclose(border(on_ray, 0.1, np.array([1, 0.9, 0.89])), 0), again.format("06.4")
assert round(on_ray, 1) == 47.1
ends = descend(np.array([[46.8, 0], [47.4, 0]]), keys, np.array([1, 0.9, 0.89]), steps=2000)[-1]
assert list(attention(ends, keys).argmax(axis=-1)) == [0, 1]
assert round(np.degrees(np.arctan(0.1)), 1) == 5.7

# %% [markdown]
# You have found
#
# $$dE \;\propto\; b - C\, e^{-E}, \qquad
# C = (1 + b + b^2)\, \frac{\gamma_1 - \gamma_2}{\gamma_2 - \gamma_3} .$$
#
# Left alone, the excess grows at the rate $b$, because at the Att-SVM of token 2 token 1 is $1 + b$ behind,
# not 1: that is the tenth of exercise 06.2. The pull of token 1 works against it. Above $E = \log(C / b)$ the
# excess grows, and token 1 is forgotten. Below, the excess falls, the pull becomes stronger, and token 2 is
# lost. Starts only 0.02 beside the line go where it says, in all eighteen pairs.
#
# So far out token 2's region is a **cone** (its tip is round: Figure 3). Its upper edge is parallel to $(1,
# b)$, 5.7 degrees above ray 2, for *every* $\gamma_3 < \gamma_2$. What $\gamma_3$ changes is how far out it
# begins. As $\gamma_3$ rises to 0.9, the edge moves to the right. At 0.89 it meets ray 2 at $p_1 = 47.1$: a
# start at $(46.8, 0)$ is lost, one at $(47.4, 0)$ stays. At 0.9 the logarithm is infinite, and the cone is
# gone.
#
# A cone in the plane has two edges. **Predict** the other: far to the *left*, where $p_1 \to -\infty$, token
# 3 holds the attention, and tokens 1 and 2 race to take it over. From which starts does token 2 arrive first?
#
# <details><summary>Answer</summary>
#
# Now the pairs $(1, 3)$ and $(2, 3)$ are left. They push along $(-b, 1)$ and $(1, 0)$, in the proportion
# $(\gamma_1 - \gamma_3)\, e^{h_1 - h_2} : \gamma_2 - \gamma_3$. The difference $h_1 - h_2 = p_2 - (1 + b)\,
# p_1$ stands still where $(1 + b + b^2) (\gamma_1 - \gamma_3)\, e^{h_1 - h_2} = (1 + b) (\gamma_2 -
# \gamma_3)$, so the left edge is
#
# $$p_2 = (1 + b)\, p_1 + \log \frac{(1 + b) (\gamma_2 - \gamma_3)}{(1 + b + b^2) (\gamma_1 - \gamma_3)} .$$
#
# </details>


# %%
def left_edge(p1, third, b=0.1):
    """Height p_2 of the other edge at p_1, for scores (1, 0.9, third): see the answer above."""
    return (1 + b) * p1 + np.log((1 + b) * (0.9 - third) / ((1 + b + b**2) * (1 - third)))


grid = np.linspace(-8, 8, 41)
plane = np.stack(np.meshgrid(grid, grid), axis=-1)  # (41, 41, 2) starts
second_wins = []
for third in third_scores:
    ends = descend(plane, keys, np.array([1, 0.9, third]), steps=300, lr=0.2)[-1]
    second_wins.append(attention(ends, keys).argmax(axis=-1) == 1)
    line = np.array([border(p1, 0.1, np.array([1, 0.9, third])) for p1 in grid])  # rows of plane: p_2
    below, left = plane[..., 1] < line, plane[..., 1] < left_edge(grid, third)
    one, two = (second_wins[-1] == below).mean(), (second_wins[-1] == (below & left)).mean()
    print(
        f"score {third}: of all starts agree with the run, upper edge alone {one:.3f}, both edges {two:.3f}"
    )
    assert one < 0.95 < 0.99 < two, again.format("06.4")
    p1 = np.array([[-10.0], [-30.0]])  # far out, 0.02 above and below the left edge
    near = np.array([0.02, -0.02])
    beside = np.stack(np.broadcast_arrays(p1, left_edge(p1, third) + near), axis=-1)
    ends = descend(beside, keys, np.array([1, 0.9, third]), steps=1500, lr=0.1)[-1]
    assert (attention(ends, keys).argmax(axis=-1) == [0, 1]).all()
upper = descend(np.array([[0, -0.8], [0, -0.9]]), keys, spread, steps=400)[-1]
assert list(attention(upper, keys).argmax(axis=-1)) == [0, 1]

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.7), sharey=True)
for ax, third, wins in zip(axes, third_scores, second_wins, strict=True):
    colors = ListedColormap([BLUE, ORANGE])
    ax.pcolormesh(grid, grid, wins, cmap=colors, vmin=0, vmax=1, alpha=0.6, rasterized=True)
    draw_rays(ax, rays)
    span = np.linspace(-8, 8, 401)
    upper = np.array([border(p1, 0.1, np.array([1, 0.9, third])) for p1 in span])
    meets = left_edge(span, third) > upper
    ax.plot(span[meets], upper[meets], color=BLACK, linewidth=2)
    ax.plot(span[~meets], left_edge(span[~meets], third), "-.", color=BLACK, linewidth=2)
    ax.text(-7, 4, "token 1 wins")
    ax.text(0, -6.8, "token 2 wins")
    ax.set(xlim=(-8, 8), ylim=(-8, 8), aspect="equal", xlabel="start $p_1$")
    ax.set_title(rf"$\gamma_3 = {third:g}$")
axes[0].set_ylabel("start $p_2$")
show(
    fig,
    alt="Three maps of starts in the square from -8 to 8. Blue starts end at token 1, orange at token 2. "
    "The orange region lies at the lower right, below a straight line that rises slowly to the right and to "
    "the right of a steep one. For a third score of 0 the first line runs just above ray 2; for 0.8 and 0.89 "
    "it lies near p2 = -2 and p2 = -4.",
)

# %% [markdown]
# **Figure 3.** Where normalised descent ends, start by start, for three scores of token 3: at token 1 or, in
# the darker region at the lower right, at token 2. Dashed: the two Att-SVM directions. Solid: the border of
# exercise 06.4; dash-dotted: the left edge. Each is derived far out and drawn up to where they meet; together
# they are right for more than 99% of the 1,681 starts.

# %% [markdown]
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
# ## 6.6 Random problems
#
# We draw 100 trials of $n = 6$ sequences with $T = 8$ tokens each, in
# $d = 10$ dimensions, all vectors uniform on the unit sphere, keys equal to tokens, labels by a fair coin.
# One $p$ has to serve six sequences: 42 comparisons in 10 dimensions. We do this twice, and on the same data,
# as a look ahead to lesson 10, with a *query* $z_i$ in each sequence and a trained matrix $W$, logits
# $h_{it} = x_{it}^\top W z_i$. Then the comparisons are the 42 matrices
# $(x_{i\alpha_i} - x_{it})\, z_i^\top$, in 100 dimensions; nothing else changes. And 6,000 more such runs of
# $p$ are stored with the course.
#
# All start from zero and take 2,000 normalised steps. Some runs change tokens late, so we take steps that
# grow, of length $0.1 \sqrt{j}$. Selected tokens are read at the end, their SVMs solved, and each path
# compared with its own solution. The library trains all 100 *trials* at once, as one model.
#
# **Predict before you run on.** A choice that knows nothing of the scores is locally optimal if each of its
# support tokens happens to score lower. Choices by a random $p$ have eight support tokens, spread over the
# six sequences. How many of 100,000 pass, if their scores are shuffled: about $100{,}000 \cdot 2^{-8} \approx
# 400$?

# %%
TRIALS = 100
record_at = [100, 150, 300, 2000]


def att_svm_of(Model, tokens, selected):
    """The Att-SVMs of selected tokens (trials, n), as far as they are feasible."""
    if Model is models.PromptAttention:
        return svm.solve(svm.token_problem(tokens.keys, selected), throw=False)
    return svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), throw=False)


def logits(Model, weights, tokens):
    return Model(d=tokens.X.shape[-1], trials=TRIALS, init=weights).logits(tokens)


def run(Model, tokens, steps=2000, **options):
    """Train all trials, then solve the Att-SVM of the tokens that each has selected."""
    model = Model(d=tokens.X.shape[-1], trials=TRIALS)
    (name,) = dict(model.named_parameters())  # "p" or "W"
    history = train.fit(
        model,
        tokens,
        optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1),  # each trial has its own norm
        steps=steps,
        schedule=train.growing,  # step j has length 0.1 sqrt(j)
        record={"weights": lambda m: getattr(m, name)},
        every=record_at,
        progress=False,
        **options,
    )
    s = model.attention(tokens).detach()
    selected = geometry.selected_tokens(s)  # (trials, 6)
    target = att_svm_of(Model, tokens, selected).value
    from_target = [1 - geometry.cosine(w, target) for w in history["weights"][1:]]  # step 0 has no direction
    return {
        "weights": history["weights"][-1],
        "error": torch.stack(from_target),  # (records, trials)
        "selected": selected,
        "target": target,
        "soft": s.amax(-1).amin(-1) < 0.99,  # some sequence has not decided
        "local": geometry.locally_optimal(tokens.scores, logits(Model, target, tokens), selected),
        "global": (selected == tokens.optimal).all(dim=-1),
        "possible": torch.as_tensor(att_svm_of(Model, tokens, tokens.optimal).status == "optimal"),
    }


Prompt, Cross = models.PromptAttention, models.CrossAttention
drawn = {seed: data.random_tokens(n=6, T=8, d=10, trials=TRIALS, seed=seed) for seed in (14, 15)}
results = {f"p, data {seed}": run(Prompt, drawn[seed]) for seed in drawn}
results |= {f"W, data {seed}": run(Cross, drawn[seed]) for seed in drawn}
print("100 trials   cosine above .995   median   locally optimal   globally optimal   global feasible")
for name, found in results.items():
    error = found["error"][-1]
    counts = [found[key].sum().item() for key in ("local", "global", "possible")]
    print(f"{name:12s} {(error < 0.005).sum():17d} {1 - error.median():8.5f} ", end="")
    print(f"{counts[0]:17d} {counts[1]:18d} {counts[2]:17d}")
    assert error.median() < 2e-5
    expected = {"p, data 14": [99, 5, 35], "p, data 15": [99, 7, 44]}
    expected |= {"W, data 14": [100, 70, 100], "W, data 15": [100, 68, 100]}
    assert counts == expected[name]
    assert (error < 0.005).sum() == counts[0]
    assert not found["soft"].any()
norm = torch.cat([results[f"p, data {seed}"]["weights"].norm(dim=-1) for seed in drawn]).median().item()
walked = 0.1 * np.sqrt(np.arange(1, 2001)).sum()
print(f"p walks {walked:.0f}; its norm has the median {round(norm, -2):.0f}")
assert 0.3 < norm / walked < 0.34

stored = measured("06.choices").load()  # (d, trial, after 100, 300, 1,000 and 2,000 steps)
local, soft, close = (stored[name].sel(d=10).values[:, -1] for name in ("local", "soft", "close"))
print(
    f"6,000 stored runs of p: {(~local).sum()} not locally optimal, {(close & ~local).sum()} of them with a ",
    end="",
)
print(f"cosine above 0.995; below it are {(~close).sum()}, {(~close & local).sum()} of them locally optimal")
flat = stored["local"].sel(d=3).values[:, -1].sum()
print(f"6,000 stored runs in three dimensions: {flat:,d} locally optimal")
assert [(~local).sum(), (close & ~local).sum(), (~close).sum(), soft.sum(), flat] == [11, 11, 18, 0, 4606]

# %%
tokens = drawn[14]
generator = torch.Generator().manual_seed(0)
guess = torch.randn(TRIALS, 10, generator=generator, dtype=torch.float64)
picked = logits(Prompt, guess, tokens).argmax(-1, keepdim=True)  # (trials, 6, 1)
at_picked = logits(Prompt, att_svm_of(Prompt, tokens, picked[..., 0]).value, tokens)
support = torch.isclose(at_picked.gather(-1, picked) - at_picked, torch.ones(()).double(), atol=1e-6)
m = support.sum(-1)  # support tokens of each sequence, (trials, 6)
shuffled = torch.rand(1000, *support.shape, generator=generator)  # the SVM never saw a score: any will do
best = shuffled.gather(-1, picked.expand(1000, -1, -1, -1))
passed = ((shuffled < best) | ~support).all(-1).all(-1).double().mean().item()
law, halves = (1 / (1 + m)).prod(-1).mean().item(), (0.5 ** m.sum(-1)).mean().item()
print(
    f"{m.sum(-1).double().mean():.1f} support tokens; of 100,000 shuffled choices {passed:.2%} pass; ", end=""
)
print(f"one half for each token: {halves:.2%}, product of 1 / (1 + m): {law:.2%}")
assert abs(passed / law - 1) < 0.06 < 0.5 < passed / halves - 1

# %% [markdown]
# **The prediction holds, nearly.** All 400 runs decide, and 398 of them point along the Att-SVM of their
# tokens with a cosine above 0.995, in the median above 0.99998. (Neither section 6.4 nor the theorem covers
# these runs: steps that long overshoot, and two thirds of $p$'s way is zigzag. That the direction converges
# all the same is measured, not derived.)
#
# **In ten dimensions, attention selects locally optimal tokens**: 5,989 of the 6,000 stored choices, and all
# 200 made by $W$. In three, with less room for six sequences, it is 4,606 of 6,000 choices of $p$. (The runs
# of $p$ above are no fair sample: we chose data 14 and 15 because each holds a rare exception. See section
# 6.7.)
#
# This is no accident: of choices that know nothing of the scores hardly one in a hundred passes. That is more
# than $2^{-8}$, because the support tokens of a sequence have one and the same rival. The selected token has
# to be the best of $1 + m_i$ tokens, for which the chance is $1 / (1 + m_i)$, and
#
# $$\prod_i \frac{1}{1 + m_i}$$
#
# is 1.1% in the mean over these choices.
#
# **Globally optimal** is another matter: 5 and 7 of 100 for $p$, although the global choice is feasible in 35
# and 44; for $W$ it always is, and 70 and 68 runs end there. Lessons 07 and 12 say how dimensions help.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.7 A forbidden choice can stand still *(optional)*
#
# Two runs are exceptions: a support token scores higher, and yet the run stays. Is the criterion wrong, or
# the run not at its end? Go back to the toy, and turn $b$ negative: token 1's key becomes $(F, 1)$ with
# $F = -b > 0$. In the direction $(1, 0)$ token 2 is now ahead of token 1 by only $1 - F$, so at the
# Att-SVM of token 2 both others are tight, and the better one is among them: token 2 is not locally optimal.
# The derivation of exercise 06.4 never used the sign of $b$, so
#
# $$dE \;\propto\; -F - C\, e^{-E} \;<\; 0 .$$
#
# No start keeps token 2. But as long as the excess $E$ is large, the pull of token 1 is not felt at all, and
# $E$ falls only because token 1 is a little closer: **by $F$ for each unit that the lead grows**. The
# pull takes over near $E = \log(C/F)$. From $E_0$ on, the lead of token 2 has grown by about
#
# $$\frac{E_0 - \log(C / F)}{F}$$
#
# before token 1 takes over. (Near the turn the pull slows the lead, too: the estimate is 4 to 5 units too
# large here.) On this toy it cannot gain more than $E_0 / F$: the pull only hastens the loss. Plain descent
# needs an exponential number of steps for that.

# %%
print("    F   lead gained   roughly   E_0 / F    token that wins")
for short in (0.05, 0.02, 0.005):
    toy = np.array([[short, 1], [1, 0], [0, 0]])
    begin = np.array([6.0, -8.0])
    assert not beats_support(toy[None], spread[None], np.array([1]), att_svm(toy[None], np.array([1])))[0]
    excess = -short * begin[0] - begin[1]
    C = (1 - short + short**2) * (1 - 0.9) / 0.9
    roughly = (excess - np.log(C / short)) / short
    path = descend(begin, toy, spread, steps=int(20 * roughly))  # of length 0.1
    gained = path[:, 0].max() - begin[0]
    winner = attention(path[-1], toy).argmax() + 1
    print(f"{short:5} {gained:13.1f} {roughly:9.1f} {excess / short:9.1f} {winner:18d}")
    assert 3 < roughly - gained < 5 < excess / short - roughly
    assert winner == 1

# %% [markdown]
# ### Exercise 06.5: How slowly does it lose?
#
# ★★☆ · 10 minutes
#
# In several sequences, too, there is an $F$. Let `A` hold the comparisons with all support tokens as
# rows, no more than $d$, linearly independent. The row number `row`, call it $a_*$, belongs to the support
# token that scores higher, and $E$ is by how much it is further behind than the nearest other token. As
# long as its pull is not felt, $p$ runs along the Att-SVM *without* that row. Return $F$: by how much
# the lead $p \cdot a_*$ there falls short of 1. Assume that all other rows stay tight.
#
# <details><summary>Hint</summary>
#
# The SVM without that row is the *shortest* $p$ with $a \cdot p = 1$ for all other rows. Which function of
# `np.linalg` finds it?
# </details>


# %%
@exercise("06.5")
def falls_short(A, row):
    """Return F = 1 - a . p, a number, for row a of A (rows, d) at the Att-SVM p without that row."""
    ### BEGIN SOLUTION
    rest = np.delete(A, row, axis=0)
    without = np.linalg.pinv(rest) @ np.ones(len(rest))  # the shortest solution
    return 1 - A[row] @ without
    ### END SOLUTION


# %%
check("06.5", falls_short)


# %% [markdown]
# Now the two exceptions. First we let each run go on to step 50,000. Then we find the support token that
# scores higher, and predict $F$. The run's own steps cannot test that: they zigzag by more than $E$. Far out
# the force is known, the sum of section 6.2 over all sequences, so we hand the equation $dp/d\tau =
# \text{force} / \|\text{force}\|$ to a solver that adapts its steps (`LSODA`), until that token is nearly
# level.


# %%
def run_on(A, strength, p, row):
    """From p at unit speed along sum_i strength_i exp(-a_i . p) a_i until p . A[row] is 5: (steps, d)."""

    def direction(_, p):
        lead = A @ p
        force = (strength * np.exp(lead.min() - lead)) @ A
        return force / np.linalg.norm(force)

    def nearly_lost(_, p):
        return A[row] @ p - 5

    nearly_lost.terminal = True
    found = solve_ivp(direction, (0, 1e6), p, method="LSODA", events=nearly_lost, rtol=1e-6, atol=1e-6)
    assert len(found.t_events[0]) == 1
    return found.y.T


held = {}
for seed in (14, 15):
    tokens, found = drawn[seed], results[f"p, data {seed}"]
    weights = att_svm_of(Prompt, tokens, found["selected"]).dual  # (trials, 42)
    share = weights / weights.sum(-1, keepdim=True)
    light = (
        (share.where(share > 1e-9, 1).amin(-1) < 0.005).sum().item()
    )  # trials with a support token below 0.5%
    (trial,) = torch.where(~found["local"])[0].tolist()
    part = data.TokenData(*(a[[trial]] for a in (tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys)))
    K, score, selected = (a[trial].numpy() for a in (tokens.keys, tokens.scores, found["selected"]))
    p_mm, p = found["target"][trial].numpy(), found["weights"][trial].numpy()
    A = comparisons(K, selected)
    best = score[np.arange(6), selected][:, None]  # the selected token's score
    strength = (best - score) / (1 + np.exp(best))  # |l'| (gamma_alpha - gamma_t)
    strength = strength[np.arange(8) != selected[:, None]]
    tight = np.isclose(A @ p_mm, 1, atol=1e-5)
    (row,) = np.where(tight & (strength < 0))[0]
    short = falls_short(A[tight], int(tight[:row].sum()))
    path = run_on(A, strength, p, row)
    lead = np.delete(path @ A.T, row, axis=1).min(axis=1)
    excess = path @ A[row] - lead
    end = lead.argmax()
    at = [np.searchsorted(lead[:end], part_way * lead[end]) for part_way in (0.5, 0.8)]
    slope = np.diff(excess[at])[0] / np.diff(lead[at])[0]
    print(
        f"data {seed}, trial {trial}: {tight.sum()} support tokens, F {short:.5f}; the excess falls by ",
        end="",
    )
    print(f"{-slope:.5f} per unit of lead; lost at lead {round(lead[end], -2):.0f}")
    gained = (lead[end] - lead[0]) / (excess[0] / short)
    print(f"  E_0 {excess[0]:.1f}, at most {excess.max():.1f}; the lead gains {gained:.2f} of E_0 / F")
    print(f"  its weight is {share[trial, row]:.4f} of the sum; some weight is below .005 in {light} of 100")
    assert abs(slope / -short - 1) < 0.01, again.format("06.5")
    if seed == 15:
        assert (round(excess[0], 1), round(excess.max(), 1), round(gained, 2)) == (42.2, 46.3, 1.1)
    assert share[trial, row] < 0.0005
    assert 20 <= light <= 27
    assert excess[0] > 40
    assert found["error"][-1, trial] < 0.1  # a cosine above 0.9
    model = Prompt(d=10, trials=1)  # from 0 once more, and on
    descent = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, part, descent, 50_000, schedule=train.growing, progress=False)
    after = geometry.selected_tokens(model.attention(part))[0].numpy()
    i, t = np.argwhere(np.arange(8) != selected[:, None])[row]
    assert np.array_equal(after, np.where(np.arange(6) == i, t, selected))  # that one token has changed
    assert beats_support(K, score, after, att_svm(K, after)).all()  # to a locally optimal choice
    held[seed] = lead[: end + 1], excess[: end + 1], short

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7, 3.4))
for (seed, (lead, excess, short)), color, line in zip(held.items(), (BLUE, ORANGE), ("-", "-."), strict=True):
    ax.plot(lead, excess, line, color=color, label=f"data {seed}")
    middle = np.searchsorted(lead, 0.7 * lead[-1])
    x = np.array([0, lead[-1]])
    ax.plot(x, excess[middle] - short * (x - lead[middle]), "--", color=BLACK, linewidth=1.5)
    ax.plot(lead[-1], 0, "o", color=color)
ax.set(xlabel=r"lead $\Delta$", ylabel="excess $E$", ylim=(-3, 90))
ax.text(7500, 5, "token changes", color=plots.ink("blue"), fontsize=11)
ax.text(14700, 13, "token\nchanges", color=plots.ink("vermillion"), fontsize=11, ha="right")
ax.legend()
show(
    fig,
    alt="Excess against lead for the two runs. After an early drop both curves fall along straight dashed "
    "lines, of slopes -0.0041 and -0.0033, and then within a short stretch to zero, at leads of 7,400 and "
    "14,600.",
)

# %% [markdown]
# **Figure 4.** The two exceptions, followed from step 2,000 on: the excess $E$ against the smallest lead
# $\Delta$ over all other tokens. Dashed: the slope $-F$ of exercise 06.5, hung on the curve at 70% of its
# way. Dots: $E = 0$.

# %% [markdown]
# **The criterion is right, and patience is short.** With their own growing steps both runs have changed one
# token by step 50,000, to a locally optimal choice. On the smooth path they hold until $\Delta$ is 7,400 and
# 14,600, with $F = 0.0041$ and $0.0033$. Once the other rows have settled, $E$ falls by $F$ per unit of lead,
# to 1%. Before that it need not: with data 15 it first *rises*, from 42.2 to 46.3, and the lead gains 1.10
# times $E_0 / F$, more than it could on the toy.
#
# These two show the law so well because they set out with a large excess. What of the eleven exceptions among
# the stored runs? They were followed in the same way. From here on $F$ is taken at the SVM of *all* other
# comparisons. That changes its definition: exercise 06.5 assumed that the other rows stay tight.

# %%
followed = measured("06.followed").load().sel(d=10)
lost = np.isfinite(followed["lost"].values)
assert np.array_equal(lost, ~local)  # all eleven
F, assumed, begin, excess, end, settled = (
    followed[name].values[lost] for name in ("F", "assumed", "lead", "excess", "lost", "local")
)
used = (end - begin) / (excess / F)
print("    F   06.5's F    E_0   lead at first   when lost   gained, of E_0 / F")
for k in end.argsort():
    print(f"{F[k]:.4f} {assumed[k]:8.4f} {excess[k]:7.1f} {begin[k]:11.0f} {end[k]:14.0f} {used[k]:16.2f}")
print(f"with growing steps, at step 10,000: {settled.sum()} of {len(F)} choices are locally optimal")
assert [round(x) for x in (end.min(), end.max())] == [213, 1484]
assert [round(float(x), 1) for x in (excess.min(), excess.max())] == [3.5, 10.3]
assert [round(float(x), 2) for x in (used.min(), used.max())] == [0.05, 0.84]
wrong = assumed / F
assert (np.abs(wrong - 1) < 0.001).sum() == 8
assert [round(x) for x in np.sort(wrong)[-3:]] == [21, 21, 42]
assert settled.sum() == 11

# %% [markdown]
# All eleven are lost, and early: on the smooth path, and under their own growing steps by step 10,000. From
# so small an excess the pull is felt all the way, so $F$ is not the clock: they gain 0.05 to 0.84 of $E_0/F$.
# (A count; the bound is the toy's.) In eight the other rows stay tight, as exercise 06.5 assumes; in three
# they do not, and the exercise's $F$ is 21 to 42 times too large.
#
# Neither a step budget nor the cosine can tell such a run from one that has arrived: all eleven stood above
# 0.995, and the 18 of the 6,000 below it are locally optimal. The criterion can, and the weight says how
# slowly such a choice is lost: $F = \lambda_*$ times a squared length (that of the part of $a_*$ that is
# orthogonal to the other rows, if they stay tight), and in Figure 4 $\lambda_*$ is 0.0001 and 0.0003
# of the sum. (A small weight alone tells nothing: a quarter of the runs have one below 0.005 of the sum, and
# all but these two are locally optimal.) So the count of exceptions depends on how far $p$ has come, and on
# the dimension:

# %%
print("stored runs of p, 6,000 each")
print("  d  steps   locally optimal: decided   soft   not: decided   soft")
odd = {}
for d in (10, 3):
    for i, steps in enumerate((100, 300, 1000, 2000)):
        local, soft = (stored[name].sel(d=d).values[:, i] for name in ("local", "soft"))
        counts = [c.sum() for c in (local & ~soft, local & soft, ~local & ~soft, ~local & soft)]
        print(f"{d:3d} {steps:6,d} {counts[0]:26,d} {counts[1]:6,d} {counts[2]:14,d} {counts[3]:6,d}")
        odd[d, steps] = sum(counts[2:]) / 6000
assert 0.07 < odd[10, 100] < 0.1
assert round(6000 * odd[10, 2000]) == 11
assert 0.21 < odd[3, 2000] < 0.25
forbidden = ~stored["local"].sel(d=3).values[:, -1]
near = stored["close"].sel(d=3).values[forbidden, -1]
print(f"d = 3, 2,000 steps, not locally optimal: cosine above 0.995 in {near.sum()} of {len(near):,d}")
assert (near.sum(), len(near)) == (684, 1394)

longer = measured("06.trained_on").load().sel(d=3)  # d = 3, not locally optimal: short steps from there on
resting = np.zeros(600, bool)
for steps in (5000, 20_000, 100_000):
    cell = longer.sel(steps=steps)
    share = cell.share.values  # of the way walked in the last 1,000 steps; NaN where it was locally optimal
    assert not (resting & ~(share < 0.01)).any()  # who stands still once, stands still for good
    resting = share < 0.01
changed = ((share > 0.05) & cell.local.values).sum()
print(
    f"d = 3, 600 other runs: {np.isfinite(share).sum()} not locally optimal; after 100,000 steps of 0.1 ",
    end="",
)
print(f"{resting.sum()} of them stand still, {changed} have moved on to a locally optimal choice")
assert (resting.sum(), changed, np.isfinite(share).sum()) == (97, 32, 133)

# %% [markdown]
# (*Soft*: some sequence gives no token 99% of its attention.) In ten dimensions one choice in twelve is not
# locally optimal after 100 steps, and one in five hundred after 2,000. In three dimensions it is still nearly
# a quarter, half of them with a cosine above 0.995. Trained on with short steps, 97 of 133 come to rest, at a
# finite $p$ where the pulls of the six sequences cancel, and 32 move on to a locally optimal choice; none
# that rests moves again. None of this contradicts the theorem, which promises something only near a locally
# optimal choice. Section 6.9 shows $p$ at rest in the plane, and a case that does stay soft.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.8 The same with the textbook gradient *(optional)*
#
# Lesson 05 says what to expect of the textbook gradient: once the winner leads by about 37, its own entry is
# lost, and the push goes away from the losing keys instead of towards the selected one. Is that what matters
# here? We train $W$ with the textbook gradient, and once more with the winner's entry replaced by minus the
# sum of the others: all other errors stay.


# %%
def restored(h, batch_dims=None):  # batch_dims would ask for the gradient in logarithms
    """The textbook softmax, with the winner's entry of its gradient put back."""
    if h.requires_grad:
        winner = torch.nn.functional.one_hot(h.detach().argmax(-1), h.shape[-1]).bool()
        h.register_hook(lambda g: g.where(~winner, -g.where(~winner, 0).sum(-1, keepdim=True)))
    return textbook_softmax(h)


results["W, textbook"] = run(Cross, drawn[14], 300, softmax=textbook_softmax)
results["W, entry restored"] = run(Cross, drawn[14], 300, softmax=restored)
print("median of 1 - cosine   after 100 steps   150      300")
for name in ("W, data 14", "W, textbook", "W, entry restored"):
    middle = results[name]["error"].nanmedian(dim=1).values
    end = "above 0.1" if middle[2] > 0.1 else f"{middle[2]:.4f}"  # far off, rounding decides how far
    print(f"{name:20s} {middle[0]:17.3f} {middle[1]:7.3f} {end:>10s}")
    assert middle[1] < 0.005
    assert 0.1 < middle[2] < 0.3 if name == "W, textbook" else middle[2] < 0.001

# %% [markdown]
# The textbook run approaches the same solution, to a cosine above 0.995, then turns round. Putting back that
# one entry cures it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.9 Where it breaks *(optional)*
#
# The theorem needs a feasible Att-SVM and a choice that beats its support tokens strictly. Take each away.
#
# **No direction singles the token out.** Put the best token between two others: keys $(-1, 0)$, $(0,
# \varepsilon)$, $(1, 0)$ with scores $0, 1, 0$. For $\varepsilon > 0$ the Att-SVM has margin $\varepsilon$.
# At $\varepsilon = 0$ the best key lies in the convex hull of the others, and *no* $p$ prefers it to both.
#
# **And a fourth token below.** Keys $(-1, 0)$, $(0, 0)$, $(1, 0)$, $(0, -1)$, scores $0, 1, 0.05, -1$. Again
# no choice is locally optimal: tokens 1 and 3 have token 2 as a support token, token 2 is infeasible, and
# token 4 is worse than all. *Predict before you run on:* does $\|p\|$ stay bounded?
#
# **Tied scores.** Keys $(1, 0)$, $(0.8, 0.6)$, $(0, 0)$ with scores $1, 1, 0$. Nothing pushes token 1 and
# token 2 apart: the comparison between them exerts no force at all, but the Att-SVM contains it. Each tied
# token is a support token of the other, so neither is locally optimal and the theorem is silent.

# %%
between = {}
for lift in (0.5, 0.1, 0.0):
    three = np.array([[-1, 0], [0, lift], [1, 0]])
    path = descend(np.array([0.73, 0.0]), three, np.array([0.0, 1.0, 0.0]), steps=4000)
    between[lift] = attention(path, three)[:, 1], np.linalg.norm(path, axis=-1)
on_best, norm = between[0.0]
print(f"epsilon = 0: attention on the best token {on_best[-1]:.2f}, norm of p at most {norm[10:].max():.2f}")
assert norm[10:].max() < 0.1  # below one step length for good
assert on_best.max() < 1 / 3 + 1e-9
assert abs(on_best[-1] - 1 / 3) < 0.01
assert between[0.1][0][400] > 0.95
assert between[0.1][1][400] > 30

# no choice is locally optimal, p runs off, and attention stays soft
four, four_scores = np.array([[-1, 0], [0, 0], [1, 0], [0, -1]]), np.array([0, 1, 0.05, -1])
path = descend(np.array([0.73, 0.0]), four, four_scores, steps=4000, lr=3, normalise=False)
norm = np.linalg.norm(path, axis=-1)
q = (0.1 + np.sqrt(0.1**2 + 4 * 0.95)) / (2 * 0.95)  # exp(p_1)
settled = np.array([1 / q, 1, q, 0]) / (1 / q + 1 + q)
print(
    f"four tokens: norm {norm[40]:.1f}, {norm[400]:.1f}, {norm[4000]:.1f} after 40, 400, 4,000 steps; ",
    end="",
)
print("attention", attention(path[-1], four).round(3), "predicted", settled.round(3))
assert np.abs(np.diff(norm[[40, 400, 4000]]) - np.log(10)).max() < 0.1
assert np.abs(attention(path[-1], four) - settled).max() < 1e-3

tied, tied_scores = np.array([[1, 0], [0.8, 0.6], [0, 0]]), np.array([1.0, 1.0, 0.0])
tied_starts = np.array([[0, -2], [0, -0.5], [1, 0], [0, 0.5], [1, 1], [-1, 2], [0, 0]])  # the last: between
tied_path = descend(tied_starts, tied, tied_scores, steps=2000)
full = np.array([att_svm(tied[None], np.array([token])) for token in (0, 1)])
reduced = tied[:2]  # without the tied comparison only k_alpha - 0 is left: the key itself, of length 1
winner = attention(tied_path[-1], tied).argmax(axis=-1)
unit = tied_path[-1] / np.linalg.norm(tied_path[-1], axis=-1, keepdims=True)  # (7, 2)
half = (tied[0] + tied[1]) / np.linalg.norm(tied[0] + tied[1])
assert np.allclose(unit[-1], half, atol=1e-3)
assert np.allclose(attention(tied_path[-1, -1], tied), [0.5, 0.5, 0], atol=1e-3)
unit, winner = unit[:-1], winner[:-1]
to_full = (unit * full[winner]).sum(axis=-1) / np.linalg.norm(full[winner], axis=-1)
to_reduced = (unit * reduced[winner]).sum(axis=-1)
print(f"ties: cosine to the Att-SVM {to_full.mean():.1f}, without the tied comparison {to_reduced.min():.3f}")
for token in (0, 1):  # the tied rival is a support token
    assert np.isclose(full[token] @ (tied[token] - tied[1 - token]), 1)
assert np.allclose(to_full, 0.6, atol=0.05)
assert to_reduced.min() > 0.999
many = descend(np.random.default_rng(1).normal(size=(1000, 2)) * 2, tied, tied_scores, steps=2000)[-1]
to_key = ((many @ reduced.T) / np.linalg.norm(many, axis=-1, keepdims=True)).max(axis=-1)
print(
    f"1,000 starts: cosine to the nearer key above 0.99 in {(to_key > 0.99).sum()}, least {to_key.min():.3f}"
)
assert (to_key > 0.99).sum() > 990
hopeless = torch.tensor([[[-1.0, 0], [0, 0], [1, 0]], [[0, 1], [0, 1], [1, 0]]], dtype=torch.float64)
problem = svm.token_problem(hopeless[:, None], torch.tensor([[1], [1]]))  # between two others; twice the same
assert list(svm.solve(problem, throw=False).status) == ["infeasible", "infeasible"]

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
looks = ((BLUE, "-"), (GREEN, "--"), (ORANGE, "-."))
for (lift, (on_best, _)), (color, line) in zip(between.items(), looks, strict=True):
    left.plot(on_best[:401], line, color=color, label=rf"$\varepsilon = {lift:g}$")
left.axhline(1 / 3, color=BLACK, linestyle=":", linewidth=1.5)
left.text(150, 0.25, "one third", fontsize=11)
left.set(xlabel="step", ylabel="attention on the best token", ylim=(0, 1.05))
left.legend(loc="center right", bbox_to_anchor=(1, 0.6))
draw_rays(right, reduced)
draw_rays(right, full, style=":")
draw_rays(right, half[None], style="-.")
draw_paths(right, tied_path[:, :-1], tied, window=(-10, 150, -70, 90))
right.plot(*tied_path[:, -1].T, color=BLACK)
right.text(55, -62, "Att-SVM, token 1", fontsize=11)
right.text(2, 80, "Att-SVM,\ntoken 2", fontsize=11, va="top")
right.text(60, -12, "token 1 without the tie", fontsize=11)
right.text(30, 28, "token 2 without the tie", fontsize=11, rotation=36.9, rotation_mode="anchor")
right.text(95, 22, "start at 0", fontsize=11)
show(
    fig,
    alt="Left: attention on the best token against steps. For epsilon = 0.5 and 0.1 it goes to one, for "
    "epsilon = 0 it stays at one third. Right: seven paths in the p-plane for tied scores, out to a norm of "
    "150. Six run along two dashed rays, the keys of the tied tokens, the seventh, black, half way between "
    "them; none follows the two dotted rays of the Att-SVM.",
)

# %% [markdown]
# **Figure 5.** Left: the best token between two others, lifted by $\varepsilon$; normalised descent from
# $(0.73, 0)$. Right: tied scores, seen from afar. Six paths run along the dashed rays, the Att-SVM without
# the tied comparison (solid: token 1 wins, broken: token 2), the one from 0 (black: a tie) between them, and
# none along the dotted rays, the full Att-SVM of each tied token.

# %% [markdown]
# Left: with $\varepsilon = 0.1$ the best token still wins, only later: the margin is small. With
# $\varepsilon = 0$ the solver reports *infeasible* for it, and neither end token is locally optimal (the
# best one is its support token): from this start $\|p\|$ falls below one step length and stays there, and
# attention on the best token never exceeds $1/3$. Four tokens: $\|p\|$ grows like $\log j$ all the same. The
# fourth is pushed out of sight, downwards, while the other three are left on a line, where nothing holds
# $p_1$ but a balance. With $q = e^{p_1}$, $f = (1 + 0.05\,q)/(q^{-1} + 1 + q)$ is largest where $0.95\,q^2 -
# 0.1\,q - 1 = 0$, at $q = 1.080$: attention $0.308, 0.333, 0.359, 0$, soft for ever beside a diverging $p$.
#
# An infeasible best token need not mean soft attention either: in section 6.6 the best choice was infeasible
# in 65 and 56 of 100 runs, and another one won in each of them.
#
# Right: $\|p\|$ diverges and the direction converges, to the *wrong* SVM, the one without the tied
# comparison. From $p = 0$ both tied tokens keep one half, and $p$ runs along $k_1 + k_2$; that is a ridge,
# from which a nearby start departs, but slowly: of 1,000 random starts nearly all are within a cosine of 0.99
# of one key after 2,000 steps. A selected word that occurs twice in a sentence is the extreme case: without
# positions in the keys they are equal, and so are the scores, the Att-SVM is infeasible, and both keep the
# same attention for ever. (A *repeated loser* does no harm: it gives the same constraint twice.)
#
# These are the breaks, and how to recognise each:
#
# | situation | what you see | cosine to the winner's Att-SVM |
# |---|---|---|
# | a support token scores higher | lost in the end, or $p$ rests | often above 0.995 |
# | no choice is locally optimal, no ties | $p$ rests, or runs off with soft attention | there is no winner |
# | the best token cannot be put ahead | another wins, if locally optimal | tends to 1, for that token |
# | tied scores | $\lVert p \rVert$ diverges, direction converges elsewhere | settles at 0.6 here |
# | winner's entry lost (section 6.8) | the direction turns round | above 0.99, then below 0.9 |

# %% [markdown]
# ## 6.10 Several sequences, and normalised steps *(optional)*
#
# ### Exercise 06.6: Every start, several sequences
#
# ★★★ · 12 minutes
#
# Let $L(p) = \frac1n \sum_i \ell\big(\sum_t s_{it} \gamma_{it}\big)$. In every sequence one token is best and
# all others have equal scores, and the Att-SVM of the best tokens is feasible. Show that every *normalised*
# step of length $\eta$, from any start, adds at least $\eta / a_{\max}$ to $p \cdot p_{\mathrm{mm}}$, where
# $a_{\max}$ is the length of the longest comparison: so $\|p_j\|$ grows in proportion to $j$. Say where you
# use each assumption, and which term spoils the argument when the lower scores differ. Answer in words:
# double click the next cell to write in it; the solution's notebook has a model answer.
#
# <details><summary>Hint</summary>
#
# Write $-\nabla L$ as $\sum w_{it} a_{it}$. What are the signs of the $w_{it}$? Then bound $-\nabla L \cdot
# p_{\mathrm{mm}}$ from below and $\|\nabla L\|$ from above, both by $\sum w_{it}$.
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
# $$-\nabla L(p) = \sum_{i,\, t \neq \alpha_i} w_{it}\, a_{it}, \qquad w_{it} = \frac1n |\ell_i'|\,
# s_{i\alpha_i} s_{it}\, (\gamma_{i\alpha_i} - \gamma_{it}) > 0 .$$
#
# Every factor is positive: the loss has a negative slope everywhere, softmax never gives 0, and $\alpha_i$ is
# the best token. *Feasible*: one $p_{\mathrm{mm}}$ has $p_{\mathrm{mm}} \cdot a_{it} \ge 1$ for all sequences
# together, so $-\nabla L \cdot p_{\mathrm{mm}} \ge \sum w_{it}$. By the triangle inequality $\|\nabla L\| \le
# a_{\max} \sum w_{it}$. A normalised step adds $\eta$ times the quotient, at least $\eta / a_{\max}$. Hence
# $\|p_j\| \ge (p_0 \cdot p_{\mathrm{mm}} + \eta j / a_{\max}) / \|p_{\mathrm{mm}}\|$.
#
# If the lower scores differ, the pairs of losers stay and add $(\gamma_{it} - \gamma_{i\tau})\,
# p_{\mathrm{mm}} \cdot (k_{it} - k_{i\tau})$. The Att-SVM compares each token with $\alpha_i$ and says
# nothing about the sign of this: two losers can push $p$ back, as tokens 2 and 3 do on the right of Figure 1.
# ### END SOLUTION

# %%
begin = np.array([[30, -30], [0, 0], [-20, -5]])
gains = np.diff(descend(begin, keys, equal, steps=1500) @ global_p, axis=0) / 0.1
bound = 1 / max(np.linalg.norm(keys[0] - keys[t]) for t in (1, 2))
print(f"toy, three starts: least growth of p . p_mm per unit of way {gains.min():.3f}, bound {bound:.3f}")
assert bound < gains.min() < 1.2 * bound

# 50 problems of four sequences with scores 1, .2, .2, .2, .2, each from a random start
several = data.random_tokens(n=4, T=5, d=16, trials=50, seed=6)
gamma = torch.tensor([1, 0.2, 0.2, 0.2, 0.2], dtype=torch.float64)
unit_head = several.v / (several.v**2).sum(-1, keepdim=True)
X = (several.y[..., None] * gamma)[..., None] * unit_head[:, None, None]
several = data.TokenData(X, several.z, several.y, several.v, several.keys)
p_mm = att_svm_of(Prompt, several, several.optimal).value
begin = 10 * torch.randn(50, 16, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
model = Prompt(16, trials=50, init=begin)
descent = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
record = {"p": lambda m: m.p}
path = train.fit(model, several, descent, 600, record=record, every=1, progress=False)["p"]
a_max = (several.keys[..., :1, :] - several.keys[..., 1:, :]).norm(dim=-1).amax((-1, -2))  # token 1 is best
gains = (path.diff(dim=0) * p_mm).sum(-1) / 0.1 * a_max
print(f"four sequences: least growth {gains.min():.3f} times the bound, median {gains.median():.1f} times")
assert 1 < gains.min() < 1.001

# %% [markdown]
# The bound cannot be improved: where the longest comparison is tight and alone still pushes, a step adds just
# $\eta / a_{\max}$.

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
# of 37 (section 6.8)? Then whether the selected tokens were read at the end.
# </details>

# %%
progress("06")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Late in training, the gradient on $p$ is that of a linear classifier whose data points are the comparisons
#   $k_\alpha - k_t$. So where a choice holds, $\|p\| \to \infty$ and $p$ turns to the **Att-SVM** of the
#   selected tokens: like $\|p_{\mathrm{mm}}\| \log j$ in $j$ steps of plain descent, in proportion to $j$
#   under normalised descent, along the same path as long as steps are small.
# - Keys give the direction of each candidate; scores decide which candidates can hold. A choice holds if it
#   is **locally optimal**: it has to beat its support tokens, not everybody. Which one is reached depends on
#   the start: on the toy, on which side of two lines.
# - In random problems with $d = 10$, 5,989 of 6,000 selections of $p$ were locally optimal after 2,000 steps,
#   and the other eleven had given way by step 10,000. In three dimensions nearly a quarter was not, and
#   mostly $p$ comes to rest there.
# - It breaks where a token cannot be put ahead, where scores tie, and where the gradient loses the winner's
#   entry.
#
# ## Further reading
#
# D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
# 2023, arXiv 2306.13596): the theorem and the toy. D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak,
# *Transformers as Support Vector Machines* (2023, arXiv 2308.16898): the same for $W$ and for keys and
# queries. B. Vasudeva, P. Deora, C. Thrampoulidis, *Implicit Bias and Fast Convergence Rates for
# Self-attention* (2024, arXiv 2402.05738): normalised steps, with rates. D. Soudry and others, *The Implicit
# Bias of Gradient Descent on Separable Data* (JMLR 2018, arXiv 1710.10345): the linear result underneath.
#
# **New in the library:** [`geometry.selected_tokens`](../mini_attn/geometry.py),
# [`geometry.locally_optimal`](../mini_attn/geometry.py), [`models.CrossAttention`](../mini_attn/models.py),
# [`svm.token_problem`](../mini_attn/svm/problem.py),
# [`svm.attention_problem`](../mini_attn/svm/problem.py), [`train.growing`](../mini_attn/train.py).
#
# **Next:** [lesson 07](07_local_global_tokens.ipynb): cones, basins, and when local optima disappear.
