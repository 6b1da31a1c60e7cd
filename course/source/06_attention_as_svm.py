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
# - decide from the data whether attention can stay with a given token, from where, and for how long;
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
from scipy.integrate import solve_ivp
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
# lesson 05 both would long be 0.)

# %%
assert winners["equal"].tolist() == [1, 1, 1, 1, 1, 1]
assert winners["spread"].tolist() == [1, 1, 1, 1, 2, 2]
for name, scores in (("equal", equal), ("spread", spread)):
    far = descend(starts, keys, scores, steps=20_000)[[1000, -1]]
    assert np.array_equal(attention(far, keys).argmax(axis=-1) + 1, [winners[name]] * 2)
    assert np.abs(np.linalg.norm(far[-1], axis=-1) - 2000).max() < 3
    unit = far / np.linalg.norm(far, axis=-1, keepdims=True)
    cosines = (unit * (rays / np.linalg.norm(rays, axis=1)[:, None])[winners[name] - 1]).sum(axis=-1)
    early, last = cosines.min(axis=1)
    print(f"scores {scores}, least cosine to its ray: step 1,000 {early:.4f}, step 20,000 {last:.6f}")
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
assert 30 < at_first < 50, again.format("06.1")
assert c[2] / -c[0] > 400, again.format("06.1")

# %% [markdown]
# Token 3 is worse than token 2, so it pushes $p$ along $k_2 - k_3$ and strengthens token 2. Token 1 is
# better, so its strength is negative: it pulls $p$ away. At the start its pull is more than 30 times weaker
# than the push of token 3; at step 300, more than 400 times. Token 1 loses this tug of war although it is the
# better token, because it falls *further behind*: its exponential $e^{-p \cdot a_t}$ dies faster. Section 6.5
# derives from where on. The last column confirms that the pair without $\alpha$ soon does not matter.

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
# fact 3 is explained. Training never saw an SVM, and the SVM never saw a score: scores decide *which*
# $\alpha$, keys decide *the direction*. The cosines printed below Figure 1 are the measurement: above 0.9995
# after 1,000 steps from each of the twelve starts, above 0.99999 after 20,000.

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
    if a @ a <= b @ b:
        return np.array([1, max(1, a @ b / (a @ a))])
    return np.array([max(1, a @ b / (b @ b)), 1])
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
# So much for the clocks. With small steps the *path* is common to both, because normalising changes the
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
# <details><summary>Hint for 1 and 2</summary>
#
# Tokens 2 and 3 tie, so the pairs $(1, 2)$ and $(1, 3)$ are left, with strengths in the proportion $s_2 : s_3
# = e^{p_1} : 1$. The step is along $e^{p_1} (-1 - b,\ 1) + (-b,\ 1)$. And
# $$\int \frac{1 + e^x}{b + (1 + b)\, e^x}\, dx = \frac{x}{b} - \frac{\log(b + (1 + b)\, e^x)}{b\,(1 + b)} .$$
# </details>
#
# <details><summary>Hint for 3</summary>
#
# $p_1 + b\,p_2 - \log(b + (1 + b) e^{p_1}) / (1 + b)$ stays what it was at the start. In the limit the
# logarithm is $\log b$. The distance is $(p_1 + b\, p_2) / \sqrt{1 + b^2}$.
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


fig, (clock, course) = plt.subplots(1, 2, figsize=(9.5, 3.8))
for path, color, marker, name in ((plain, BLUE, "o", "plain"), (fixed, ORANGE, "s", "normalised")):
    at = np.unique(np.geomspace(1, len(path), 25).astype(int))
    style = {"marker": marker, "markersize": 5, "linestyle": "", "color": color, "label": name}
    clock.semilogx(at, norm_and_angle(path[at - 1, 2])[0], **style)
    course.loglog(*norm_and_angle(path[at - 1, 2]), **style)
