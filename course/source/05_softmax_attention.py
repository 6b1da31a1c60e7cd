# %% [markdown] slideshow={"slide_type": "slide"}
# # 05 · Softmax attention from scratch
#
# An attention layer looks at a few tokens and returns a weighted average of what they hold. The weights
# come from a softmax, and training can push that softmax as far as it likes towards choosing a single
# token.
#
# **The question: what does a softmax choose, and can you still trust its gradient once it has chosen?**
#
# The answer to the second half, for the usual formula (and for `torch.softmax`), is no. For values of 1 and
# 0 it fails once the winner leads by 37 in the exponent, for others at another lead, or never. You will
# predict where it fails, where a run that trusts it goes, and repair it in one line.

# %% [markdown]
# **After this lesson you can**
#
# - compute the output of an attention layer, and say which token it selects and how firmly;
# - derive its gradient in the logits and in the weights $p$, and check both against autograd;
# - predict how fast a softmax saturates, and which rival sets the logarithmic pace of plain descent;
# - read the landscape of the loss over a two-dimensional $p$, and say why it is not convex;
# - recognise catastrophic cancellation in a gradient, predict what it does to a run, and cure it.
#
# **You need** lesson 01 (gradient descent, normalised descent, the logistic loss), the chain rule, and
# numpy. Reckon with 90 minutes for five exercises, and with 30 more for the optional sections 5.8 and 5.9,
# which hold a sixth.

# %%
from decimal import Decimal, localcontext

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, optim, plots, train, widgets
from mini_attn.models import PromptAttention
from mini_attn.plots import ink
from mini_attn.softmax import softmax as library_softmax
from mini_attn.softmax import textbook_softmax

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
TOKEN_COLORS = [plots.COLORS[name] for name in ("blue", "vermillion", "green")]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.1 The idea in a picture
#
# A **sequence** has $T$ tokens. Token $t$ has a **key** $k_t \in \mathbb{R}^d$, by which the layer finds
# it, and a **value** $g_t \in \mathbb{R}$, which is what it contributes. The layer itself is one vector
# $p \in \mathbb{R}^d$. It works in three lines:
#
# $$h_t = k_t \cdot p, \qquad s_t = \frac{e^{h_t}}{\sum_\tau e^{h_\tau}}, \qquad f = \sum_t s_t\, g_t .$$
#
# The $h_t$ are the **logits**, the $s_t$ are the **attention**: positive weights that sum to one. So $f$ is
# an average of the values, and it leans towards tokens whose keys point along $p$.
#
# Our toy, in this lesson and the next, has three tokens in the plane:
#
# | token | key $k_t$ | value $g_t$ | |
# |---|---|---|---|
# | 1 | $(-0.1,\ 1)$ | $1$ | the best |
# | 2 | $(1,\ 0)$ | $0.9$ | nearly as good |
# | 3 | $(0,\ 0)$ | $0$ | useless |

# %%
tokens = data.toy_one_sequence()
K = tokens.keys[0].numpy()  # (T, d), row t is the key k_t
g = tokens.values[0].numpy()  # (T,)
np.testing.assert_array_equal(K, [[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])
np.testing.assert_array_equal(g, [1.0, 0.9, 0.0])


def at(p):
    """The library's layer at p, (..., 2): leading dimensions are independent layers, one p each."""
    p = torch.as_tensor(p, dtype=torch.float64)
    return PromptAttention(d=2, trials=p.shape[:-1], init=p)


def draw_keys(ax, p):
    """The three keys, and the direction of p as an arrow."""
    ax.scatter(*K.T, s=110, color=TOKEN_COLORS, zorder=3)
    for k, value, shift in zip(K, g, ((-0.1, 0.2), (0.1, -0.35), (-0.1, -0.35)), strict=True):
        ax.annotate(f"value {value:g}", k + shift, ha="center", fontsize=11)
    ax.annotate("", xy=p, xytext=(0, 0), arrowprops={"arrowstyle": "-|>", "linewidth": 2})
    ax.set(xlim=(-1.1, 1.7), ylim=(-1.1, 1.7), xticks=[-1, 0, 1], yticks=[-1, 0, 1], aspect="equal")
    ax.set(xlabel="first coordinate", ylabel="second coordinate")


direction = np.array([0.5, np.sqrt(0.75)])  # 60 degrees, length 1
norms = [0, 1, 4, 16]
with torch.no_grad():
    layers = at(np.outer(norms, direction))
    attention = layers.attention(tokens)[:, 0].numpy()  # (layers, n, T) -> (layers, T): one sequence
    outputs = layers(tokens)[:, 0].numpy()  # (layers, n) -> (layers,)
np.testing.assert_allclose(outputs[[0, -1]], [0.63, 1.00], atol=0.005)
assert round(attention[-1, 0], 3) == 0.994

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.5), width_ratios=[1, 1.6])
draw_keys(left, 1.4 * direction)
left.set_title("keys, and the direction of $p$")
for t in range(3):
    right.bar(
        np.arange(4) + 0.27 * (t - 1), attention[:, t], 0.25, color=TOKEN_COLORS[t], label=f"token {t + 1}"
    )
right.set_xticks(range(4), [f"$\\|p\\| = {R}$\n$f = {f:.2f}$" for R, f in zip(norms, outputs, strict=True)])
right.set(ylabel="attention $s_t$", ylim=(0, 1.05), title="the longer $p$, the harder the choice")
right.legend(loc="upper left")
show(
    fig,
    alt="Left: three keys in the plane and an arrow p at 60 degrees. Right: attention on the three "
    "tokens as bars for p of length 0, 1, 4 and 16; from equal thirds to nearly everything on "
    "token 1, with the output f rising from 0.63 to 1.00.",
)

# %% [markdown]
# **Figure 1.** Left: the three keys and a direction for $p$. Right: the attention for four lengths of $p$
# in that direction, and the output $f$. Direction decides *which* token wins, length decides *how firmly*.

# %% [markdown]
# With $p = 0$ every token gets a third and $f = 0.63$ is the plain mean. At $\|p\| = 16$ token 1 holds
# 99.4% and $f$ is its value, 1.00. Attention is a *soft selection*: a choice among $T$ tokens that can be
# differentiated.
#
# (The papers write $f(X) = v^\top X^\top \mathrm{softmax}(K p)$. Row $t$ of $X$ is the token $x_t$, the
# linear head $v$ reads its value $g_t = v \cdot x_t$, and row $t$ of $K$ is its key.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.2 Softmax and its temperature
#
# Two facts about the softmax are worth having before you code it.
#
# **Only differences count.** Add the same number to every logit, and its exponential cancels between
# numerator and denominator.
#
# **A temperature sets the firmness.** $\mathrm{softmax}(h / \chi)$ with temperature $\chi > 0$ tends to the
# uniform average as $\chi \to \infty$, and puts everything on the largest logit, if there is one alone, as
# $\chi \to 0$. Since $h = K p$ is linear in $p$, *the length of $p$ is an inverse temperature*: doubling
# $\|p\|$ halves $\chi$. Figure 1 cooled one direction from $\chi = \infty$ to $1/16$.

# %% [markdown]
# ### Exercise 05.1: Softmax with a temperature
#
# ★☆☆ · 6 minutes
#
# Write the softmax of $h/\chi$ over the last axis. It must also be right for logits near $\pm 1000$, though
# $e^{1000}$ is no float: use one of the two facts. Use numpy throughout this lesson's exercises.
#
# <details><summary>Hint</summary>
#
# `h.max(axis=-1, keepdims=True)` keeps the axis, so that the result broadcasts against `h`; `sum` takes the
# same arguments.
#
# </details>


# %%
@exercise("05.1")
def softmax(h, temperature=1.0):
    """Attention weights, same shape as h: (..., T) logits, each row along the last axis sums to one."""
    ### BEGIN SOLUTION
    e = np.exp((h - h.max(axis=-1, keepdims=True)) / temperature)
    return e / e.sum(axis=-1, keepdims=True)
    ### END SOLUTION


# %%
check("05.1", softmax)
h = K @ direction
for temperature in (10, 1, 0.1):
    s = np.asarray(softmax(h, temperature))
    print(f"temperature {temperature:4}:  s = {s.round(3)},  f = {s @ g:.3f}")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.3 The gradient
#
# To train $p$ we need to know how $f$ reacts to the logits. Differentiate the quotient $s_t = e^{h_t} /
# \sum_\tau e^{h_\tau}$. For $\tau = t$ both numerator and denominator move, for $\tau \neq t$ only the
# denominator:
#
# $$\frac{\partial s_t}{\partial h_t} = s_t - s_t^2, \qquad
#   \frac{\partial s_t}{\partial h_\tau} = -\, s_t\, s_\tau \quad (\tau \neq t).$$
#
# Raising one logit lifts its own weight and lowers all the others.

# %% [markdown]
# ### Exercise 05.2: The gradient in the logits
#
# ★☆☆ · 8 minutes
#
# Return $\partial_t f = \partial f / \partial h_t$ for $f = \sum_\tau s_\tau g_\tau$. Simplify on paper
# before you code: no matrix is needed.
#
# <details><summary>Hint</summary>
#
# $\partial_t f = \sum_\tau g_\tau\, \partial s_\tau / \partial h_t$. Take $s_t$ out of every term. What is
# left in the bracket contains $f$.
#
# </details>


# %%
@exercise("05.2")
def output_gradient(h, g):
    """The gradient of f in the logits, (T,), from logits h (T,) and values g (T,)."""
    ### BEGIN SOLUTION
    s = softmax(h)
    return s * (g - s @ g)
    ### END SOLUTION


# %%
check("05.2", output_gradient)

