# %% [markdown] slideshow={"slide_type": "slide"}
# # 06 · Attention is an SVM over tokens
#
# In lesson 05 a vector $p$ compared itself with the tokens of a sequence, and softmax turned the comparison
# into attention. Now train $p$ by gradient descent, and do not stop.
#
# **The question: which token does the attention end up looking at, and in which direction does $p$ run off?**
#
# Lesson 01 asked the same of a linear classifier. Its answer, the hard-margin SVM, comes back here with
# tokens in the place of points.

# %% [markdown]
# **After this lesson you can**
#
# - write down the SVM whose solution tells, before any training, where $p$ can go;
# - explain, one force at a time, why gradient descent tends to its solution;
# - say how fast $\|p\|$ grows, under plain and under normalised descent;
# - recognise from the data with which tokens $p$ can run off, and, on a toy, from where;
# - say what can hold $p$ at a finite point (optional section 6.7).
#
# **You need** lesson 01 (margin, direction, $\log t$), lesson 02 (hard-margin SVM, nonnegative least squares)
# and lesson 05 (softmax attention and its gradient). About 85 minutes (130 with a pencil) with four
# exercises, and 35 more for section 6.7 with one.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy.optimize import nnls
from scipy.special import comb

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.softmax import softmax

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=4, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "exercise {} is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.1 The idea in a picture
#
# One sequence has $T$ tokens. Two things matter about token $t$: its **key** $k_t \in \mathbb{R}^d$, which
# $p$ is compared with, and its **score** $\gamma_t = y\, v \cdot x_t$, the signed output that all attention
# on token $t$ would give ($x_t$ is the token itself, $v$ the fixed prediction head, $y = \pm 1$ the label).
# We minimise
#
# $$L(p) = \ell\Big(\sum_t s_t\, \gamma_t\Big), \qquad s = \mathrm{softmax}(h), \qquad h_t = k_t \cdot p,
# \qquad \ell(u) = \log(1 + e^{-u}).$$
#
# (As in lesson 05, $t$ counts tokens and $j$ steps.) The toy of Tarzanagh and others (2023) has three tokens
# in the plane. We give them two sets of scores that differ in the third token alone, and start from six
# points.

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


def gradient(p, keys, scores, apart=None):
    """The gradient of L in p, (..., d), by lesson 05's softmax: keys (..., T, d), scores (..., T).

    With `apart` right in direction only: each entry of p's first `apart` dimensions has a factor of its own.
    """
    p = torch.tensor(p, requires_grad=True)
    s = softmax((torch.tensor(keys) * p[..., None, :]).sum(dim=-1), batch_dims=apart)
    torch.nn.functional.softplus(-(s * torch.tensor(scores)).sum(dim=-1)).sum().backward()
    return p.grad.numpy()


def descend(p, keys, scores, steps, lr=0.1, normalise=True):
    """Gradient descent on p, by default with steps of length lr: returns the path (steps + 1, ..., d)."""
    path = [np.asarray(p, dtype=float)]
    for _ in range(steps):
        g = gradient(path[-1], keys, scores, path[-1].ndim - 1 if normalise else None)
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
def draw_rays(ax, rays):
    """Rays from the origin, beyond the picture."""
    for ray in rays:
        end = 400 * ray / np.linalg.norm(ray)
        ax.plot([0, end[0]], [0, end[1]], "--", color=BLACK, linewidth=1.5, zorder=1)


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
# **Figure 1.** 300 steps of length 0.1 from six starts (dots). Blue paths end with their attention on token
# 1, orange ones on token 2. Dashed: two rays (half-lines from the origin), computed without training. The
# direction of $p$ tends to that of a ray: paths become parallel to it, they need not touch it.

# %% [markdown]
# Three facts ask for an explanation.
#
# 1. On the left every start finds the best token.
# 2. On the right two of six settle for the second best, although the only change made a *third* token worse.
# 3. Each path turns into the direction of one of two dashed rays.
#
# Is that final? We go on with 2,000 steps of length 1.

# %%
assert winners["equal"].tolist() + winners["spread"].tolist() == [1] * 10 + [2] * 2
for name, scores in (("equal", equal), ("spread", spread)):
    far = descend(paths[name][-1], keys, scores, steps=2000, lr=1)[[70, -1]]  # out to norms 100 and 2,030
    unit = far / np.linalg.norm(far, axis=-1, keepdims=True)
    cosines = (unit * (rays / np.linalg.norm(rays, axis=1)[:, None])[winners[name] - 1]).sum(axis=-1)
    early, last = cosines.min(axis=1)
    print(f"scores {scores}, least cosine to its ray: at norm 100 {early:.4f}, at norm 2,030 {last:.6f}")
    assert np.array_equal(attention(far, keys).argmax(axis=-1) + 1, [winners[name]] * 2)
    assert (cosines.min(axis=1) > [0.9995, 0.99999]).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.2 Forces between tokens
#
# Where does a gradient step push $p$, and how hard? What matters about a selected token $\alpha$ are its
# **comparisons** with the others, $a_t = k_\alpha - k_t$.