j = np.geomspace(1, steps)
j = j[j > 10]  # the prediction is for large j
clock.plot(
    j, np.hypot(length * np.log(rate * j), beside_ray(np.zeros(2), 0.1)), "--", color=BLUE, linewidth=1.5
)
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
# course we mostly train with normalised steps: same ray, and we can see it. How long would plain steps need
# for $\|p\| = 100$? The clock says $20{,}000\, e^{(100 - 8.8)/0.995}$.

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
# > *Global.* If in each sequence one token is best and all others have equal scores, the same holds from
# > **every** start with the best tokens as $\alpha$, provided their Att-SVM is feasible.
#
# How close, how far and how small depend on the data and on each other. Our figures take normalised steps,
# for which the theorem says nothing; section 6.4 is why we expect the same, and plain steps of 10 from the
# six starts of Figure 1 do choose the same tokens.
#
# Half of the global half takes a few lines. With equal lower scores only pairs with the best token exert a
# force, and every such force has a positive part along $p_{\mathrm{mm}}$:
#
# $$-\nabla L \cdot p_{\mathrm{mm}} = |\ell'|\, s_\alpha \sum_{t \neq \alpha} s_t\,
# (\gamma_\alpha - \gamma_t)\; p_{\mathrm{mm}} \cdot (k_\alpha - k_t) \;>\; 0 .$$
#
# So $p \cdot p_{\mathrm{mm}}$ grows at every step. In a ball the right-hand side has a positive minimum, so
# each step that begins there adds at least a fixed amount. If $p$ came back to the ball again and again, $p
# \cdot p_{\mathrm{mm}}$ would grow beyond what the ball allows. Hence $\|p\| \to \infty$, for steps of any
# size. (For several sequences, and for normalised steps, see section 6.10. That the *direction* converges too
# takes the paper more work; on the toy, exercise 06.3 did it.) That is fact 1.

# %%
for name, scores in (("equal", equal), ("spread", spread)):
    end = plain[-1] if name == "equal" else descend(starts, keys, scores, steps, lr=10, normalise=False)[-1]
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
# <details><summary>Hint for 1 and 2</summary>
#
# The leads are $(1 + b) p_1 - p_2$ and $p_1$, so $E = b p_1 - p_2$. The pair $(2, 3)$ pushes along $(1, 0)$,
# the pair $(2, 1)$ along $(-1 - b, 1)$, with strengths in the proportion $\gamma_2 - \gamma_3 : (\gamma_1 -
# \gamma_2)\, e^{-E}$. Both change $E$.
# </details>
#
# <details><summary>Hint for 3</summary>
#
# Up to a positive factor, $dE$ is $b\, (\gamma_2 - \gamma_3) - (1 + b + b^2)(\gamma_1 - \gamma_2)\, e^{-E}$.
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
on_ray = (
    np.log(1.11 * 0.1 / (0.1 * 0.01)) / 0.1
)  # where the line meets ray 2, p_2 = 0, for a third score of 0.89
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
# So token 2's region is a **cone**: its edge is parallel to $(1, b)$, 5.7 degrees above ray 2, for *every*
# $\gamma_3 < \gamma_2$. What $\gamma_3$ changes is how far out it begins. As $\gamma_3$ rises to 0.9, the
# edge moves to the right. At 0.89 it meets ray 2 at $p_1 = 47.1$: a start at $(46.8, 0)$ is lost, one at
# $(47.4, 0)$ stays. At 0.9 the logarithm is infinite, and the cone is gone.

# %%
grid = np.linspace(-8, 8, 41)
plane = np.stack(np.meshgrid(grid, grid), axis=-1)  # (41, 41, 2) starts
second_wins = []
for third in third_scores:
    ends = descend(plane, keys, np.array([1, 0.9, third]), steps=300, lr=0.2)[-1]
    second_wins.append(attention(ends, keys).argmax(axis=-1) == 1)
    line = np.array([border(p1, 0.1, np.array([1, 0.9, third])) for p1 in grid])  # rows of plane: p_2
    agree = second_wins[-1] == (plane[..., 1] < line)
    print(
        f"score {third}: line and run agree on {agree[:, grid > 2].mean():.3f} of the starts with p_1 > 2,",
        end=" ",
    )
    print(f"{agree.mean():.3f} of all")
    assert agree[:, grid > 2].mean() > 0.99, again.format("06.4")