# %% [markdown]
# The result is worth reading slowly:
#
# $$\partial_t f = s_t\,(g_t - f).$$
#
# A token's logit should rise exactly when its value beats *what the layer returns now*. How strongly is
# proportional to the attention it already has: a token that nobody looks at has no say. And the entries sum
# to zero, because shifting all logits together changes nothing.
#
# A derivation deserves a second opinion. Autograd gives one.

# %%
h = K @ (2 * direction)
h_torch = torch.tensor(h, requires_grad=True)
(torch.softmax(h_torch, -1) @ torch.as_tensor(g)).backward()

print("output_gradient     ", np.asarray(output_gradient(h, g)).round(6))
print("torch autograd      ", h_torch.grad.numpy().round(6))
again = "exercise 05.1 or 05.2 is not right yet: see what its check says"
assert np.allclose(softmax(h), library_softmax(torch.as_tensor(h)), rtol=1e-14), again
assert np.allclose(output_gradient(h, g), h_torch.grad, atol=1e-15), again

# %% [markdown]
# From the logits to $p$ is one more step of the chain rule: $h = K p$. Training minimises the mean loss over
# $n$ sequences,
#
# $$L(p) = \frac1n \sum_{i=1}^n \ell\,(y_i\, f_i),$$
#
# where sequence $i$ has keys $K_i$, tokens $X_i$, label $y_i = \pm 1$ and output $f_i$. The loss $\ell$ is a
# decreasing function of the signed output $u_i = y_i f_i$; here the logistic loss $\ell(u) = \log(1 +
# e^{-u})$ of lesson 01.

# %% [markdown]
# ### Exercise 05.3: The gradient of the loss in p
#
# ★★☆ · 10 minutes
#
# Return $\nabla L(p)$ for the logistic loss. All sequences have the same length $T$, so the inputs are
# arrays: `X` and `keys` of shape $(n, T, d)$, `y` of shape $(n,)$, `v` of shape $(d,)$. Values are
# $g_{it} = v \cdot x_{it}$. Go backwards, from the loss to the output, to the logits, to $p$.
#
# <details><summary>Hint</summary>
#
# Which of these does $p$ reach first: keys, tokens or labels? One factor for each of the three stations; the
# middle one is 05.2. A loop over sequences is fine, and `np.einsum("nt,ntd->d", weights, keys)` sums over
# sequences and tokens at once.
#
# </details>


# %%
@exercise("05.3")
def loss_gradient(p, X, keys, y, v):
    """The gradient of the mean logistic loss in p, (d,)."""
    ### BEGIN SOLUTION
    s, values = softmax(keys @ p), X @ v  # (n, T)
    f = (s * values).sum(axis=-1)  # (n,)
    slopes = s * (values - f[:, None])  # (n, T)
    steepness = -y / (1 + np.exp(y * f))  # (n,)
    return np.einsum("nt,ntd->d", steepness[:, None] * slopes, keys) / len(y)
    ### END SOLUTION


# %%
check("05.3", loss_gradient)

# %% [markdown]
# Now the same through autograd, on eight random sequences of six tokens in five dimensions. The logistic loss
# is `softplus(-u)`, as $\mathrm{softplus}(x) = \log(1 + e^x)$. From here on we let the library's
# `PromptAttention` do this work; it is the model you just differentiated.

# %%
several = data.random_tokens(n=8, T=6, d=5, seed=1)
layer = PromptAttention(d=5, init=torch.linspace(-2, 2, 5, dtype=torch.float64))
torch.nn.functional.softplus(-several.y * layer(several)).mean().backward()
by_hand = loss_gradient(
    layer.p.detach().numpy(), *(a.numpy() for a in (several.X, several.keys, several.y, several.v))
)
difference = np.abs(by_hand - layer.p.grad.numpy()).max()
print("largest difference from autograd below 1e-15:", bool(difference < 1e-15))
assert difference < 1e-15, "exercise 05.3 is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Turn it yourself
#
# Turn $p$ with the first slider, lengthen it with the second. Watch three things: which token wins, how the
# attention hardens, and what becomes of the gradient $\nabla_h f$. Its bars are drawn relative to the largest
# one, whose size stands above them.


# %%
def attention_and_gradient(h):
    """s and the gradient of f in h, (T,) each, by the library; section 5.6 says why not by torch."""
    h = torch.tensor(h, requires_grad=True)
    s = library_softmax(h)
    (s @ torch.as_tensor(g)).backward()
    return s.detach().numpy(), h.grad.numpy()


assert round(np.abs(attention_and_gradient(K @ (12 * direction))[1]).max(), 3) == 0.002
assert round(attention_and_gradient(K @ ([np.sqrt(800)] * 2))[0][0], 2) == 0.06
weights, pushes = attention_and_gradient(K @ [40, 0])
assert weights[0] < weights[2] < 1e-15
assert abs(pushes[0]) < 0.01 * abs(pushes[2])


# %% jupyter={"source_hidden": true}
def draw_layer(angle, norm):
    """Keys and p, attention, and gradient in the logits, for p of a given angle (degrees) and length."""
    unit = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    s, slopes = attention_and_gradient(K @ (norm * unit))
    size = np.abs(slopes).max()
    fig = Figure(figsize=(9.6, 3), layout="none")  # a fixed layout redraws twice as fast
    plane, weights, pull = fig.subplots(1, 3, width_ratios=[1.1, 1, 1])
    fig.subplots_adjust(left=0.07, right=0.99, bottom=0.18, top=0.88, wspace=0.3)
    draw_keys(plane, 1.4 * unit)
    plane.set_title(f"$\\|p\\| = {norm:g}$ at {angle:g}°")
    weights.bar([1, 2, 3], s, color=TOKEN_COLORS)
    weights.set(
        ylim=(0, 1.05),
        xticks=[1, 2, 3],
        yticks=[0, 0.5, 1],
        xlabel="token",
        title=f"attention, $f = {s @ g:.3f}$",
    )
    pull.bar([1, 2, 3], slopes / size, color=TOKEN_COLORS)
    pull.axhline(0, color=plots.COLORS["black"], linewidth=1)
    pull.set(
        ylim=(-1.1, 1.1),
        xticks=[1, 2, 3],
        yticks=[-1, 0, 1],
        xlabel="token",
        title=f"gradient $\\nabla_h f$ (largest {size:.0e})",
    )
    return fig


show(
    draw_layer(60, 12),
    alt="Three panels for p of length 12 at 60 degrees. Keys and p; attention nearly all on token 1; "
    "the gradient in the logits, positive for token 1 and negative for tokens 2 and 3, its "
    "largest entry 2e-03.",
)

# %% [markdown]
# **Figure 2.** What the sliders below show, for $p$ of length 12 at 60°. The layer has all but chosen token
# 1, and the largest entry of its gradient is 0.002. (Token 2 holds the rest, and is worth 0.9: so $f$ is
# nearer to 1 than $s_1$. Token 3's bar is too short to see.)