# %% [markdown]
# ### Exercise 06.1: How hard each comparison pushes
#
# ★★☆ · 10 minutes
#
# Lesson 05's chain rule gives $-\nabla L(p) = |\ell'| \sum_t s_t \big(\gamma_t - \sum_\tau s_\tau
# \gamma_\tau\big)\, k_t$. Rewrite it on paper as a sum over *pairs* of tokens: each pair $t < \tau$ pushes
# $p$ along $k_t - k_\tau$, with which strength? Then take a token $\alpha$ (`selected`: in code tokens count
# from 0), and return the strength $c_t$ with which each pair $(\alpha, t)$ pushes along $k_\alpha - k_t$,
# without the common factor $|\ell'|$: $T$ numbers. (Entry $\alpha$ comes out as 0.)
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
# <details><summary>The sum, when you have yours</summary>
#
# $$-\nabla L(p) = |\ell'| \sum_{t < \tau} s_t\, s_\tau\, (\gamma_t - \gamma_\tau)\, (k_t - k_\tau), \qquad
# c_t = s_\alpha s_t (\gamma_\alpha - \gamma_t).$$
#
# </details>
#
# Each pair pushes along the line between its two keys, towards the one with the higher score. A pair with
# equal scores does not push. On the lowest orange path of Figure 1, where token 2 wins:

# %%
path = paths["spread"][:, -1]
print("step   c_1      c_3    c_3 / -c_1   cosine with the full gradient")
for step in (0, 50, 100, 300):
    p = path[step]
    c = pushes(p, keys, spread, 1)
    far_out = c @ (keys[1] - keys)  # the pairs (alpha, t) alone
    full = -gradient(p, keys, spread)
    alike = far_out @ full / np.linalg.norm(far_out) / np.linalg.norm(full)
    print(f"{step:4d} {c[0]:+.0e}  {c[2]:+.0e}   {-c[2] / c[0]:6.0f}      {alike:.6f}")
assert alike > 0.999999, again.format("06.1")
assert c[2] / -c[0] > 400, again.format("06.1")

# %% [markdown]
# Token 3 is worse than token 2, so it pushes $p$ along $k_2 - k_3$ and strengthens token 2. Token 1 is
# better, so it pulls $p$ away. But token 1 falls further behind: its pull dies faster than the push (fourth
# column). The last column confirms that the pair without $\alpha$ soon does not matter.
#
# In general, let token $\alpha$ be winning, with the **lead** $\Delta_t = h_\alpha - h_t = p \cdot a_t$ over
# token $t$, and let all leads grow without bound. Of two losers that push at all, one, say $t$, scores
# differently from $\alpha$. The pair $(t, \tau)$ is weaker than $(\alpha, t)$ by $s_\tau / s_\alpha =
# e^{-\Delta_\tau}$, up to a constant, and dies out beside it.
#
# What remains are the $T - 1$ pairs $(\alpha, t)$, where they do not cancel one another. Late in training
#
# $$c_t \;\approx\; (\gamma_\alpha - \gamma_t)\, e^{-p \cdot a_t} ,$$
#
# and $\sum_t c_t\, a_t$ is minus a gradient known from lesson 01: that of the exponential loss of a *linear
# classifier* $p$ whose data points are the comparisons $a_t$, all with label $+1$, counted with weights
# $\gamma_\alpha - \gamma_t$.
#
# For that classifier: if the weights are positive and some $p$ has all leads positive, the norm diverges, and
# the direction tends to the hard-margin SVM of the points $a_t$, whatever the weights are. (Negative weights:
# section 6.5.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.3 The SVM over tokens
#
# With $n$ sequences we minimise the mean loss
#
# $$L(p) = \frac1n \sum_{i=1}^n \ell\Big(\sum_t s_{it}\, \gamma_{it}\Big), \qquad
# s_i = \mathrm{softmax}(h_i), \qquad h_{it} = k_{it} \cdot p .$$
#
# Choose one token $\alpha_i$ in each. Section 6.2 predicts the direction of
#
# > **Att-SVM**
# >
# > $$p_{\mathrm{mm}}(\alpha) = \arg\min_p \|p\| \quad \text{subject to} \quad
# > p \cdot (k_{i\alpha_i} - k_{it}) \ge 1 \quad \text{for every } i \text{ and every } t \neq \alpha_i .$$
#
# It puts the selected tokens ahead of all others with the largest margin, $1/\|p_{\mathrm{mm}}\|$ (mm stands
# for max-margin). If no $p$ satisfies the constraints, the choice $\alpha$ is *infeasible*.


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
    # A.T lam is c q, c = lam.sum() and q a mixture of the rows; this c minimises ||c q||^2 + (1 - c)^2: so
    # 1 - c = c ||q||^2, and what is returned is q / ||q||^2
    return A.T @ lam / (1 - lam.sum())


for token in (0, 1):
    p_mm = att_svm(keys[None], np.array([token]))
    print(f"token {token + 1}: p_mm = {p_mm}")
svm_1, svm_2 = att_svm(keys[None], np.array([0])), att_svm(keys[None], np.array([1]))
assert np.allclose([svm_1 / svm_1[1], svm_2], rays)

# %% [markdown]
# These are the dashed rays of Figure 1, which makes fact 3 plausible; section 6.5 has a theorem. Keys alone
# give the SVM of each $\alpha$; scores, start and steps decide *which*.