upper = descend(np.array([[0, -0.8], [0, -0.9]]), keys, spread, steps=400)[-1]
assert list(attention(upper, keys).argmax(axis=-1)) == [0, 1]

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.7), sharey=True)
for ax, third, wins in zip(axes, third_scores, second_wins, strict=True):
    colors = ListedColormap([BLUE, ORANGE])
    ax.pcolormesh(grid, grid, wins, cmap=colors, vmin=0, vmax=1, alpha=0.6, rasterized=True)
    draw_rays(ax, rays)
    right = np.linspace(0, 8)
    line = [border(p1, 0.1, np.array([1, 0.9, third])) for p1 in right]
    ax.plot(right, line, color=BLACK, linewidth=2)
    ax.text(-7, 4, "token 1 wins")
    ax.text(0, -6.8, "token 2 wins")
    ax.set(xlim=(-8, 8), ylim=(-8, 8), aspect="equal", xlabel="start $p_1$")
    ax.set_title(rf"$\gamma_3 = {third:g}$")
axes[0].set_ylabel("start $p_2$")
show(
    fig,
    alt="Three maps of starts in the square from -8 to 8. Blue starts end at token 1, orange at token 2. "
    "The orange region lies at the lower right, below a straight line that rises slowly to the right. For a "
    "third score of 0 the line runs just above ray 2; for 0.8 and 0.89 it lies near p2 = -2 and p2 = -4.",
)

# %% [markdown]
# **Figure 3.** Where normalised descent ends, start by start, for three scores of token 3: at token 1 or, in
# the darker region at the lower right, at token 2. Dashed: the two Att-SVM directions. Solid: the border of
# exercise 06.4, drawn from $p_1 = 0$ on, though it is derived for large $p_1$.

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
# Toys can be chosen; random data cannot. We draw 100 trials of $n = 6$ sequences with $T = 8$ tokens each, in
# $d = 10$ dimensions, all vectors uniform on the unit sphere, keys equal to tokens, labels by a fair coin.
# One $p$ has to serve six sequences: 42 comparisons in 10 dimensions. We do this three times, and once, as a
# look ahead to lesson 10, with a *query* $z_i$ in each sequence and a trained matrix $W$, logits $h_{it} =
# x_{it}^\top W z_i$. Then the comparisons are the 42 matrices $(x_{i\alpha_i} - x_{it})\, z_i^\top$, in 100
# dimensions; nothing else changes.
#
# All start from zero and take 2,000 normalised steps. Some runs change tokens late, so we take steps that
# grow, of length $0.1 \sqrt{j}$. Selected tokens are read at the end, their SVMs solved, and each path
# compared with its own solution. The library trains all 100 *trials* at once, as one model; given the six
# starts of Figure 1 as trials, it takes the same six paths.
#
# **Predict before you run on.** A choice made by a $p$ that knows nothing of the scores is locally optimal if
# each of its support tokens happens to score lower. With about ten support tokens, how many of 100 such
# choices pass?

# %%
TRIALS = 100
record_at = [1, 3, 10, 20, 50, 100, 150, 200, 300, 500, 700, 1000, 1400, 2000]


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
drawn = {seed: data.random_tokens(n=6, T=8, d=10, trials=TRIALS, seed=seed) for seed in (2, 14, 15)}
results = {f"p, data {seed}": run(Prompt, drawn[seed]) for seed in drawn}
results["W, data 2"] = run(Cross, drawn[2])
print("100 trials   cosine: least  median   locally optimal   globally optimal   global feasible")
for name, found in results.items():
    error = found["error"][-1]
    counts = [found[key].sum().item() for key in ("local", "global", "possible")]
    print(f"{name:12s} {1 - error.max():12.3f} {1 - error.median():9.5f} ", end="")
    print(f"{counts[0]:12d} {counts[1]:17d} {counts[2]:17d}")
    assert error.median() < 2e-5
    expected = {"p, data 2": [100, 6], "p, data 14": [99, 5], "p, data 15": [99, 7], "W, data 2": [100, 72]}
    assert counts[:2] == expected[name]
    assert not found["soft"].any()