# %% tags=["nbval-ignore-output", "widget"]
wide = {"style": {"description_width": "110px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    draw_layer,
    alt="The three keys with the direction of p, the attention, and the gradient in the logits, as bars.",
    angle=ipywidgets.IntSlider(60, -180, 180, 5, description="angle of p (°)", **wide),
    norm=ipywidgets.FloatSlider(value=12, min=0.5, max=40, step=0.5, description="length of p", **wide),
)

# %% [markdown]
# Two settings to try. At 0° token 2 wins, although token 1 is worth more. Lengthen $p$: token 1's bar
# vanishes although it is the best; the gradient only pushes away the useless token 3. (Token 1's logit is
# $-0.1\,\|p\|$, behind token 3's 0, so it has even less of a say.) At 45° tokens 1 and 2 nearly tie: even
# at $\|p\| = 40$ token 1 keeps 6% of the attention.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.4 Saturation: the gradient dies as fast as the choice hardens
#
# Fix a direction and let $R = \|p\|$ grow. The winner is $\alpha = \arg\max_t k_t \cdot p$. What counts is
# how far it is ahead of its nearest rival, per unit of length:
#
# $$\mu(p) = \min_{t \neq \alpha} \frac{(k_\alpha - k_t) \cdot p}{\|p\|},$$
#
# the **margin** of the direction, a property of the direction alone.
#
# > **Proposition (a softmax saturates exponentially).** Let $p$ have norm $R$ and margin $\mu(p) > 0$ (so one
# > token alone wins). Then
# >
# > $$1 - s_\alpha \;\le\; (T-1)\, e^{-\mu(p) R}, \qquad \|\nabla_p f\| \;\le\; C\, (T-1)\, e^{-\mu(p) R},$$
# >
# > with $C = \max_t \|k_\alpha - k_t\|\, (\max_t g_t - \min_t g_t)$.
# >
# > *Proof.* Each rival has $s_t \le e^{h_t - h_\alpha} \le e^{-\mu(p) R}$; add the $T-1$ of them. As the
# > entries of $\nabla_h f$ sum to zero, $\nabla_p f = \sum_{t \neq \alpha} \partial_t f (k_t - k_\alpha)$.
# > Here $|\partial_t f| = s_t |g_t - f| \le s_t (\max g - \min g)$; add again. ∎
#
# ($\nabla L$ obeys the mean of these bounds, since $|\ell'| \le 1$: the sequence with the least margin
# rules.)
#
# How long must $p$ be for $1 - s_\alpha \le 10^{-6}$? The bound guarantees it from $R = \log(2 \cdot 10^6) /
# \mu(p)$ on. *The cheapest direction is the one with the largest margin*, and finding it is a support vector
# machine: lesson 06. In our toy it is $k_1$ itself, with margin $\|k_1\| = 1.005$, as token 3, at the origin,
# is the nearest rival.

# %%
k1 = K[0]
length_k1 = np.linalg.norm(k1)
angles = np.radians([50, 60, 90, 95.7])
margins = ((k1 - K[1:]) @ [np.cos(angles), np.sin(angles)]).min(0)
print("1 - s_1 < 1e-6 from this R on, at 50°, 60°, 90°, 95.7°:", (np.log(2e6) / margins).round(1))
layers = at((np.log(2e6) / margins * [np.cos(angles), np.sin(angles)]).T)
assert (layers.attention(tokens)[:, 0, 1:].sum(-1) < 1e-6).all()
assert np.isclose(margins[-1], length_k1, atol=1e-4)
assert (margins[:-1] < length_k1).all()
assert (round(length_k1, 3), round(1 / length_k1**2, 2)) == (1.005, 0.99)
assert round(np.degrees(np.arctan2(*k1[::-1])), 1) == 95.7

# %% [markdown]
# All these directions select token 1, at very different prices.
#
# ### What plain gradient descent makes of it
#
# Take the linear loss $\ell(u) = -u$, so that descent on $L = -f$ is ascent on $f$. Late in the run mostly
# one rival matters, token 3; token 2 costs only 0.1 in value and trails by more. Leave it out, and the
# dynamics fit on two lines. The gradient is $\partial_1 f k_1 + \partial_3 f k_3 \approx s_3\, k_1$, since
# $k_3 = 0$ and $\partial_1 f = s_1 (1 - f) \approx s_3$. With step $\eta$, the lead $h_1 - h_3 = k_1 \cdot p$
# grows by $\eta \|k_1\|^2 e^{-(h_1 - h_3)}$ a step. So $e^{h_1 - h_3}$ grows by $\eta \|k_1\|^2$ a step
# (while steps are small), and after many steps $j$ (lesson 01 wrote $t$; here that is a token)
#
# $$k_1 \cdot p \approx \log\left(\eta \|k_1\|^2\, j\right), \qquad
#   1 - f \approx \frac{1}{\eta \|k_1\|^2\, j}.$$
#
# Nothing is fitted, and the start is forgotten, if slowly. Here is the measurement, from $p = 0$ and from 24
# random starts, with four step sizes.


# %%
def textbook(h, g):
    """s_t (g_t - f) over the last axis, as in exercise 05.2, for many p at once."""
    e = np.exp(h - h.max(-1, keepdims=True))
    s = e / e.sum(-1, keepdims=True)
    return s * (g - (s * g).sum(-1, keepdims=True))


def ascend(p, rule, keep, keys=None, values=None, slopes=textbook):
    """Ascent on f (by default the toy's) from each row of p, (runs, d): p after the steps in keep.

    rule: gradients -> steps.
    """
    keys, values, kept = K if keys is None else keys, g if values is None else values, []
    for j in range(1, max(keep) + 1):
        h = (keys @ p[..., None])[..., 0]
        p = p + rule((slopes(h, values)[..., None, :] @ keys)[..., 0, :])
        if j in keep:
            kept.append(p)
    return np.array(kept)  # (len(keep), runs, d)


times = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000]
starts = np.concatenate([np.zeros((1, 2)), np.random.default_rng(3).uniform(-5, 5, (24, 2))])
etas = np.array([1, 0.1, 10, 100])
plain = ascend(np.tile(starts, (4, 1)), lambda G: np.repeat(etas, 25)[:, None] * G, set(times))
plain = plain.reshape(len(times), 4, 25, 2)  # (times, step sizes, starts, d)
path = plain[:, 0, 0]  # from 0, with step 1
predicted = np.log(length_k1**2 * np.array(times))
s = np.asarray(softmax(path @ K.T))
print("     j   k_1.p  predicted   j (1 - f)   of this token 2")
for row in zip(times, path @ k1, predicted, times * (1 - s @ g), 0.1 * s[:, 1] / (1 - s @ g), strict=True):
    print("{:6} {:7.2f} {:10.2f} {:11.3f} {:12.1%}".format(*row))
assert abs(path[-1] @ k1 - predicted[-1]) < 0.06 < 0.5 < predicted[0] - 1.7
assert abs(times[-1] * (1 - s[-1] @ g) - 1 / length_k1**2) < 0.02

h = path @ K.T
behind, lead = h[:, 2] - h[:, 1], h[:, 0] - h[:, 2]
x = np.exp(-(behind[1:] + behind[:-1]) / 2)  # s_2 / s_3 between two records
slope = np.diff(behind) / np.diff(lead)
print("\ntoken 2 falls behind token 3, for each unit of the lead:", slope[4:].round(3))
np.testing.assert_allclose(slope[4:], (0.1 + 0.11 * x[4:]) / (1.01 + 0.111 * x[4:]), rtol=3e-3)

print("\n            at token 1, against log(eta |k_1|^2 j)      at token 2, against log(0.9 eta j)")
print("step size   within 0.1    not   farthest       within 0.1    not   farthest")
for i, eta in enumerate(etas):
    wins = (plain[-1, i] @ K.T).argmax(-1)
    assert (wins < 2).all()
    one = plain[-1, i, wins == 0] @ k1 - np.log(eta * length_k1**2 * times[-1])
    two = plain[-1, i, wins == 1] @ K[1] - np.log(0.9 * eta * times[-1])
    print(f"{eta:9g}", end="")
    for won, width in ((one, 13), (two, 17)):
        near = abs(won) <= 0.1
        print(f"{near.sum():{width}} {(~near).sum():7} {won[abs(won).argmax()]:10.2f}", end="")
    print()
    assert one.min() > -0.1
    assert (abs(two) <= 0.1).sum() >= 4

# %% [markdown]
# From 0 with $\eta = 1$ the lead is within 0.06 of the formula at the end, and $j\,(1 - f)$ is near
# $1/\|k_1\|^2 = 0.99$. The start is forgotten slowly. With $x = s_2/s_3$ the gradient is
# $s_3\, ((1 + 0.1x)\, k_1 - 0.1x\, k_2)$: a step that adds $1.01 + 0.111x$ to the lead takes only
# $0.1 + 0.11x$ from token 2's logit, about a seventh as much. So its share of $1 - f$ falls from 6.9% at
# 1,000 steps to 4.2% at 30,000.
#
# The second table counts all 100 runs. Where token 1 wins, most are within 0.1 of the formula and none is
# behind: whatever else acts adds to the lead, token 2's push, or a first step with $\eta = 100$ that does in
# one go what the formula gets after thousands. Where token 2 wins, the same count on the lead over token 3
# ($f \approx 0.9$, $\|k_2\| = 1$) gives $\log(0.9\, \eta\, j)$, and most are within 0.1 of that.
#
# This is lesson 01 again: a loss that falls as one over the number of steps, a norm that grows as its
# logarithm. There the tail of the *loss* was exponential; here it is the tail of the *softmax*.

# %% [markdown]
# ### Exercise 05.4: Who sets the pace?
#
# ★★☆ · 10 minutes
#
# In one dimension ($d = 1$) keys and $p$ are numbers. Let the keys fall, $k_1 > k_2 > \dots$, and let the
# values fall *or stay equal*: $g_1 \ge g_2 \ge \dots$, not all alike. Plain ascent on $f$ with step $\eta$
# starts at $p = 0$. Predict $p$ after $j$ steps: return a $P$ for which $p - P \to 0$ as $j \to \infty$.
#
# <details><summary>Hint</summary>
#
# Write the gradient as in the proof of the proposition. Which of its terms is the largest far out, if $g_2 =
# g_1$? What is $g_2 - f$ then? And which differential equation has a logarithm for a solution?
#
# </details>


# %%
@exercise("05.4")
def crawl(keys, g, eta, j):
    """p after j steps of plain ascent, for large j, a number; keys (T,) fall, values g (T,) never rise."""
    ### BEGIN SOLUTION
    rival = np.argmax(g < g[0])  # those of the winner's value push by s_t (1 - f) only: second order
    lead = keys[0] - keys[rival]
    return np.log(eta * lead**2 * (g[0] - g[rival]) * j) / lead
    ### END SOLUTION


# %%
check("05.4", crawl)
rng = np.random.default_rng(5)
line_keys = -np.cumsum(rng.uniform(0.5, 1, (12, 4)), axis=1)
line_values = 1 - np.cumsum(rng.uniform(0.2, 0.5, (12, 4)), axis=1)
line_values[:6, 1] = line_values[:6, 0]  # in half of the problems the nearest rival has the winner's value
ends = ascend(np.zeros((12, 1)), lambda G: G, {3000, 30_000}, line_keys[..., None], line_values)[..., 0]
expected = np.array([crawl(*problem, 1.0, 30_000) for problem in zip(line_keys, line_values, strict=True)])
pace = (ends[1] - ends[0]) / np.log(10)  # slope of p in log j over the last decade
nearest = pace * (line_keys[:, 0] - line_keys[:, 1])
close = np.abs(ends[1] - expected) < 0.06
print("12 problems, 30,000 steps: prediction off by less than 0.06 in", close.sum())
print("slope in log j, times the lead per length on the nearest rival:")
print("   tied in value with the winner:", nearest[:6].round(2), "  not tied:", nearest[6:].round(2))
assert close.all(), "exercise 05.4 is not right yet: see what its check says"
assert nearest[:6].max() < 0.7 < 0.9 < nearest[6:].min() < nearest[6:].max() < 1.05

# %% [markdown]
# So the margin bounds the pace from above only. A rival of the winner's own value does not pull, however near
# it is: $\|p\|$ then grows like $\log j$ over the lead, per unit of length, on the nearest rival *of lower
# value*. (A nearest rival of higher value can stop it altogether, as token 1 is stopped at 0°: lesson 06.)