# %% [markdown]
# ### Exercise 06.2: Two rivals
#
# ★★☆ · 8 minutes
#
# One sequence has three tokens, so the selected one has two comparisons, here called `a` and `b`, in $d$
# dimensions, neither a multiple of the other. How far is it ahead of each rival *at the Att-SVM*? Return the
# two leads $p_{\mathrm{mm}} \cdot a$ and $p_{\mathrm{mm}} \cdot b$, in this order. You need no solver: which
# of the two constraints are tight?
#
# <details><summary>Hint 1</summary>
#
# What is $p_{\mathrm{mm}}$ with the comparison $a$ alone, and with $b$ alone? Which of the two is longer?
# </details>
#
# <details><summary>Hint 2</summary>
#
# Begin with the rival that asks for the longer $p$. When does that $p$ satisfy the other constraint, too?
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
for token, p_mm in ((0, svm_1), (1, svm_2)):
    a, b = comparisons(keys[None], np.array([token]))
    print(f"token {token + 1} selected: leads {np.round(leads_of_two(a, b), 3)} over the others")
    assert np.allclose(leads_of_two(a, b), [p_mm @ a, p_mm @ b]), again.format("06.2")
assert np.allclose(leads_of_two(a, b), [1.1, 1]), again.format("06.2")

# %% [markdown]
# Whichever of tokens 1 and 2 is selected, only token 3 has a lead of exactly 1: the other is further behind.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.4 One path, two clocks
#
# How fast? Near the end, plain gradient descent feels a force of size $e^{-\Delta}$, where $\Delta = \min_t p
# \cdot a_t$ is the smallest lead. As in lesson 01, $\Delta$ then grows at the rate $e^{-\Delta}$, which
# gives $\Delta \approx \log j$ after $j$ steps, and since $p \approx \Delta\, p_{\mathrm{mm}}$,
#
# $$\|p_j\| \approx \|p_{\mathrm{mm}}\| \log j \quad \text{(plain)}, \qquad
# \|p_j\| \approx \eta\, j \quad \text{(small normalised steps, of length } \eta).$$
#
# With small steps the *path* is common to both: normalising changes only the length of a step. On the toy
# with equal lower scores the path can be found with a pencil: some expression in $p_1$ and $p_2$ stays what
# it was at the start, and tells where the path ends.
#
# <details><summary>With a pencil</summary>
#
# Keys $(-b, 1)$, $(1, 0)$, $(0, 0)$. Tokens 2 and 3 score alike, so the pairs $(1, 2)$ and $(1, 3)$ are left,
# with strengths in the proportion $e^{p_1} : 1$. The step is along $e^{p_1} (-1 - b,\ 1) + (-b,\ 1)$, so
# $dp_2 / dp_1 = -(1 + e^{p_1}) / (b + (1 + b)\, e^{p_1})$. Separate the variables and integrate:
#
# $$p_1 + b\, p_2 - \frac{\log(b + (1 + b)\, e^{p_1})}{1 + b} = \text{constant}.$$
#
# Far out $e^{p_1} \to 0$, and $p_1 + b\, p_2$ is $\sqrt{1 + b^2}$ times the distance to the right of ray 1.
#
# </details>


# %%
def conserved(p, b=0.1):
    """What stays the same all along a path: p (..., 2) -> (...)."""
    return p[..., 0] + b * p[..., 1] - np.log(b + (1 + b) * np.exp(p[..., 0])) / (1 + b)


def beside_ray(p, b=0.1):
    """How far from ray 1 the path from p ends, positive to its right."""
    return (conserved(p, b) + np.log(b) / (1 + b)) / np.sqrt(1 + b**2)


# %%
steps = 10_000
plain = descend(starts, keys, equal, steps, lr=10, normalise=False)[1:]  # (steps, starts, d)
fixed = descend(starts, keys, equal, 1000, lr=0.1)[1:]
length = np.linalg.norm(svm_1)
beside = fixed[-1] @ [1, 0.1] / np.sqrt(1.01)
print("start p_2                      ", starts[:, 1])
print("distance beside ray 1, predicted", beside_ray(starts).round(2))
print("after 1,000 normalised steps   ", beside.round(2))

# near the ray e^Delta grows by the same amount at each step, eta (gamma_1 - gamma_3) ||k_1||^2 |l'(1)|:
rate = 10 * 0.1 * 1.01 / (1 + np.exp(1))
side = beside_ray(np.zeros(2))
predicted = np.hypot(length * np.log(rate * steps), side)
print(f"norm after {steps} plain steps from 0: {np.linalg.norm(plain[-1, 2]):.2f}, predicted {predicted:.2f}")
needed = np.exp(np.sqrt(100**2 - side**2) / length) / rate
print(f"norm 100: plain, after about 10^{np.log10(needed):.0f} steps; ", end="")
print(f"normalised, after about {1000 + (100 - np.linalg.norm(fixed[-1, 2])) / 0.1:.0f}")
assert np.abs(beside - beside_ray(starts)).max() < 0.01
assert np.abs(conserved(plain) - conserved(starts)).max() < 0.003
assert abs(predicted - np.linalg.norm(plain[-1, 2])) < 0.05
assert 44 < np.log10(needed) < 44.4


# %% jupyter={"source_hidden": true}
def norm_and_angle(path):
    """Norm, and angle to the ray of token 1 in degrees."""
    norm = np.linalg.norm(path, axis=-1)
    return norm, np.degrees(np.arccos(path @ svm_1 / norm / length))