along = torch.cat([found["error"][-1] < 0.005 for found in results.values()]).sum().item()
print(f"cosine above 0.995: {along} of 400")
assert along == 398
norm = torch.cat([results[f"p, data {seed}"]["weights"].norm(dim=-1) for seed in drawn])
walked = 0.1 * np.sqrt(np.arange(1, 2001)).sum()
print(f"p walks {walked:.0f}; its norm has the median {norm.median():.0f}")
assert 0.25 < norm.median() / walked < 0.4

# %%
tokens = data.toy_one_sequence(scores=tuple(spread))
six = models.PromptAttention(d=2, trials=6, init=torch.tensor(starts))
train.fit(six, tokens, optim.NormalizedGD(six.parameters(), lr=0.1, batch_dims=1), steps=300, progress=False)
assert np.allclose(six.p.detach(), paths["spread"][-1], atol=1e-9)

random, p_runs = drawn[2], results["p, data 2"]
beats = [
    beats_support(*(a[k].numpy() for a in (random.keys, random.scores, p_runs["selected"], p_runs["target"])))
    for k in range(TRIALS)
]
assert np.array_equal(np.all(beats, axis=1), p_runs["local"])

guess = torch.randn(TRIALS, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
picked = logits(Prompt, guess, random).argmax(-1)
at_picked = logits(Prompt, att_svm_of(Prompt, random, picked).value, random)
by_chance = geometry.locally_optimal(random.scores, at_picked, picked)
print("locally optimal among 100 choices that a random p makes:", by_chance.sum().item())
assert by_chance.sum() <= 2

# %% [markdown]
# **The prediction holds, nearly.** All 400 runs decide, and 398 of them point along the Att-SVM of their
# tokens with a cosine above 0.995, in the median above 0.99998. (They are not on the smooth path of section
# 6.4. Steps that long overshoot, now one comparison, now another: two thirds of $p$'s way is zigzag. The
# direction converges all the same.)
#
# **Attention selects locally optimal tokens**: of the 300 choices made by $p$, 298 are locally optimal, and
# all 100 made by $W$. This is no accident: of 100 choices picked by a *random* $p$ (feasible, since that $p$
# puts them ahead) hardly one is. Each of some ten support tokens would have to score lower by chance, and
# $2^{-10}$ is small.
#
# **Globally optimal** is another matter: 5 to 7 of 100 for $p$, although the global choice is feasible in 35
# to 47 of them; for $W$ it is always feasible, and 72 runs end there. More dimensions help; lessons 07 and 12
# say how.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.7 A forbidden choice can stand still *(optional)*
#
# Two runs are exceptions: a support token scores higher, and yet the run stays. Is the criterion wrong, or
# the run not at its end? Go back to the toy, and turn $b$ negative: token 1's key becomes $(\delta, 1)$ with
# $\delta = -b > 0$. In the direction $(1, 0)$ token 2 is now ahead of token 1 by only $1 - \delta$, so at the
# Att-SVM of token 2 both others are tight, and the better one is among them: token 2 is not locally optimal.
# The derivation of exercise 06.4 never used the sign of $b$, so
#
# $$dE \;\propto\; -\delta - C\, e^{-E} \;<\; 0 .$$
#
# No start keeps token 2. But as long as the excess $E$ is large, the pull of token 1 is not felt at all, and
# $E$ falls only because token 1 is a little closer: **by $\delta$ for each unit that the lead grows**. The
# pull takes over near $E = \log(C/\delta)$. From $E_0$ on, the lead of token 2 has grown by about
#
# $$\frac{E_0 - \log(C / \delta)}{\delta}$$
#
# before token 1 takes over. Plain descent needs an exponential number of steps for that.

# %%
print("delta   lead gained   predicted   E_0 / delta    token that wins")
for delta in (0.05, 0.02, 0.005):
    toy = np.array([[delta, 1], [1, 0], [0, 0]])
    begin = np.array([6.0, -8.0])
    assert not beats_support(toy[None], spread[None], np.array([1]), att_svm(toy[None], np.array([1])))[0]
    path = descend(begin, toy, spread, steps=6000, lr=0.5)
    gained = path[:, 0].max() - begin[0]
    excess = -delta * begin[0] - begin[1]
    factor = (1 - delta + delta**2) * (1 - 0.9) / 0.9  # C
    foreseen = (excess - np.log(factor / delta)) / delta
    winner = attention(path[-1], toy).argmax() + 1
    print(f"{delta:5} {gained:13.1f} {foreseen:11.1f} {excess / delta:13.1f} {winner:18d}")
    assert abs(gained - foreseen) < 5 < abs(gained - excess / delta)
    assert winner == 1

# %% [markdown]
# ### Exercise 06.5: How slowly does it lose?
#
# ★★☆ · 10 minutes
#
# In several sequences, too, there is a $\delta$. Let `A` hold the comparisons with all support tokens as
# rows, no more than $d$, linearly independent. Row `k` belongs to the support token that scores higher. As
# long as its pull is not felt, $p$ runs along the Att-SVM *without* that row. Return $\delta$: by how much
# the lead over token $k$ there falls short of 1. Assume that all other rows stay tight.
#
# <details><summary>Hint</summary>
#
# The SVM without row $k$ is the shortest $p$ with $a \cdot p = 1$ for all other rows: `np.linalg.pinv(rest) @
# ones`. On paper: it is $p_{\mathrm{mm}}$ without the part of $\lambda_k a_k$ that is orthogonal to the other
# rows. So $\delta = \lambda_k$ times the squared length of that part: a small weight makes a slow loss.
# </details>


# %%
@exercise("06.5")
def falls_short(A, k):
    """Return delta = 1 - a_k . p, a number, at the Att-SVM p without row k, for tight rows A (rows, d)."""
    ### BEGIN SOLUTION
    rest = np.delete(A, k, axis=0)
    without = np.linalg.pinv(rest) @ np.ones(len(rest))  # the shortest solution
    return 1 - A[k] @ without
    ### END SOLUTION


# %%
check("06.5", falls_short)


# %% [markdown]
# Now the two exceptions. For each we find the support token that scores higher, predict $\delta$, and follow
# the run on. Its steps are of no use for that: they zigzag by more than $E$. Far out the force is known, the
# sum of section 6.2 over all sequences, so we hand the equation $dp/d\tau = \text{force} / \|\text{force}\|$
# to a solver that adapts its steps (`LSODA`).


# %%
def run_on(A, strength, p, k):
    """From p at unit speed along sum_i strength_i exp(-a_i . p) a_i, until a_k . p is 5: points (steps, "
    "d)."""

    def direction(_, p):
        lead = A @ p
        force = (strength * np.exp(lead.min() - lead)) @ A
        return force / np.linalg.norm(force)

    def nearly_lost(_, p):
        return A[k] @ p - 5

    nearly_lost.terminal = True
    found = solve_ivp(direction, (0, 1e6), p, method="LSODA", events=nearly_lost, rtol=1e-6, atol=1e-6)
    assert len(found.t_events[0]) == 1
    return found.y.T


held = {}
for seed in (14, 15):
    tokens, found = drawn[seed], results[f"p, data {seed}"]
    (trial,) = torch.where(~found["local"])[0].tolist()
    K, score, selected = (a[trial].numpy() for a in (tokens.keys, tokens.scores, found["selected"]))
    p_mm, p = found["target"][trial].numpy(), found["weights"][trial].numpy()
    A = comparisons(K, selected)
    best = score[np.arange(6), selected][:, None]  # the selected token's score
    strength = (best - score) / (1 + np.exp(best))  # |l'| (gamma_alpha - gamma_t)
    strength = strength[np.arange(8) != selected[:, None]]
    tight = np.isclose(A @ p_mm, 1, atol=1e-5)
    (k,) = np.where(tight & (strength < 0))[0]
    delta = falls_short(A[tight], int(tight[:k].sum()))
    path = run_on(A, strength, p, k)
    lead = np.delete(path @ A.T, k, axis=1).min(axis=1)
    excess = path @ A[k] - lead
    end = lead.argmax()
    at = [np.searchsorted(lead[:end], share * lead[end]) for share in (0.5, 0.8)]
    slope = np.diff(excess[at])[0] / np.diff(lead[at])[0]
    print(f"data {seed}, trial {trial}: {tight.sum()} support tokens, delta {delta:.5f}; the excess ", end="")
    print(f"falls by {-slope:.5f} per unit of lead; lost at lead {round(lead[end], -2):.0f}")
    assert abs(slope / -delta - 1) < 0.02, again.format("06.5")
    i, t = np.argwhere(np.arange(8) != selected[:, None])[k]
    after = np.where(np.arange(6) == i, t, selected)
    assert beats_support(K, score, after, att_svm(K, after)).all()  # what it changes to is locally optimal
    held[seed] = lead[: end + 1], excess[: end + 1], delta

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7, 3.4))
for (seed, (lead, excess, delta)), color, line in zip(held.items(), (BLUE, ORANGE), ("-", "-."), strict=True):
    ax.plot(lead, excess, line, color=color, label=f"data {seed}")
    middle = np.searchsorted(lead, 0.7 * lead[-1])
    x = np.array([0, lead[-1]])
    ax.plot(x, excess[middle] - delta * (x - lead[middle]), "--", color=BLACK, linewidth=1.5)
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
# **Figure 4.** The two exceptions, followed from step 2,000 on: how much further than $\Delta$ the higher
# scoring support token is behind, against the smallest lead $\Delta$ over all others. Dashed: the slope
# $-\delta$ of exercise 06.5, hung on the curve at 70% of its way.