# %% slideshow={"slide_type": "subslide"}
radii = np.linspace(0.5, 30, 60)
model = at(np.outer(radii, k1 / length_k1))
model(tokens).sum().backward()
sizes = model.p.grad.norm(dim=-1).numpy()
bound = max(np.linalg.norm(k1 - k) for k in K) * (g.max() - g.min()) * 2 * np.exp(-length_k1 * radii)
assert (sizes <= bound).all()
assert round(np.log10(sizes[-1])) == -13

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.semilogy(radii, sizes, label="measured")
left.semilogy(radii, bound, "--", color=plots.COLORS["black"], label="bound of the proposition")
left.set(
    xlabel=r"norm $R = \|p\|$ along $k_1$",
    ylabel=r"gradient norm $\|\nabla_p f\|$",
    title="the gradient dies",
)
left.legend()
plots.convergence(times, path @ k1, predicted, ax=right)
right.set(xlabel="steps $j$", ylabel=r"lead $k_1 \cdot p$", title="plain gradient descent crawls")
show(
    fig,
    alt="Left: the gradient norm falls along a straight line on a logarithmic axis, from 0.1 to 1e-13 "
    "as the norm of p grows to 30, just below the bound. Right: the lead of token 1 under plain "
    "gradient descent grows as a straight line in log j and lies on the predicted line from 100 steps on.",
)

# %% [markdown]
# **Figure 3.** Left: the norm of $\nabla_p f$ along the direction $k_1$, and the bound. Right: the lead after
# $j$ steps from $p = 0$ with $\eta = 1$ (dots), and $\log(\|k_1\|^2 j)$ (dashed), which is a law for late
# times: the first dots, at 10 and 30 steps, lie 1.2 and 0.6 below it.
#
# The cure for crawling is that of lesson 01: divide the gradient by its norm, and take steps of fixed length.
# That sends us down the left panel of Figure 3, to gradients of $10^{-13}$ and far below. Remember that when
# we get to section 5.6.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.5 The landscape
#
# With $d = 2$ we can look at all of $L(p) = -f$ at once. The layer takes leading dimensions, so one call
# evaluates a whole grid of $p$, and one `backward` gives the gradient at each of them.

# %%
axis = np.linspace(-10, 10, 121)
model = at(np.stack(np.meshgrid(axis, axis), axis=-1))  # (121, 121, 2): a layer for each p of the grid
L = -model(tokens)[..., 0]
L.sum().backward()
size = model.p.grad.norm(dim=-1).numpy()

three = at([[2.0, -5.0], [2.0, 0.0], [-5.0, -5.0]])  # three starts, trained side by side
descent = optim.NormalizedGD(three.parameters(), lr=0.1, batch_dims=1)
history = train.fit(
    three, tokens, descent, 1000, "linear", record={"p": lambda m: m.p}, every=4, progress=False
)
ends = three(tokens)[:, 0].detach().numpy()
print("f after 1,000 steps from (2, -5), (2, 0), (-5, -5):", ends.round(3))
np.testing.assert_allclose(ends, [0.9, 1.0, 1.0], atol=1e-9)
s = np.asarray(softmax(history["p"][:, 0].numpy() @ K.T))
short_of = 0.9 * s[:, 2] - 0.1 * s[:, 0]  # 0.9 - f on the run from (2, -5), without cancellation
assert (np.diff(short_of) < 0).all()
assert 0 < short_of[-1] < 1e-43

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.7))
levels = [-1.02, -0.98, -0.94, -0.88, -0.8, -0.6, -0.4, -0.2, -0.05, 0.01]  # finest where the plateaus are
coarse = BoundaryNorm(levels, 256)
filled = left.contourf(axis, axis, L.detach().numpy(), levels=levels, norm=coarse, cmap="viridis")
fig.colorbar(filled, ax=left, label="loss $L(p) = -f$", shrink=0.85, ticks=levels[:-1])
for run, marker in zip((0, 1, 2), "oDs", strict=True):
    walked = history["p"][:, run].T.numpy()  # (2, records)
    left.plot(*walked, color=plots.COLORS["vermillion"], linewidth=3)
    left.plot(*walked[:, 0], marker, color=plots.COLORS["vermillion"], markersize=9, markeredgecolor="white")
left.set_title("three plateaus")
filled = right.contourf(axis, axis, np.log10(size), levels=np.arange(-5, 0.1), cmap="cividis", extend="min")
fig.colorbar(filled, ax=right, label=r"$\log_{10} \|\nabla L(p)\|$", shrink=0.85)
right.set_title("steep only along the borders")
for ax in (left, right):
    for x, y in (([0, 10], [0, 11]), ([0, -10], [0, -1]), ([0, 0], [0, -10])):  # where two logits tie
        ax.plot(x, y, "--", color=plots.COLORS["black"], linewidth=1.2)
    for spot, token in zip(((-4, 6.8), (3.2, -8.2), (-8.8, -8.6)), (1, 2, 3), strict=True):
        ax.text(
            *spot, f"token {token}", fontsize=13, bbox={"facecolor": "white", "edgecolor": "none", "pad": 2}
        )
    ax.set(xlim=(-10, 10), ylim=(-10, 10), xlabel="$p_1$", ylabel="$p_2$", aspect="equal")
show(
    fig,
    alt="Left: the loss over the plane of p. Three flat sectors meet near the origin: the upper one, of "
    "token 1, at minus 1; the right one, of token 2, at minus 0.9; the lower left one, of token 3, "
    "at 0. Of three training paths, one goes right and stays at minus 0.9; one starts to the right, bends up "
    "and crosses to minus 1; one goes up to minus 1 from the lower left. "
    "Right: the gradient norm is above 0.01 along the borders between the sectors and falls to 0.00001 "
    "inside them.",
)

# %% [markdown]
# **Figure 4.** Left: the loss over $p$, and three runs of normalised descent, from $(2, -5)$ (disc), $(2, 0)$
# (diamond; it comes back beyond the picture's edge) and $(-5, -5)$ (square). Colours are finest near $-1$ and
# $-0.9$. Right: the size of the gradient on a logarithmic scale. Dashed: two logits tie; each sector is named
# after the token that wins in it.

# %% [markdown]
# Each sector of the plane is where one token wins, and far out the loss is minus that token's value: $-1$,
# $-0.9$ and $0$. The gradient lives along the borders between sectors.
#
# **The landscape is not convex.** $L$ stays between $-1$ and $0$ everywhere. A convex function on the whole
# plane that is bounded above must be constant: if it rose anywhere along a line, it would go on rising at
# least as fast, past every bound. The same holds for any data and any continuous loss, unless $L$ is
# constant, because $f$ never leaves the range of the values.
#
# **And it matters.** The run from $(-5, -5)$ ends at $f = 1$; the one from $(2, -5)$ at $f = 0.9$, with token
# 2. No local minimum is in sight: over its 1,000 steps $f$ only rises, and $0.9 - f$ falls below $10^{-43}$.
# There are two ways to infinity, and both attract. The sector of the start does not decide: the run from $(2,
# 0)$ starts in token 2's sector too, and leaves it. Which tokens attract, and from where, is the question of
# lessons 06 and 07.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.6 The formula that fails
#
# Normalised descent divides the gradient by its norm. It will amplify whatever is there, so $\nabla_h f$ must
# be right *relative to its own size*, however small. Is it?
#
# Call $\Delta_t = h_\alpha - h_t$ the **lead** of the winner over token $t$, and the smallest one $\Delta$:
# in the notation of section 5.4, $\Delta = \mu(p) R$. We need a judge who does not round at $10^{-16}$.
# Python's `decimal` computes with as many digits as we ask for.


# %%
def exact(h, g):
    """The gradient in the logits with 80 decimal digits; the floats h and g are taken as exact."""
    with localcontext() as context:
        context.prec = 80
        e = [Decimal(float(x)).exp() for x in h]
        values = [Decimal(float(x)) for x in g]
        f = sum(a * b for a, b in zip(e, values, strict=True)) / sum(e)
        return np.array([float(a / sum(e) * (b - f)) for a, b in zip(e, values, strict=True)])


for lead in (10, 40):
    h = lead * K @ k1 / length_k1**2  # along k_1, with h_1 - h_3 = lead
    print(f"lead {lead}")
    print("   textbook", np.array2string(textbook(h, g), precision=3))
    print("   exact   ", np.array2string(exact(h, g), precision=3))
assert textbook(h, g)[0] == 0 < exact(h, g)[0]
assert np.abs(textbook(h, g)[1:] / exact(h, g)[1:] - 1).max() < 1e-12
entries = []
for dtype, lead in ((torch.float64, 40), (torch.float32, 20), (torch.bfloat16, 10)):
    h = torch.tensor([lead, 0.0, -4], dtype=dtype, requires_grad=True)
    (torch.softmax(h, -1) * torch.tensor([1.0, 0.5, 0.0], dtype=dtype)).sum().backward()
    entries.append(float(h.grad[0]))
    true = exact([lead, 0, -4], [1, 0.5, 0])[0]
    print(f"torch.softmax, {dtype}, lead {lead}: {entries[-1]:.1e}, exact {true:.1e}")
assert entries[0] == entries[1] == 0
assert abs(entries[2] / true + 1) < 0.1  # the wrong sign