fig, (clock, turn) = plt.subplots(1, 2, figsize=(9.5, 3.8))
for path, color, marker, name in ((plain, BLUE, "o", "plain"), (fixed, ORANGE, "s", "normalised")):
    at = np.unique(np.geomspace(1, len(path), 25).astype(int))
    style = {"marker": marker, "markersize": 5, "linestyle": "", "color": color, "label": name}
    clock.semilogx(at, norm_and_angle(path[at - 1, 2])[0], **style)
    turn.loglog(*norm_and_angle(path[at - 1, 2]), **style)
j = np.geomspace(1, steps)
j = j[j > 10]  # the prediction is for large j
clock.plot(j, np.hypot(length * np.log(rate * j), side), "--", color=BLUE, linewidth=1.5)
clock.plot(j, 0.1 * j, "--", color=ORANGE, linewidth=1.5)
norm = np.geomspace(10, 100)  # here too

turn.plot(norm, np.degrees(np.arcsin(abs(side) / norm)), "--", color=BLACK, linewidth=1.5, label="predicted")
clock.set(xlabel="step $j$", ylabel=r"$\|p_j\|$", ylim=(0, 13))
turn.set(xlabel=r"$\|p\|$", ylabel="angle to ray 1 (degrees)")
turn.set_yticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"])
turn.minorticks_off()
clock.legend()
turn.legend()
show(
    fig,
    alt="Left: norm of p against step, logarithmic step axis; plain descent ends on a dashed line "
    "and reaches 8.1 after 10,000 steps, normalised descent leaves the picture after 130. Right: angle to "
    "the ray against the norm; both methods lie on one falling curve. Normalised descent "
    "goes on to norm 100, where it lies on the dashed prediction.",
)

# %% [markdown]
# **Figure 2.** Scores (1, .9, .9), start at 0, steps $\eta = 10$ (plain) and $0.1$ (normalised). Left: the
# norm; dashed, $\eta j$ and, for plain steps, the law of the text completed by the toy's rate and its
# distance 2.25 beside the ray (cell above). Right: the angle to the ray of token 1 against the norm; dashed,
# $\arcsin(2.25 / \|p\|)$. Nothing is fitted.

# %% [markdown]
# On the right both methods lie on one curve, as far as plain descent gets. On this toy $p = \Delta\,
# p_{\mathrm{mm}} + r$ with a remainder $r$ that tends to a vector *across* the ray, of length 2.25 here, and
# the angle falls like $\|r\| / \|p\|$.
#
# In this course we mostly train with normalised steps: plain ones with $\eta = 10$ would need $10^{44}$ to
# reach $\|p\| = 100$ on this toy.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.5 Which token wins?
#
# The SVM has a solution for token 1 and one for token 2; training chose. Section 6.2 has the reason ready:
# late in training only the comparisons with the *smallest* lead still count.
#
# - The **support tokens** of sequence $i$ are the $t \neq \alpha_i$ whose constraint is tight,
#   $p_{\mathrm{mm}} \cdot (k_{i\alpha_i} - k_{it}) = 1$. A sequence may have none.
# - A choice $\alpha$ is **locally optimal** if each $\alpha_i$ scores higher than every support token of its
#   sequence: $\gamma_{i\alpha_i} > \gamma_{it}$.
# - It is **globally optimal** if each $\alpha_i$ has the best score of its whole sequence.
#
# Why these? Lesson 02 writes the solution as $p_{\mathrm{mm}} = \sum \lambda_{it}\, a_{it}$ over support
# tokens, with $\lambda_{it} \ge 0$. Late in training descent builds $p$ from the same vectors, and gives
# $a_{it}$ a weight of the sign of $\gamma_{i\alpha_i} - \gamma_{it}$.
#
# If a support token with $\lambda > 0$ scores higher, its weight comes out negative, which the SVM's is not,
# and $p$ is pulled back. If it scores lower it pushes $p$ along, and a better token far enough behind
# is forgotten, exponentially. (Lesson 07 makes this precise.)

# %% [markdown]
# ### Exercise 06.3: The score to beat
#
# ★★☆ · 6 minutes
#
# Given $n$ sequences, a choice $\alpha$ and its $p_{\mathrm{mm}}$, return for each sequence the highest
# score among its support tokens, $-\infty$ if it has none. (The choice is locally optimal if every
# $\alpha_i$ scores higher than that.)
#
# **Predict** from the leads in exercise 06.2: which of tokens 1 and 2 is locally optimal, with each set of
# scores?
#
# <details><summary>Hint</summary>
#
# `keys @ p_mm` is (n, T). Computed numbers are seldom exactly 1: `np.isclose`. Then `np.where` puts
# `-np.inf` in the place of each score that does not count.
# </details>


# %%
@exercise("06.3")
def score_to_beat(keys, scores, selected, p_mm):
    """Return a number for each sequence, (n,): keys (n, T, d), scores (n, T), selected (n,), p_mm (d,)."""
    ### BEGIN SOLUTION
    h = keys @ p_mm  # (n, T)
    own = h[np.arange(len(keys)), selected]
    support = np.isclose(own[:, None] - h, 1, atol=1e-6)
    return np.where(support, scores, -np.inf).max(axis=1)
    ### END SOLUTION