# %% [markdown]
# **The criterion is right, and patience is short.** Once the rest of the path has settled, the excess falls
# by $\delta$ per unit of lead, to 2%. The two forbidden choices have $\delta = 0.0041$ and $0.0033$, and hold
# until $\Delta$ is 7,400 and 14,600; each then changes one token, to a locally optimal choice. A step budget
# cannot tell such a run from one that has arrived. The weights can: this support token's $\lambda$ has a tiny
# share of the sum.
#
# In ten dimensions this is rare. In fewer it is not, and another thing is added:

# %%
print("  d   locally optimal: decided   soft   not: decided   soft   global")
few = {}
for d in (10, 6, 3):
    tokens = drawn[2] if d == 10 else data.random_tokens(n=6, T=8, d=d, trials=TRIALS, seed=2)
    found = p_runs if d == 10 else run(Prompt, tokens)
    local, soft = found["local"], found["soft"]
    few[d] = [c.sum().item() for c in (local & ~soft, local & soft, ~local & ~soft, ~local & soft)]
    print(f"{d:3d} {few[d][0]:26d} {few[d][1]:6d} {few[d][2]:14d} {few[d][3]:6d} {found['global'].sum():8d}")
assert [sum(few[d][2:]) for d in (10, 6)] == [0, 1]
assert 15 < sum(few[3][2:]) < 35