# %% [markdown]
# At a lead of 10 the two agree. At a lead of 40 the textbook gradient of the *losers* is right to twelve
# digits, and that of the *winner* is zero. It should be minus the sum of the others. Torch's own softmax
# shares the flaw. In `bfloat16`, with 8 binary digits, the winner's entry even has the wrong sign at a lead
# of 10, which leaves the rival one part in 22,000: there the stored weights add up to more than 1.
#
# The culprit is the bracket $g_\alpha - f$. At saturation $f \approx g_\alpha$, and the two agree to all the
# digits a float has. No step is wrong: the subtraction is even exact. It lays bare what the rounding of $f$
# had already lost. This is **catastrophic cancellation**, and it has a law with two sides. Double precision
# rounds by up to $2^{-53} \approx 1.1 \times 10^{-16}$, relatively.
#
# > **How wrong is the winner's entry?** Let $b = \sum_{t \neq \alpha} s_t (g_\alpha - g_t)$ be the true
# > bracket, so far out that no power of 2 lies between the computed $f$ and $g_\alpha$.
# >
# > 1. *It comes in grains.* The computed bracket is a whole multiple of $q$, the spacing of floats next to
# >    $g_\alpha$ towards 0; $2^{-53} |g_\alpha| \le q \le 2^{-52} |g_\alpha|$.
# > 2. *So it fails for certain* once $|b| < \frac23 q$: then 0 is off by all of $b$, and any other multiple
# >    by more than half of it.
# > 3. *It is safe before.* The sum of the $e^{h_t}$, the division, the product $s_\alpha g_\alpha$ and the
# >    sum $f$ round at most $2T$ times, each by at most $2^{-53} |g_\alpha|$, to first order. So the relative
# >    error stays below one half while $|b| > 4T \cdot 2^{-53} |g_\alpha|$. (The rounding of
# >    each $e^{h_t - h_\alpha}$ is relative to a small number, and the winner's is 1 exactly.)
#
# If all rivals trail by $\Delta$, then $b \approx e^{-\Delta} \sum_t (g_\alpha - g_t)$, and both sides meet
# at the **wall**
#
# $$\Delta^* = 53 \log 2 + \log \frac{\left|\sum_t (g_\alpha - g_t)\right|}{|g_\alpha|}, \qquad
#   53 \log 2 = 36.7:$$
#
# the first failure comes at most $\log 4T$ before it, the last good entry at most $\log \frac32$ after.
# Single precision has 24 in place of 53, and $24 \log 2 = 16.6$.
#
# **Predict**, for one rival: where is the wall for values $(1, 0)$; $(1, 0.999)$; $(1001, 1000)$; and after
# subtracting 0.9 or 0.999 from both of $(1, 0)$?
#
# <details><summary>Answer</summary>
#
# 36.7; 29.8, as the values nearly agree; 29.8 again, as only their ratio counts; 39.0; 43.6. A constant
# brings the wall nearer or moves it out: what counts is what it leaves of $|g_\alpha|$.
#
# </details>


# %%
def brackets(g, leads):
    """The winner's bracket g_1 - f, as the textbook has it, and b, (leads,): all rivals trail by the lead."""
    h = np.where(np.arange(len(g)) == 0, leads[:, None], 0.0)
    e = np.exp(h - leads[:, None])
    s = e / e.sum(-1, keepdims=True)
    return g[0] - (s * g).sum(-1), (s * (g[0] - g)).sum(-1)


def wall(g, bits=53):
    return bits * np.log(2) + np.log(abs((g[0] - g).sum() / g[0])) if g[0] else np.inf


leads = np.arange(20, 60, 0.05)
print("values               wall   first failure, last good entry   exactly 0 from")
for values in ([1, 0], [1, 0.999], [1001, 1000], [0.1, -0.9], [0.001, -0.999]):
    values = np.array(values, dtype=float)
    computed, b = brackets(values, leads)
    for i in (0, 300):  # the judge agrees about b, at leads 20 and 35
        true = exact([leads[i], 0], values)[0]
        assert abs(b[i] / (1 + np.exp(-leads[i])) / true - 1) < 1e-12
    failed = np.abs(computed / b - 1) > 0.5
    first, last = leads[failed.argmax()], leads[~failed][-1]
    print(f"{values[0]:6g}, {values[1]:6g} {wall(values):11.1f} {first:12.1f} {last:14.1f}", end="")
    print(f"{leads[computed != 0][-1]:23.1f}")
    assert wall(values) - np.log(8) <= first
    assert last <= wall(values) + 0.41

inside = grains = 0
rng = np.random.default_rng(11)
offsets = []
for _ in range(300):
    values = rng.uniform(-2, 2, rng.integers(2, 41))
    computed, b = brackets(values, leads)
    failed = np.abs(computed / b - 1) > 0.5
    first, last = leads[failed.argmax()] - wall(values), leads[~failed][-1] - wall(values)
    inside += bool(-np.log(4 * len(values)) <= first and last <= np.log(1.5) + 0.01)
    quotient = computed / np.spacing(np.nextafter(abs(values[0]), 0))
    grains += bool((quotient == quotient.round()).all())
    offsets.append(first)
print("\n300 random sets of 2 to 40 values: wall between both sides in", inside, "- whole grains in", grains)
print(f"first failure, after the wall: {np.median(offsets):.1f} in the median")
assert inside == grains == 300
assert -1.8 < np.median(offsets) < -1
assert (round(wall(np.array([1.0, 0])), 1), round(wall(np.array([1.0, 0]), 24), 1)) == (36.7, 16.6)
assert [round(wall(np.array(v)), 1) for v in ([1, 0.999], [0.1, -0.9], [0.001, -0.999])] == [29.8, 39.0, 43.6]

# %% [markdown]
# All 300 walls lie between the two sides, in the median more than 1 before $\Delta^*$: more rivals move the
# wall out by their sum, and back in by their roundings. Where the wall is nearer than 37, the entry is
# first *noise*: a multiple of $q$ where the truth is a fraction of it. With values of 1 and 0.999 it can be
# hundreds of times too large.

# %%
values = np.array([1, 0.999])
noise_leads = np.arange(27, 39, 0.02)
computed, b = brackets(values, noise_leads)
q = 2.0**-53
noise = (noise_leads > 30) & (noise_leads < 36.7)
print(f"share of zeros at leads 30 to 36.7: {(computed[noise] == 0).mean():.1f}")
print("somewhere more than 500 times the truth:", bool((computed / b)[noise].max() > 500))
assert np.abs(computed[noise]).max() <= 2 * q
assert (computed[noise_leads > 36.8] == 0).all()
assert (computed / b)[noise].max() > 500

# %% [markdown]
# ### Exercise 05.5: Cure the cancellation
#
# ★★☆ · 8 minutes
#
# Return $\nabla_h f$ with every entry right to six digits *relative to the largest*, at any lead up to 60.
# The mathematics may not change; only the order of the arithmetic. The winner is the token of largest logit,
# which need not be the one of largest value.
#
# <details><summary>Hint</summary>
#
# What in the prediction above moved the wall out, and how far can it go? For one rival, try subtracting 1.
#
# </details>


# %%
@exercise("05.5")
def careful_gradient(h, g):
    """The gradient of f in the logits, (T,), without cancellation, from logits h (T,) and values g (T,)."""
    ### BEGIN SOLUTION
    s = softmax(h)
    g = g - g[np.argmax(h)]  # anchor at the winner: its own value becomes exactly 0
    return s * (g - s @ g)
    ### END SOLUTION


# %%
check("05.5", careful_gradient)

# %% [markdown]
# A value of 0 for the winner has no wall: for $(0, -1)$ the bracket is minus a sum of small numbers. So there
# are two good ways. *Pairwise*: $\partial_t f = \sum_\tau s_t s_\tau (g_t - g_\tau)$, which subtracts
# values before it averages. It costs $T^2$. *Anchored at the winner*: subtract $g_\alpha$ from every value
# first, then use the old formula. It costs one subtraction. The library's `softmax` does the second in its
# `backward`, so autograd gets it right wherever it is used; its `textbook_softmax` keeps the flaw.


# %%
def worst(softmax, leads, dtype):
    """Relative error of autograd along k_1, sum of |errors| / sum of |entries|, one number a lead."""
    errors = []
    for lead in leads:
        h, values = (lead * K @ k1 / length_k1**2).astype(dtype), g.astype(dtype)
        h_torch = torch.tensor(h, requires_grad=True)
        (softmax(h_torch) @ torch.as_tensor(values)).backward()
        truth = exact(h, values)
        errors.append(np.abs(h_torch.grad.numpy() - truth).sum() / np.abs(truth).sum())
    return np.maximum(errors, 1e-17)  # zero has no logarithm


no_wall, true_zero = brackets(np.array([0.0, -1]), leads)
assert np.abs(no_wall / true_zero - 1).max() < 1e-12  # the wall is nowhere
whole_leads = np.arange(1, 61)
errors = {}
for dtype, bits in ((np.float32, 24), (np.float64, 53)):
    broken, cured = (worst(softmax, whole_leads, dtype) for softmax in (textbook_softmax, library_softmax))
    law = np.minimum(2.0**-bits * np.exp(whole_leads), 1) / 2  # the winner's entry is half of the sum
    errors[dtype.__name__] = broken, cured, law
    assert (broken <= 4 * law + 2.0 ** (2 - bits)).all()
    assert (np.abs(broken[whole_leads > bits * np.log(2) + 1] - 0.5) < 1e-6).all()
    assert cured.max() < {53: 1e-14, 24: 1e-6}[bits]