# %%
check("06.3", score_to_beat)
for scores in (equal, spread):
    for token, p_mm in ((0, svm_1), (1, svm_2)):
        (bar,) = score_to_beat(keys[None], scores[None], np.array([token]), p_mm)
        holds = scores[token] > bar
        print(f"scores {scores}, token {token + 1} has to beat {bar}, locally optimal: {holds}")
        assert holds == (token == 0 or scores is spread), again.format("06.3")

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix $v$, let $\ell' < 0$
# > everywhere and be Lipschitz on bounded intervals, and run gradient descent on $p$ with a small constant
# > step.
# >
# > *Local.* Let $\alpha$ be locally optimal and its Att-SVM feasible. From every start that is close enough
# > to $p_{\mathrm{mm}}(\alpha)$ in direction and far enough from the origin, $\|p_j\| \to \infty$ and
# > $p_j/\|p_j\| \to p_{\mathrm{mm}}(\alpha)/\|p_{\mathrm{mm}}(\alpha)\|$.
# >
# > *Global.* Let there be **one** sequence, with one best token, all others of equal scores, and a feasible
# > Att-SVM. Then the same holds from **every** start, with the best token as $\alpha$.
#
# The theorem is about plain steps; for normalised ones we measure. It does not say
# that a locally optimal choice exists (section 6.7).
#
# The global half is fact 1: with equal lower scores every force is one with the best token, and has a
# positive part along $p_{\mathrm{mm}}$. (Exercise 06.5 proves $\|p\| \to \infty$, for normalised steps.)
#
# Fact 2: the only support token of token 2 is token 3. On the left it scores the same and does not push, and
# token 1's weak pull is all that is left. Making token 3 worse gives token 2 something to beat.

# %% [markdown]
# ### Exercise 06.4: Where is the border?
#
# ★★★ · 25 minutes
#
# Keys $(-b, 1)$, $(1, 0)$, $(0, 0)$ with $b > 0$ (the toy has $b = 0.1$), and scores $\gamma_1 > \gamma_2 >
# \gamma_3$. Far to the right, where $p_1$ is large, token 2 is ahead of token 3, and $e^{-p_1}$ may be
# neglected. Token 1 takes the attention over from the starts above some line, and never from those below it.
# Take small steps, and return the height $p_2$ of the line at a given $p_1$.
#
# Look at $E$, the lead of token 3 over token 1. How does it change along the path, and when does it stand
# still?
#
# <details><summary>Hint 1</summary>
#
# Two pairs are left, $(2, 3)$ and $(2, 1)$. In which proportion do they push? Express it by $E$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# The pair $(2, 3)$ pushes along $(1, 0)$ with $s_2 s_3 (\gamma_2 - \gamma_3)$, the pair $(2, 1)$ along $(-1 -
# b, 1)$ with $s_2 s_1 (\gamma_1 - \gamma_2)$. By how much does each of them change $E = b p_1 - p_2$?
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
    ends = descend(beside, np.array([[-b, 1], [1, 0], [0, 0]]), np.array(three), steps=500, lr=0.6)[-1]
    found = attention(ends, np.array([[-b, 1], [1, 0], [0, 0]])).argmax(axis=-1) + 1
    print(f"{b:4} {three!s:20s} {line[1]:14.2f} {found[1]!s:>22s}")
    assert (found == [1, 2]).all(), again.format("06.4")

# %% [markdown]
# <details><summary>The border, when you have yours</summary>
#
# $$dE \;\propto\; b - C\, e^{-E}, \qquad C = (1 + b + b^2)\, \frac{\gamma_1 - \gamma_2}{\gamma_2 -
# \gamma_3}, \qquad \text{so } E = \log(C / b) \text{ on it.}$$
#
# </details>
#
# Below the border $E$ grows, and token 1 is forgotten; above it $E$ falls, and token 2 is lost.
#
# Token 2's region has another side, where token 3 is ahead and tokens 1 and 2 race to overtake it. The pairs
# $(1, 3)$ and $(2, 3)$ give the border there:
#
# $$p_2 = (1 + b)\, p_1 + \log \frac{(1 + b)(\gamma_2 - \gamma_3)}{(1 + b + b^2)(\gamma_1 - \gamma_3)} .$$
#
# So far out token 2 wins between the directions $(1, b)$ and $(-1, -1 - b)$, for *every* $\gamma_3 <
# \gamma_2$. How far out, $\gamma_3$ decides: as it tends to $\gamma_2$, the point where the border meets ray
# 2 runs off.

# %%
grid = np.linspace(-8, 8, 41)
plane = np.stack(np.meshgrid(grid, grid), axis=-1)  # (41, 41, 2) starts
second_wins, lines = [], []
for third in third_scores:
    three = np.array([1, 0.9, third])
    ends = descend(plane, keys, three, steps=300, lr=0.2)[-1]
    second_wins.append(attention(ends, keys).argmax(axis=-1) == 1)
    offset = np.log(1.1 * (0.9 - third) / (1.11 * (1 - third)))  # of the left border, b = 0.1
    lines.append(np.minimum([border(p1, 0.1, three) for p1 in grid], 1.1 * grid + offset))
    agree = (second_wins[-1] == (plane[..., 1] < lines[-1])).mean()
    enough = -border(0.0, 0.1, three) / 0.1  # where the right border meets ray 2
    beside = [[enough - 1, 0], [enough + 1, 0], [-20, offset - 22 + 0.05], [-20, offset - 22 - 0.05]]
    ends = descend(np.array(beside), keys, three, steps=1500, lr=0.2)[-1]
    print(f"score {third}: borders right for {agree:.3f} of the starts; meets ray 2 at p_1 = {enough:.0f}")
    assert agree > 0.98, again.format("06.4")
    assert attention(ends, keys).argmax(axis=-1).tolist() == [0, 1, 0, 1], again.format("06.4")


# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.7), sharey=True)
for ax, third, wins, line in zip(axes, third_scores, second_wins, lines, strict=True):
    colors = ListedColormap([BLUE, ORANGE])
    ax.pcolormesh(grid, grid, wins, cmap=colors, vmin=0, vmax=1, alpha=0.6, rasterized=True)
    draw_rays(ax, rays)
    ax.plot(grid, line, color=BLACK, linewidth=2)
    ax.text(-7, 4, "token 1 wins")
    ax.text(0, -6.8, "token 2 wins")
    ax.set(xlim=(-8, 8), ylim=(-8, 8), aspect="equal", xlabel="start $p_1$")
    ax.set_title(rf"$\gamma_3 = {third:g}$")
axes[0].set_ylabel("start $p_2$")
show(
    fig,
    alt="Three maps of starts in the square from -8 to 8. Blue starts end at token 1, orange at token 2. "
    "The orange region lies at the lower right, below a bent line: steep on the left, rising slowly on the "
    "right. For a third score of 0 its right part runs just above ray 2; for 0.8 and 0.89 it lies near "
    "p2 = -2 and p2 = -4.",
)

# %% [markdown]
# **Figure 3.** Which token normalised descent ends with, start by start, for three scores of token 3. Dashed:
# the two Att-SVM directions. Solid: the two borders, derived for starts far out, so off near their corner.

# %% [markdown]
# **Try it.** Move the start and the third token's score, and predict the colour before you let go.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
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
# Does training end at locally optimal choices in larger problems, too? We draw 400 problems of $n = 6$
# sequences with $T = 8$ tokens, all vectors uniform on the unit sphere, keys equal to tokens, in $d = 10$ and
# in 3 dimensions. One $p$ serves all six sequences. It starts at zero and takes 2,000 normalised steps, which
# grow: step $j$ has length $0.1 \sqrt{j}$. Then we solve the Att-SVM of the tokens that it has selected.
#
# And by chance? Draw the support tokens at random from the seven others. If two of these score higher than
# the selected token, it beats one support token with probability $\frac57$, two with $\frac57 \cdot
# \frac46$. Over the six sequences such factors multiply. (A generous rival: it keeps the selected scores.)
#
# **Predict:** how many of 400 choices are locally optimal, and how many would be by chance?


# %%
def descended(model, tokens, steps=2000, lr=0.1, schedule=train.growing):
    """The model, all its trials trained by normalised steps, as they stand of length 0.1 sqrt(j)."""
    descent = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1)  # each trial has its own norm
    train.fit(model, tokens, descent, steps, schedule=schedule, progress=False)
    return model


def judged(model, tokens):
    """What became of each trial, (trials,): of its direction and of the tokens that it has selected."""
    selected = geometry.selected_tokens(model.attention(tokens))
    target = svm.solve(svm.token_problem(tokens.keys, selected), throw=False).value
    best = svm.solve(svm.token_problem(tokens.keys, tokens.optimal), throw=False)
    h = models.PromptAttention(model.d, trials=model.trials, init=target).logits(tokens).detach()
    lead = h.gather(-1, selected[..., None]) - h
    support = torch.isclose(lead, torch.ones_like(lead), atol=1e-6).sum(-1)  # how many, (trials, n)
    higher = (tokens.scores > tokens.scores.gather(-1, selected[..., None])).sum(-1)
    return {
        "along p_mm": geometry.cosine(model.p.detach(), target) > 0.995,
        "locally optimal": geometry.locally_optimal(tokens.scores, h, selected),
        "by chance": (comb(7 - higher, support) / comb(7, support)).prod(-1),
        "globally optimal": (selected == tokens.optimal).all(-1),
        "which is feasible": torch.as_tensor(best.status == "optimal"),
    }


# %%
def tens(count):
    return 10 * int(count / 10 + 0.5)  # at d = 3 a run or two hang on how the processor rounds


drawn = {d: data.random_tokens(n=6, T=8, d=d, trials=400, seed=6) for d in (10, 3)}
ends = {d: descended(models.PromptAttention(d, trials=400), tokens) for d, tokens in drawn.items()}
found = {d: judged(ends[d], drawn[d]) for d in (10, 3)}
counts = [round(one.sum().item()) for one in found[10].values()]
print("d = 10:", ", ".join(f"{key} {count}" for key, count in zip(found[10], counts, strict=True)))
local, chance = (found[3][key].sum().item() for key in ("locally optimal", "by chance"))
print(f"d = 3: locally optimal about {tens(local)}, by chance about {tens(chance)}")
at_first, later = (measured("06.choices").load().sel(d=10)[key].values for key in ("local", "later"))
print(f"stored, 6,000: locally optimal {at_first.sum():,d}, of the others later {later[~at_first].sum()}")
assert counts == [399, 399, 201, 28, 194]
assert (tens(local), tens(chance)) == (300, 170)
assert (at_first.sum(), later[~at_first].sum()) == (5989, 11)