odd = torch.where(~found["local"])[0]  # d = 3: train these on, with short steps of constant length
part = data.TokenData(tokens.X[odd], tokens.z[odd], tokens.y[odd], tokens.v[odd], tokens.keys[odd])
model = Prompt(d=3, trials=len(odd), init=found["weights"][odd])
optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
record = {"p": lambda m: m.p}
on = train.fit(model, part, optimizer, steps=5000, record=record, every=[4000], progress=False)["p"]
share = (on[-1] - on[-2]).norm(dim=-1) / 100  # of the way walked in the last 1,000 steps
print(f"d = 3, trained on: {(share < 0.01).sum()} stand still, {(share > 0.05).sum()} move on, of {len(odd)}")
assert ((share < 0.01) | (share > 0.05)).all()
assert (share < 0.01).sum() > len(odd) / 2

# %% [markdown]
# (*Soft*: after 2,000 steps some sequence gives no token 99% of its attention.) In three dimensions a quarter
# of the choices are not locally optimal. Trained on with short steps, more than half of these stand still for
# good, at a finite $p$ where the pulls of the six sequences cancel. The others move on: some lose their
# choice as above, some send $p$ to infinity while one sequence stays soft. None of this contradicts the
# theorem, which promises something only near a locally optimal choice. Section 6.9 shows both in the plane.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.8 The same with the textbook gradient *(optional)*
#
# $s_t(\gamma_t - \sum_\tau s_\tau \gamma_\tau)$ is what torch and most other software compute. Lesson 05 says
# what to expect of it: once the winner leads by enough, about 37 for values of order one, its own entry is
# lost. Is that what matters here? We make it a trial. Besides the textbook gradient we train $W$
#
# - with the *cured* gradient, in which we set the winner's entry to 0 once it leads by $53 \log 2 = 36.7$,
#   for all tokens alike: no other error, no noise;
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
results = {"p": results["p, data 2"], "W": results["W, data 2"]}
results["W, textbook"] = run(Cross, drawn[2], 1000, softmax=textbook_softmax)
results["W, entry lost"] = run(Cross, drawn[2], 1000, softmax=lose)
results["W, entry restored"] = run(Cross, drawn[2], 1000, softmax=restore)
print("median of 1 - cosine   after 100 steps   least   after 1,000")
for name, found in results.items():
    middle = found["error"].nanmedian(dim=1).values
    end = "above 0.5" if middle[11] > 0.5 else f"{middle[11]:.5f}"  # far off, rounding decides how far
    print(f"{name:20s} {middle[5]:17.4f} {middle[:12].min():7.4f} {end:>13s}")