# %% jupyter={"source_hidden": true}
fig, (left, ax) = plt.subplots(1, 2, figsize=(9.2, 3.4), width_ratios=[1, 1.3])
left.plot(noise_leads[::5], computed[::5] / q, ".", color=plots.COLORS["vermillion"], label="computed")
left.plot(noise_leads, b / q, color=plots.COLORS["black"], linewidth=1.5, label="true")
left.set(
    xlabel=r"lead $\Delta$",
    ylabel="winner's bracket, in grains $q$",
    ylim=(-0.5, 10.5),
    title="values 1 and 0.999",
)
left.legend()
looks = (("orange", 4.5, 18.5), ("blue", 2, 38.5))
for (name, (broken, cured, law)), (color, width, x) in zip(errors.items(), looks, strict=True):
    ax.semilogy(whole_leads, broken, color=plots.COLORS[color], linewidth=width)
    ax.semilogy(whole_leads, cured, ":", color=plots.COLORS[color])
    ax.semilogy(whole_leads, law, "--", color=plots.COLORS["black"], linewidth=1.2)
    ax.annotate(f"textbook,\n{name}", (x, 0.0008), color=ink(color))
    ax.annotate(f"cured, {name}", (36, cured[35:].max() * 1.9), color=ink(color))
ax.set(
    xlabel=r"lead $\Delta = h_1 - h_3$",
    ylabel=r"relative error of $\nabla_h f$",
    ylim=(3e-18, 10),
    title="the toy along $k_1$",
)
show(
    fig,
    alt="Left: the winner's bracket in multiples of the spacing of floats, against the lead, for values 1 "
    "and 0.999. The true curve falls smoothly; the computed one follows it in whole steps, from lead 30 "
    "on it jumps between 0 and 1, and from lead 36.7 on it is 0. "
    "Right: relative error of the gradient against the lead, on a logarithmic axis. The textbook formula's "
    "error rises in a straight line with the lead until it stays at one half, from lead 37 in double and 17 "
    "in single precision, along the dashed predictions. The cured formula stays at rounding level.",
)

# %% [markdown]
# **Figure 5.** Left: the computed bracket $g_\alpha - f$ in units of $q = 2^{-53}$, and the true one. Right:
# relative error of $\nabla_h f$ on the toy, the sum of all entries' errors over the sum of their sizes.
# Solid: textbook, wide in single precision; from lead 37 on both stand at 1/2, as the winner's entry, half
# of the sum, is gone. Dotted: cured, errors below $10^{-17}$ drawn there. Dashed: $2^{-54} e^{\Delta}$ in
# double and $2^{-25} e^{\Delta}$ in single precision.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.7 What the error does to training
#
# Only the winner's entry is wrong (a loser's bracket $g_t - f \approx g_t - g_\alpha$ does not cancel, unless
# their values nearly agree). Let $\xi$ be its error. In $p$ the computed gradient is
#
# $$K^\top \nabla_h f + \xi\, k_\alpha :$$
#
# rounding pushes *along the winner's key*. Now add one vector $c$ to all keys. Every logit moves by $c \cdot
# p$, so neither the attention nor the output notices, and nor does the true gradient, as its entries sum to
# zero. But the push becomes $\xi\,(k_\alpha + c)$.
#
# **Predict**, before you run the next cell. The toy's textbook run by normalised descent finds the direction
# $k_1$ (lesson 06 shows that this is the limit) and then loses it. Name a $c$ for which rounding can do no
# harm.
#
# <details><summary>Answer</summary>
#
# $c = -k_1$: then the winner's key is 0, and whatever $\xi$ is, it pushes nowhere, until the losers underflow
# (section 5.9). That is a second cure in
# one line: measure the *keys* from the winner's. In $\sum_t \partial_t f\, (k_t - k_\alpha)$ the winner's
# entry is not even read. It is the identity in the proof of section 5.4.
#
# </details>


# %%
def unit(length):
    """The rule of normalised ascent: steps of this length, none where the gradient is 0."""

    def rule(G):
        largest = np.abs(G).max(-1, keepdims=True)  # divided out first: its square would underflow
        G = np.divide(G, largest, out=np.zeros_like(G), where=largest > 0)
        size = np.linalg.norm(G, axis=-1, keepdims=True)
        return length * np.divide(G, size, out=np.zeros_like(G), where=size > 0)

    return rule


def anchored(h, g):
    """The cure: values measured from the winner's."""
    return textbook(h, g - np.take_along_axis(np.broadcast_to(g, h.shape), h.argmax(-1)[..., None], -1))


def cosine(p):
    return p @ k1 / length_k1 / np.linalg.norm(p, axis=-1)


shifts = np.array([[0, 0], -k1, -K.mean(0), [-5, 5]])
runs, steps = {}, np.arange(10, 2001, 10)
zero = np.zeros((len(shifts), 2))
every = set(steps.tolist())
runs["cured"] = ascend(zero[:1], unit(0.2), every, slopes=anchored)[:, 0]
moved = ascend(zero, unit(0.2), every, keys=K + shifts[:, None])
print("keys shifted by    cosine to k_1 at step 150, 1,000, 2,000   lead at the end")
for i, c in enumerate(shifts):
    runs[tuple(c)] = moved[:, i]
    c150, c1000, c2000 = cosine(moved[[14, 99, 199], i])
    lead = (moved[-1, i] @ (K[0] - K[1:]).T).min()
    print(f"({c[0]:4.1f}, {c[1]:4.1f}) {c150:16.2f} {c1000:14.2f} {c2000:10.2f} {lead:16.0f}")
assert (cosine(moved[14]) > 0.998).all()
assert np.abs(1 - np.asarray(softmax(moved[19:] @ K.T)) @ g).max() < 1e-15  # K + c gives the same f
assert cosine(runs["cured"])[-1] > 0.9999
assert cosine(moved[-1, 1]) > 0.9999 > 0.997 > cosine(moved[-1, 2]) > 0.99
assert cosine(moved[-1, 0]) < 0.21
assert 0.97 < cosine(moved[-1, 3]) < 0.99
np.testing.assert_allclose((moved[99, 0] - moved[49, 0]) / 500, [-0.2, 0], atol=1e-9)

draw = np.random.default_rng(0)
below = np.c_[
    np.zeros(60), np.sort(10 ** draw.uniform(-4, -1, (60, 2)))
]  # how much less tokens 2, 3 are worth
winner = np.where(np.arange(60) < 30, draw.uniform(1, 2, 60), 1) * 2.0 ** draw.integers(-9, 10, 60)
values = winner[:, None] * (1 - below)
noisy = ascend(np.zeros((60, 2)), unit(0.2), {20_000}, K, values)[0] @ k1
saved = ascend(np.zeros((60, 2)), unit(0.2), {2000}, K - k1, values)[0] @ k1
before_wall = np.arange(35, 36.7, 0.01)[:, None] * (K @ k1) / length_k1**2  # logits along k_1
back = np.array([(textbook(before_wall, triple)[:, 0] < 0).any() for triple in values])
print("\nvalue of the winner    runs   ever a negative bracket   at the wall after 20,000 steps")
for name, some in (("a random number", slice(0, 30)), ("a power of two", slice(30, 60))):
    print(f"{name:22} {len(values[some]):4} {back[some].sum():25} {(noisy[some] < 37).sum():32}")
print("with c = -k_1, the least lead of the sixty:", saved.min().round())
assert (back & (noisy < 37))[:30].sum() >= 28
assert not back[30:].any()
assert (noisy[30:] < 37).sum() <= 3
assert saved.min() > 390

# %% [markdown]
# One model, four ways to write it. At step 150 all of them look finished. Then the one with $c = -k_1$ goes
# on as if nothing had happened. The others leave the answer they had found, by little or by much, each in its
# own way: past the wall the toy itself ($c = 0$) walks straight to the left, $(-0.2, 0)$ a step. From step
# 200 on $f = 1$ to fifteen digits in all four: the loss will not tell us. With nearly equal values the wall
# is nearer, and the noise before it pushes to and fro: nearly all runs with random values are still there
# after 20,000 steps. Where the winner's value is a power of two nearly all get through. Above it floats are
# twice as far apart as below, and from a lead of 35 on $f$ is never rounded up past $g_\alpha$: noise can
# push such a run on, not back. (Who is held comes to rest before. And 1 is the value that everybody tries.)
#
# > **Rule.** A gradient that will be normalised must be accurate *relative to itself*. Agreement with
# > autograd to $10^{-15}$, as in section 5.3, does not show that.
#
# Plain descent that does not overshoot never meets the wall: a lead of 37 would take about $e^{37} / \eta$
# steps. What rescales a small gradient gets there.

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7, 4.2))
across = np.array([-150, 60])
ax.plot(across, 36.7 + 0.1 * across, ":", color=plots.COLORS["black"], linewidth=1.5)
ax.annotate("wall", (-146, 25), fontsize=11)
looks = {
    "cured": ("black", "-", "cured"),
    tuple(-k1): ("sky", "--", "$c = -k_1$"),
    (0.0, 0.0): ("vermillion", "-", "$c = 0$"),
    (-5.0, 5.0): ("green", "-", "$c = (-5, 5)$"),
}
for name, (color, line, label) in looks.items():
    ax.plot(*runs[name][::5].T, line, color=plots.COLORS[color], label=label)
ax.set(xlim=(-150, 60), ylim=(0, 120), xlabel="$p_1$", ylabel="$p_2$", aspect="equal")
ax.legend(loc="upper left")
show(
    fig,
    alt="Paths of p in the plane. All rise along k_1 to a dotted line, the wall. The cured run and the "
    "one with the winner's key at the origin go straight on; with c = 0 the run turns left and walks "
    "parallel to the axis; with c = (-5, 5) it stays near the wall.",
)