# %% [markdown]
# **In ten dimensions the prediction holds here:** 399 of 400 choices are locally optimal, where chance gives
# 201, and all runs but one point along their Att-SVM. Of 6,000 more problems, stored with the course, 5,989
# choices were locally optimal after 2,000 steps, and the other 11 after 10,000. The *globally optimal* choice
# is reached in only 28 of 400, although it is feasible in 194.
#
# **In three dimensions** about 300 of 400 choices are locally optimal after these steps; chance gives 170.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6.7 Where it breaks: a place to rest *(optional)*
#
# Pushes can cancel. **One sequence** is enough, with the keys $-1, 0, 1$ and the
# scores $0, 1, 0$. The best key lies between the others, so no $p$ puts it ahead, and on either side its
# token pulls $p$ back.
#
# **Two sequences** share one $p$. Sequence 1, with keys $1, 0$ and scores $1, 0$, pushes $p$ to the right,
# for large $p$ in proportion to $e^{-p}$. Sequence 2, with keys $\frac12, 0$ and scores $0, 1$, pushes it to
# the left, in proportion to $\frac12 e^{-p/2}$, which dies later.
#
# **Predict** where $p$ goes in either case, from 10 and from $-10$, with steps that shrink.


# %%
def settled(keys, scores):
    """Where p goes from 10 and from -10, for keys (n, T), which are numbers, and scores (n, T)."""
    p, keys = np.array([10.0, -10.0]), np.array(keys)[..., None]
    for eta in 0.5 * 0.98 ** np.arange(600):
        slopes = gradient(np.tile(p[:, None, None], (1, len(keys), 1)), keys, scores, apart=1)  # (2, n, 1)
        p = p - eta * np.sign(slopes.sum(axis=(1, 2)))
    return p.round(2) + 0.0


one, two = settled([[-1, 0, 1]], [[0, 1, 0]]), settled([[1, 0], [0.5, 0]], [[1, 0], [0, 1]])
print("from 10 and -10: one sequence", one, "two sequences", two)
assert np.allclose([one, two], [[0, 0], [1.5, -35]], atol=0.1)

# %% [markdown]
# One sequence: $p$ comes to rest at 0. Two sequences: from 10 it comes to rest at 1.5, where the two pushes
# are equal and opposite. On the right no choice can hold: the only support token, that of sequence 2, scores
# higher. On the left it scores lower, and $p$ runs off, as far as the steps reach.
#
# **With keys of length 1**, as in section 6.6, one sequence has no strict minimum. The Laplacian of
# $f = \sum_t s_t\, \gamma_t$, the sum of its second derivatives, is
#
# $$\nabla^2 f = -2\, \bar k \cdot \nabla f, \qquad \bar k = \sum_t s_t\, k_t .$$
#
# Where $\nabla f = 0$ the curvatures of $f$, and with them those of $L$, add up to zero: no strict minimum.
#
# <details><summary>Why</summary>
#
# With $\nabla s_t = s_t (k_t - \bar k)$ the gradient is $\nabla f = \sum_t s_t \gamma_t (k_t - \bar k)$.
# Differentiate again: $\nabla^2 f = \sum_t s_t \gamma_t \big(\|k_t - \bar k\|^2 - \nabla \cdot \bar k\big)$
# with $\nabla \cdot \bar k = \sum_t s_t \|k_t - \bar k\|^2 = 1 - \|\bar k\|^2$. And $\|k_t - \bar k\|^2 = 1 -
# \|\bar k\|^2 - 2\, \bar k \cdot (k_t - \bar k)$: the constants cancel, and what remains is $-2\, \bar k
# \cdot \nabla f$.
#
# If all curvatures are zero, this does not yet exclude a minimum; the maximum principle for such equations
# does.
# </details>


# %%
def output(p, k, gamma):
    return torch.softmax(k @ p, dim=0) @ gamma


gradient_of = torch.func.grad(output)

for tokens in drawn.values():
    for k, gamma in zip(tokens.keys[:100, 0], tokens.scores[:100, 0], strict=True):
        p = k[0] + k[1]
        slope, second = gradient_of(p, k, gamma), torch.func.jacrev(gradient_of)(p, k, gamma)
        assert torch.isclose(second.trace(), -2 * torch.softmax(k @ p, dim=0) @ k @ slope)
cross = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
second = torch.func.jacrev(gradient_of)(torch.zeros(2), cross, torch.tensor([1.0, 1, 0, 0]))
print("four keys in a cross, scores 1, 1, 0, 0: curvatures of f at 0", second.diagonal().numpy())
assert np.allclose(second, [[0.25, 0], [0, -0.25]])

# %% [markdown]
# **Six sequences** together can. Growing steps cannot come to rest, so we take small ones from zero, which
# shrink, at $d = 3$; and go on from the ends of 6.6 with long ones. At rest the six gradients cancel: the
# length of their sum is far below the sum of their lengths.

# %%
print("d = 3, about, of 400      at rest   of these not locally optimal   near p_mm   all locally optimal")
runs = {"steps from 0.3": (6, 0.3), "others, from 0.3": (101, 0.3), "6.6's, from 100": (6, 100)}
for text, (seed, lr) in runs.items():
    tokens = drawn[3] if seed == 6 else data.random_tokens(n=6, T=8, d=3, trials=400, seed=seed)
    start, steps = (None, 7000) if lr < 1 else (ends[3].p.detach().clone(), 10_000)
    model = models.PromptAttention(3, trials=400, init=start)
    end = judged(descended(model, tokens, steps, lr, lambda j: 0.998**j), tokens)
    p = model.p.detach().numpy()
    each = gradient(np.repeat(p[:, None], 6, axis=1), tokens.keys.numpy(), tokens.scores.numpy(), apart=1)
    rests = np.linalg.norm(each.sum(axis=1), axis=-1) < 3e-6 * np.linalg.norm(each, axis=-1).sum(axis=1)
    well, near = end["locally optimal"].numpy(), end["along p_mm"].numpy()
    counts = [tens(one.sum()) for one in (rests, rests & ~well, rests & near)]
    percent = 5 * round(20 * well.mean())
    print("{:20s} {:11d} {:30d} {:11d} {:18d}%".format(text, *counts, percent))
    assert (counts[0], percent) == {0.3: (60, 70 + 5 * (seed != 6)), 100: (10, 95)}[lr]
    assert lr > 1 or (rests & well).sum() < 0.15 * rests.sum()