middles = {name: found["error"].nanmedian(dim=1).values[11].item() for name, found in results.items()}
assert 0.5 < middles["W, textbook"] < 0.75
assert abs(middles["W, entry lost"] - middles["W, textbook"]) < 0.1
assert middles["W, entry restored"] < 1e-4
assert results["W, textbook"]["error"].nanmedian(dim=1).values.min() < 0.01

# %% [markdown]
# The textbook run approaches the same solution, to a cosine above 0.99, then turns round. Losing that one
# entry is enough: it does the same to the cured gradient. And it is all that matters here: putting it back
# cures the textbook. The entry carries $k_\alpha$: with it the forces of a sequence are comparisons
# $k_\alpha - k_t$, without it they are $-k_t$, and $p$ or $W$ runs away from the losing keys instead of
# towards the selected one.

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
path = descend(np.array([0.73, 0.0]), four, four_scores, steps=20_000, lr=1, normalise=False)
norm = np.linalg.norm(path, axis=-1)
x = (0.1 + np.sqrt(0.1**2 + 4 * 0.95)) / (2 * 0.95)
settled = np.array([1 / x, 1, x, 0]) / (1 / x + 1 + x)
print(
    f"four tokens: norm {norm[200]:.1f}, {norm[2000]:.1f}, {norm[20000]:.1f} after 200, 2,000, 20,000 steps;",
    end=" ",
)
print("attention", attention(path[-1], four).round(3), "predicted", settled.round(3))
assert np.abs(np.diff(norm[[200, 2000, 20000]]) - np.log(10)).max() < 0.1
assert np.abs(attention(path[-1], four) - settled).max() < 1e-3

# the best token is singled out by no direction, and yet p runs off: another token is locally optimal
five, five_scores = np.array([[-0.5, 0], [2, 0], [0, 2], [0, -2], [-2, 0]]), np.array([1, 0.9, 0, 0, 0])
five_starts = np.random.default_rng(0).normal(size=(20, 2)) * 2
path = descend(five_starts, five, five_scores, steps=3000)
runs = (attention(path[-1], five)[:, 1] > 0.999).sum()
print(f"five tokens: token 2 has all attention in {runs} of 20 runs")
assert (attention(path[-1], five)[:, 1] > 0.999).all()
assert (np.linalg.norm(path[-1], axis=-1) > 290).all()

tied, tied_scores = np.array([[1, 0], [0.8, 0.6], [0, 0]]), np.array([1.0, 1.0, 0.0])
tied_starts = np.array(
    [[0, -2], [0, -0.5], [1, 0], [0, 0.5], [1, 1], [-1, 2], [0, 0]]
)  # the last: between them
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
draw_paths(right, tied_path, tied, window=(-10, 150, -70, 90))
right.text(55, -62, "Att-SVM, token 1", fontsize=11)
right.text(2, 80, "Att-SVM,\ntoken 2", fontsize=11, va="top")
right.text(60, -12, "token 1 without the tie", fontsize=11)
right.text(30, 28, "token 2 without the tie", fontsize=11, rotation=36.9, rotation_mode="anchor")
right.text(95, 22, "start at 0", fontsize=11)
show(
    fig,
    alt="Left: attention on the best token against steps. For epsilon = 0.5 and 0.1 it goes to one, for "
    "epsilon "
    "= 0 it stays at one third. Right: seven paths in the p-plane for tied scores, out to a norm of 150. "
    "Six run "
    "along two dashed rays, the keys of the tied tokens, the seventh half way between them; none follows "
    "the two "
    "dotted rays of the Att-SVM.",
)