# %% [markdown]
# **Figure 6.** Normalised descent on the toy, step 0.2, from $p = 0$, with the textbook gradient and the keys
# shifted by $c$, and with the cured gradient. Dotted: the lead over token 3 is 36.7.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.8 Where the broken run goes *(optional)*
#
# Where a run goes beyond the wall is no accident, and you can say it beforehand.
#
# ### Exercise 05.6: Where the broken run goes
#
# ★★★ · 20 minutes
#
# Three tokens. Token 1 (index 0) wins, far past the wall: its own entry of $\nabla_h f$ comes out as exactly
# 0, the entries of the other two are right, and its value is the largest. The run takes short steps of fixed
# length along $K^\top \nabla_h f$. Its direction settles. If the run, moving in that direction, increases
# *both* leads of token 1, return the direction, a vector of length one. If not, it is thrown back onto the
# wall: return a vector of zeros.
#
# `keys` has shape $(3, d)$. The origin is not on the segment between the two losing keys. The values are not
# given: you will not need them.
#
# <details><summary>Hint</summary>
#
# Which problem, with which key for token 1, has this broken gradient for its *true* gradient? If one loser's
# logit stays ahead of the other's, it alone steers; if not, they share, in the proportion that keeps them
# level. So the direction lowers both losing logits as fast as possible: it points away from one point of the
# segment between the losing keys. Then look at the leads, with the true key of token 1.
#
# </details>


# %%
@exercise("05.6")
def broken_direction(keys):
    """The direction in which the broken run leaves, (d,), or zeros if it is thrown back; keys (3, d)."""
    ### BEGIN SOLUTION
    along = keys[2] - keys[1]
    share = np.clip(-keys[1] @ along / (along @ along), 0, 1)
    nearest = keys[1] + share * along  # of the losers' segment to the origin, the broken run's winner
    leaves = keys[0] @ nearest < nearest @ nearest  # the true winner is on the origin's side
    return -nearest / np.linalg.norm(nearest) if leaves else np.zeros(keys.shape[1])
    ### END SOLUTION


# %%
check("05.6", broken_direction)
wrong = "exercise 05.6 is not right yet: see what its check says"


def beyond_the_wall(d):
    """Random problems from a lead of 50: p after 3,000 and 4,000 steps, the lead, what is foreseen."""
    rng = np.random.default_rng(0)
    problems = rng.normal(size=(300, 3, d))
    worth = np.concatenate([np.ones((300, 1)), rng.uniform(0, 0.9, (300, 2))], axis=1)
    toward = problems[:, 0] - problems[:, 1:].mean(1)  # a direction that lets token 1 lead
    least = np.einsum("rtd,rd->rt", problems[:, :1] - problems[:, 1:], toward).min(1)
    led = least > 0.1
    begin = 50 * toward[led] / least[led, None]
    ends = ascend(begin, unit(0.2), {3000, 4000}, problems[led], worth[led])
    lead = np.einsum("rtd,rd->rt", problems[led, :1] - problems[led, 1:], ends[-1]).min(1)
    return ends, lead, np.array([broken_direction(keys) for keys in problems[led]])


print("random problems, 4,000 steps from a lead of 50")
print("                         lead above 60   back at the wall   between")
for d in (4, 2):
    ends, lead, foreseen = beyond_the_wall(d)
    went, leaves = np.where(lead > 60, 0, np.where(lead < 40, 1, 2)), foreseen.any(1)
    for name, said in (("said to leave", leaves), ("said to come back", ~leaves)):
        print(f"d = {d}, {name:17}", "".join(f"{(went[said] == k).sum():15}" for k in range(3)))
    assert min(leaves.sum(), (~leaves).sum()) > 20, wrong
    assert (went == np.where(leaves, 0, 1)).mean() > {4: 0.99, 2: 0.95}[d], wrong
    if d == 4:
        travelled = ends[1] - ends[0]
        going = leaves & (
            np.linalg.norm(travelled, axis=1) > 1
        )  # the others' weights have underflowed by now
        aligned = (travelled * foreseen).sum(1)[going] / np.linalg.norm(travelled, axis=1)[going]
        print(
            f"  {going.sum()} runs still leaving: least cosine to the direction foreseen {aligned.min():.2f}"
        )
        assert np.quantile(aligned, 0.05) > 0.99, wrong

low = K + np.array([0, -5])  # said to leave: straight up
from_zero = ascend(np.zeros((1, 2)), unit(0.2), {2000}, keys=low)[-1, 0]
from_beyond = ascend(60 * k1[None] / length_k1**2, unit(0.2), {600}, keys=low)[-1, 0]
print(f"toy with c = (0, -5): lead {from_zero @ k1:.0f} from p = 0, {from_beyond @ k1:.0f} from a lead of 60")
np.testing.assert_allclose(broken_direction(low), [0, 1], atol=1e-12)
assert from_zero @ k1 < 37 < 175 < from_beyond @ k1

factors = np.array([0.5, 2, 5])  # c = -a k_1
shifted = K - factors[:, None, None] * k1
near = ascend(np.zeros((3, 2)), unit(0.2), {2000}, keys=shifted)[-1]
beyond = ascend(np.tile(60 * k1 / length_k1**2, (3, 1)), unit(0.2), {600}, keys=shifted)[-1]
print(
    "c = -a k_1 with a =",
    factors,
    "lead from p = 0:",
    (near @ k1).round(),
    " from a lead of 60:",
    (beyond @ k1).round(),
)
np.testing.assert_allclose([broken_direction(keys) for keys in shifted], [k1 / length_k1] * 3)
assert (near[:2] @ k1 > 390).all()
assert near[2] @ k1 < 37
assert (beyond @ k1 > 175).all()
assert (cosine(beyond) > 0.9999).all()

# %% [markdown]
# The broken gradient is the true gradient of a problem in which the winner's key is the *origin*. That is
# why $c = -k_1$ was harmless. It is not the only one: see question 7. The run leaves along the direction in
# which the origin's lead over the losers' keys grows fastest, and what becomes of the true winner's lead is
# left to chance. (The exceptions: a run whose lead changes so slowly that it is still on its way, and in the
# plane a few in a hundred that were thrown back.)
#
# All these runs start beyond the noise. From $p = 0$ they must cross it first, where $\xi$ has either sign,
# and a large $k_\alpha + c$ amplifies it: with $c = (0, -5)$ the toy's run is said to leave upwards, and
# does so from a lead of 60, but from $p = 0$ it never gets past the wall.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.9 Three more walls *(optional)*
#
# ### An innocent $+\varepsilon$
#
# Division by a norm near zero looks dangerous, so it is customary to write
# $\nabla L / (\|\nabla L\| + \varepsilon)$. Once
# $\|\nabla L\| \ll \varepsilon$ the step is $(\eta/\varepsilon) \nabla L$. That is *plain* gradient descent
# with step $\eta/\varepsilon$, and by section 5.4 the lead on token 3 is then $\log(\|k_1\|^2 j\,
# \eta/\varepsilon)$ after $j$ steps. Started at $(-20, 0)$, a run must turn by 84 degrees to reach $k_1$:

# %%
eta, epsilon = 0.2, 1e-8


def damped(G):
    return eta * G / (np.linalg.norm(G, axis=-1, keepdims=True) + epsilon)


checkpoints = [100, 200, 500, 1000, 2000, 5000]
begin = np.array([[-20.0, 0], [0, 0]])
slow = ascend(begin, damped, set(checkpoints), slopes=anchored)
free = ascend(begin, unit(eta), set(checkpoints[:4]), slopes=anchored)
stalled = np.log(length_k1**2 * np.array(checkpoints) * eta / epsilon)
print("                 from 0         from (-20, 0)     the same without eps")
print("     j    lead   predicted      cosine   ||p||       cosine   ||p||")
for i, j in enumerate(checkpoints):
    print(f"{j:6} {slow[i, 1] @ k1:7.2f} {stalled[i]:11.2f}", end="")
    for run in (slow[i, 0], free[i, 0]) if j <= 1000 else (slow[i, 0],):
        print(f"{cosine(run):12.3f} {np.linalg.norm(run):7.1f}", end="")
    print()
assert np.abs(slow[:, 1] @ k1 - stalled)[-2:].max() < 0.06 < 2 < np.abs(slow[:, 1] @ k1 - stalled)[0]
np.testing.assert_allclose([cosine(slow[3, 0]), cosine(free[3, 0])], [0.763, 0.995], atol=0.002)
np.testing.assert_allclose(cosine(slow[-1, 0]), 0.785, atol=0.002)

# %% [markdown]
# With $\varepsilon = 10^{-8}$ the norm grows by the logarithm once more, and the turn with it: after 1,000
# steps the cosine is 0.76 in place of 0.995, and 4,000 more add 0.02. The loss looks converged, nothing
# warns. No $\varepsilon$, then: divide without it, and leave $p$ alone when the gradient is exactly zero.
#
# ### Underflow, and a gradient in logarithms
#
# The cured gradient is accurate while $e^{-\Delta}$ is an ordinary number. From $e^{-104}$ on in single and
# $e^{-746}$ in double precision there is only 0: every rival has attention 0, and $\nabla_h f = 0$.
# Normalised descent does not care about the length of the gradient. So take out a common factor *before* it
# can underflow. Away from the winner,
#
# $$\log |\partial_t f| = \log s_t + \log |g_t - f|, \qquad \log s_t = h_t - h_\alpha - \log \sum_\tau
#   e^{h_\tau - h_\alpha},$$
#
# and $\log s_t$ is an ordinary number like $-2000$. Divide all losers' entries by the largest one of the
# *losers*, by subtracting its logarithm; the winner's entry is minus their sum, as ever. The gradient in $p$
# is a sum over sequences, so all sequences of a run share one factor: each for itself, they would lose their
# proportions. The library's softmax does so when it is told by `batch_dims` which leading dimensions are
# independent runs, and `train.fit` tells it whenever the optimiser normalises.
#
# ### The last wall: $p$ itself
#
# So a run in single precision has no end? A float near $\|p\|$ has a spacing of its own, $2^{-23}$ of the
# power of two below it. A step whose coordinate is less than half of that is rounded away; a longer one is
# rounded to whole spacings. **Predict:** how much do $p_1$ and $p_2$ change in 200 steps of 0.2 along $k_1$,
# from $\|p\| = 10^5$, $3 \cdot 10^6$, $4.25 \cdot 10^6$, and $10^7$?