# %% [markdown]
# With small steps 70 or 75 percent of the choices are locally optimal, and about 60 runs come to rest at a
# finite point, nearly all of them with tokens that are *not*: the tokens that attention looks at there are no
# choice with which $p$ runs off. Part of them stand near the ray of their Att-SVM: not turned off it, but
# held back. Steps from 100 jump out of most such places, and end at a locally optimal choice in 95 percent.

# %% [markdown]
# ### Exercise 06.5: Every start, several sequences
#
# ★★★ · 15 minutes
#
# In every sequence one token is best and all others have equal scores, and the Att-SVM of the best tokens is
# feasible. Show that every *normalised* step of length $\eta$, from any start, adds at least $\eta /
# a_{\max}$ to $p \cdot p_{\mathrm{mm}}$, where $a_{\max}$ is the length of the longest comparison: so
# $\|p_j\|$ grows in proportion to $j$. Say where you use each assumption,
# and which term spoils the argument when the lower scores differ. Answer in words, in the next cell.
#
# <details><summary>Hint</summary>
#
# Write $-\nabla L$ as $\sum w_{it} a_{it}$. What are the signs of the $w_{it}$? Then bound $-\nabla L \cdot
# p_{\mathrm{mm}}$ from below and $\|\nabla L\|$ from above, both by $\sum w_{it}$.
# </details>

# %% [markdown] tags=["written"] exercise="06.5"
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
# 50 problems of four sequences with scores 1, .2, .2, .2, .2, each from a random start
rng = np.random.default_rng(6)
several = rng.normal(size=(50, 4, 5, 16))
several /= np.linalg.norm(several, axis=-1, keepdims=True)
first_best = np.full((50, 4, 5), 0.2) + 0.8 * (np.arange(5) == 0)
p_mm = np.array([att_svm(one, np.zeros(4, dtype=int)) for one in several])
a_max = np.linalg.norm(several[:, :, :1] - several, axis=-1).max(axis=(1, 2))
p, gains = 10 * rng.normal(size=(50, 16)), []
for _ in range(600):
    push = -gradient(np.repeat(p[:, None], 4, axis=1), several, first_best, apart=1).sum(axis=1)
    step = 0.1 * push / np.linalg.norm(push, axis=-1, keepdims=True)
    gains.append((step * p_mm).sum(axis=-1) / (0.1 / a_max))
    p = p + step
print(f"growth, in units of the bound: at least {np.min(gains):.2f}, median {np.median(gains):.1f}")
assert 1 <= np.min(gains) < 1.1

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
# **2.** A colleague trains with normalised descent, and the cosine to the SVM rises to 0.99 and then falls to
# 0.6. What do you ask first?
# <details><summary>Answer</summary>
#
# How the softmax gradient is computed, and how far the winners were ahead when the cosine turned: near a lead
# of 37 (lesson 05)? Then whether the selected tokens were read at the end.
# </details>

# %%
progress("06")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Where all leads grow, the gradient on $p$ is in the end that of a linear classifier whose data points are
#   the comparisons $k_\alpha - k_t$. So where a locally optimal choice holds, $\|p\| \to \infty$ and $p$
#   turns to the **Att-SVM** of the selected tokens: like $\|p_{\mathrm{mm}}\| \log j$ in $j$ plain steps, in
#   proportion to $j$ in normalised ones.
# - $p$ can run off with a choice if it is **locally optimal**: it has to beat its support tokens, not
#   everybody. Keys and scores decide that; which choice is reached depends on the start and the steps.
# - In 399 of 400 random problems with $d = 10$ the choice of $p$ was locally optimal, with $d = 3$ in
#   about 300.
# - $p$ need not run off: with small steps one run in six came to rest at $d = 3$, where gradients of several
#   sequences cancel, nearly always with tokens that are not locally optimal (section 6.7).

# %% [markdown]
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv:2306.13596): the theorem and the toy.
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv:2308.16898): the same for $W$ and for keys and queries.
# - B. Vasudeva, P. Deora, C. Thrampoulidis, *Implicit Bias and Fast Convergence Rates for Self-attention*
#   (2024, arXiv:2402.05738): normalised steps, with rates.
# - D. Soudry and others, *The Implicit Bias of Gradient Descent on Separable Data* (JMLR 2018,
#   arXiv:1710.10345): the linear result underneath.
#
# **New in the library:** [`geometry.selected_tokens`](../mini_attn/geometry.py),
# [`geometry.locally_optimal`](../mini_attn/geometry.py),
# [`svm.token_problem`](../mini_attn/svm/problem.py), [`train.growing`](../mini_attn/train.py).
#
# **Next:** [lesson 07](07_local_global_tokens.ipynb) asks which choices can hold, and from how wide a set of
# starts each is reached.