# %% [markdown]
# **Figure 5.** Left: the best token between two others, lifted by $\varepsilon$; normalised descent from
# $(0.73, 0)$. Right: tied scores, seen from afar. Six paths run along the dashed rays, the Att-SVM without
# the tied comparison (solid: token 1 wins, broken: token 2), the one from 0 between them, and none along the
# dotted rays, the full Att-SVM of each tied token.

# %% [markdown]
# Left: with $\varepsilon = 0.1$ the best token still wins, only later: the margin is small. With
# $\varepsilon = 0$ the solver reports *infeasible* for it, and neither end token is locally optimal (the
# best one is its support token): from this start $\|p\|$ falls below one step length and stays there, and
# attention on the best token never exceeds $1/3$. Four tokens: $\|p\|$ grows like $\log j$ all the same. The
# fourth is pushed out of sight, downwards, while the other three are left on a line, where nothing holds
# $p_1$ but a balance. With $x = e^{p_1}$, $f = (1 + 0.05\,x)/(x^{-1} + 1 + x)$ is largest where $0.95\,x^2 -
# 0.1\,x - 1 = 0$, at $x = 1.080$: attention $0.308, 0.333, 0.359, 0$, soft for ever beside a diverging $p$.
#
# An infeasible best token need not mean soft attention either. If some other token is locally optimal, $p$
# can run off to that one: of the five tokens with keys $(-\frac12, 0), (2, 0), (0, \pm 2), (-2, 0)$ and
# scores $1, 0.9, 0, 0, 0$ the best lies inside the hull, and from 20 of 20 starts all attention goes to token
# 2.
#
# Right: $\|p\|$ diverges and the direction converges, to the *wrong* SVM, the one without the tied
# comparison. From $p = 0$ both tied tokens keep one half, and $p$ runs along $k_1 + k_2$; that is a ridge,
# from which a nearby start departs, but slowly: of 1,000 random starts nearly all are within a cosine of 0.99
# of one key after 2,000 steps. A word that occurs twice in a sentence is the extreme case: equal keys, equal
# scores, an infeasible Att-SVM, and attention shared half and half for ever.
#
# These are the breaks, and how to recognise each:
#
# | situation | what you see | cosine to the winner's Att-SVM |
# |---|---|---|
# | a support token scores higher | holds for a lead of about $E/\delta$, then changes | near 1 until then |
# | no choice is locally optimal | $p$ rests, or runs off with soft attention | there is no winner |
# | the best token cannot be put ahead | another wins, if locally optimal | tends to 1, for that token |
# | tied scores | $\lVert p \rVert$ diverges, direction converges elsewhere | settles at 0.6 here |
# | winner's entry lost (section 6.8) | the direction turns round | above 0.99, then below 0.5 |

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
#   $k_\alpha - k_t$. So $\|p\| \to \infty$ and $p$ turns to the **Att-SVM** of the selected tokens: like
#   $\|p_{\mathrm{mm}}\| \log j$ in $j$ steps of plain descent, in proportion to $j$ under normalised descent,
#   along the same path as long as steps are small.
# - Keys give the direction of each candidate; scores decide which candidates can hold. A choice holds if it
#   is **locally optimal**: it has to beat its support tokens, not everybody. Which one is reached depends on
#   the start: on which side of the line $E = \log(C/b)$.
# - In random problems with $d = 10$, 298 of 300 selections of $p$ were locally optimal after 2,000 steps. The
#   two others were held by an excess that falls by only $\delta$ per unit of lead, and were lost later. In
#   three dimensions a quarter is not locally optimal, and often $p$ comes to rest.
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