# %%
def unscaled_softmax(logits, batch_dims=None):
    """The cured softmax without the common factor taken out."""
    return library_softmax(logits)


def far(softmax, radii, steps, every):
    """Normalised descent in float32, step 0.2, from radius times k_1's direction: p, (records, runs, 2)."""
    begin = torch.tensor(np.outer(radii, k1 / length_k1), dtype=torch.float32)
    model = PromptAttention(d=2, trials=(len(radii),), dtype=torch.float32, init=begin)
    descent = optim.NormalizedGD(model.parameters(), lr=0.2, batch_dims=1)
    record, toy = {"p": lambda m: m.p}, tokens.to(dtype=torch.float32)
    history = train.fit(
        model, toy, descent, steps, "linear", record=record, every=every, progress=False, softmax=softmax
    )
    return history["p"].double().numpy()


in_logs, cured = (far(softmax, [0], 1000, 1000)[:, 0] for softmax in (library_softmax, unscaled_softmax))
print(f"float32: ||p|| after 1,000 steps, cured: {np.linalg.norm(cured[-1]):.0f}", end="")
print(f", cured and in logs: {np.linalg.norm(in_logs[-1]):.0f}, cosine to k_1 {cosine(in_logs[-1]):.4f}\n")
radii = np.array([1e5, 3e6, 4.25e6, 1e7])
grown = np.diff(far(library_softmax, radii, 200, 200)[[0, -1]], axis=0)[0]  # (radii, 2)
spacing = np.spacing(np.abs(np.outer(radii, k1 / length_k1)).astype(np.float32)).astype(float)
step = 0.2 * k1 / length_k1
foreseen = 200 * spacing * np.round(step / spacing) + 0.0  # no -0
print("    ||p||   p_1 changes by   foreseen   p_2 grows by   foreseen   (without rounding -3.98, 39.80)")
for R, (x, y), (said_x, said_y) in zip(radii, grown, foreseen, strict=True):
    print(f"{R:9.2e} {x:16.2f} {said_x:10.2f} {y:14.2f} {said_y:10.2f}")
assert abs(np.linalg.norm(cured[-1]) - 103.5) < 0.5
assert np.linalg.norm(in_logs[-1]) > 199.5
assert cosine(in_logs[-1]) > 0.9999
np.testing.assert_allclose(grown, foreseen, rtol=0.01, atol=0.01)
assert foreseen[2, 1] == 0 > -6 > foreseen[2, 0]
assert not foreseen[3].any()
assert abs(foreseen[0, 1] / 39.8 - 1) < 0.02 < abs(foreseen[1, 1] / 39.8 - 1)

# %% [markdown]
# In single precision the cured run stops dead where the lead is 104 and $e^{-104}$ underflows. In logarithms
# it goes on, until $p$ is so long that a step is rounded: at $3 \cdot 10^6$ the step $(-0.020, 0.199)$
# becomes $(-0.031, 0.25)$. Once $p_2$ has passed $2^{22} \approx 4 \cdot 10^6$ it stands still, but $p_1$, a
# tenth as large, goes on in steps of $-0.031$: the *direction* turns away, until $|p_1|$ has passed its own
# wall at $2^{19}$. At $10^7$ both stand. Each coordinate ends at the first power of two that is $2^{24}$
# times its step, or more. Arithmetic always has a last wall; the point is to know which one you are standing
# at.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Questions
#
# Answer before you unfold.
#
# **1.** All logits grow by 100. What happens to the attention, and to $\nabla_h f$?
#
# <details><summary>Answer</summary>
#
# Nothing: only differences count. That is also why the entries of $\nabla_h f$ sum to zero.
#
# </details>
#
# **2.** A token has the best value of all, and its logit is 30 below the winner's. How much does the
# gradient push it?
#
# <details><summary>Answer</summary>
#
# By $s_t (g_t - f)$ with $s_t \approx e^{-30} \approx 10^{-13}$. Whether that is little depends on the
# *other* losers: beside one of lower value that is only 10 behind it is next to nothing, and descent can stay
# with the second-best token. If it is the nearest rival itself, the others push more weakly still, and
# normalised descent will follow it.
#
# </details>
#
# **3.** Two keys are equal, $k_1 = k_2$. Does the softmax saturate as $\|p\| \to \infty$?
#
# <details><summary>Answer</summary>
#
# Not between those two: they always have the same attention, whatever $p$ is. The margin is 0 if they lead,
# and the proposition says nothing. A softmax cannot select what its keys do not separate.
#
# </details>
#
# **4.** Your attention gradient agrees with autograd to $10^{-16}$ in every entry. Is it safe to normalise?
#
# <details><summary>Answer</summary>
#
# Not if the gradient itself has size $10^{-16}$. You need a *relative* error, and a reference that does not
# share the flaw.
#
# </details>
#
# **5.** Why does the textbook run on the toy keep $f = 1$ while its direction goes wrong?
#
# <details><summary>Answer</summary>
#
# Walking to the left still increases the lead of token 1 over both rivals ($k_1$ has a negative first
# coordinate). The loss sees only who wins. The direction carries information that the loss has long stopped
# showing.
#
# </details>
#
# **6.** Somebody measures all keys from their mean, which "changes nothing". In exact arithmetic? In the
# textbook run?
#
# <details><summary>Answer</summary>
#
# Nothing in exact arithmetic. The broken run changes altogether: rounding pushes along the winner's key,
# wherever that now lies. On the toy the mean happens to do little harm (cosine 0.99), $c = 0$ much.
#
# </details>
#
# **7.** *(After section 5.8.)* $c = -k_1$ is not the only shift that keeps the toy's direction. Which others
# do, and why does $c = -5 k_1$ fail when the run starts at $p = 0$?
#
# <details><summary>Answer</summary>
#
# Every $c = -a k_1$ with $a > 0$: the losers' segment then has $-a k_1$ for its nearest point, so a broken
# run leaves along $k_1$. But from $p = 0$ the run has to cross the noise before the wall, where $\xi$ has
# either sign and $k_1 + c = -4 k_1$ amplifies it: it is held at a lead of 36. From a lead of 60 it does
# leave along $k_1$.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention is a soft selection: $f = \sum_t s_t g_t$, $s = \mathrm{softmax}(Kp)$. The direction of $p$
#   says which token, its length, an inverse temperature, how firmly.
# - The gradient in the logits is $\partial_t f = s_t (g_t - f)$; in $p$ it is $K^\top \nabla_h f$.
# - At margin $\mu(p)$ and norm $R$, what the rivals keep, and the gradient, are at most of order $e^{-\mu(p)
#   R}$: the larger the margin, the cheaper the choice. Under plain descent $e^{\text{lead}}$ grows linearly
#   in the number of steps, where the lead is that on the nearest rival *of lower value*, if none is better.
# - The landscape is bounded and hence not convex; more than one token can attract, and the sector of the
#   start does not decide.
# - The winner's entry of the textbook gradient comes in whole grains of $2^{-53} |g_\alpha|$ or twice that:
#   first noise, then zero. The wall is at $53 \log 2 + \log(|\sum_t (g_\alpha - g_t)| / |g_\alpha|)$, up to
#   $\log 4T$ earlier and $\log \frac32$ later.
# - The error pushes along the winner's key; where that leads depends on the origin of the keys. Measure the
#   values, or the keys, from the winner's.

# %%
progress("05")

# %% [markdown]
# ## Further reading
#
# - Vaswani et al. (2017), *Attention is all you need*, arXiv 1706.03762: softmax attention with keys, queries
#   and values, and the $1/\sqrt{d}$ in the logits, which is a temperature.
# - Tarzanagh, Li, Zhang, Oymak (2023), *Max-margin token selection in attention mechanism*, arXiv 2306.13596:
#   the model of this lesson, and our toy.
# - Blanchard, Higham, Higham (2021), *Accurately computing the log-sum-exp and softmax functions*, IMA
#   Journal of Numerical Analysis, arXiv 1909.03469: rounding errors of the forward pass.
# - Dao (2023), *FlashAttention-2*, arXiv 2307.08691: the backward pass of practice, with $f$ of section 5.3
#   as `rowsum(dO * O)` computed from the rounded output.
# - Qiu, Yao (2025), *Why low-precision transformer training fails: an analysis on flash attention*, arXiv
#   2510.04212: runs in `bfloat16` whose loss explodes, traced to biased rounding of the attention's output.
# - Higham (2002), *Accuracy and stability of numerical algorithms*, chapter 1: cancellation, with examples
#   one does not forget.
#
# **New in the library:** [`containers.TokenData`](../mini_attn/containers.py),
# [`data.random_tokens`](../mini_attn/data.py), [`data.toy_one_sequence`](../mini_attn/data.py),
# [`models.PromptAttention`](../mini_attn/models.py), [`softmax.softmax`](../mini_attn/softmax.py),
# [`softmax.textbook_softmax`](../mini_attn/softmax.py).
#
# **Next:** [lesson 06](06_attention_as_svm.ipynb). You can now follow $p$ as far out as you like. Its
# direction settles, and a support vector machine knows where.
