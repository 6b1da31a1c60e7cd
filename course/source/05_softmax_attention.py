# %% [markdown] slideshow={"slide_type": "slide"}
# # 05 · Softmax attention from scratch
#
# An attention layer looks at a few tokens and returns a weighted average of what they hold. The weights
# come from a softmax, and training can push that softmax as far as it likes towards choosing a single
# token.
#
# **The question: what does a softmax choose, and can you still trust its gradient once it has chosen?**
#
# The answer to the second half, for the formula in every textbook, is no. It fails once the winner leads by
# about 37 in the exponent, sooner or later for some values. You will predict where, and repair it in one
# line.

# %% [markdown]
# **After this lesson you can**
#
# - compute the output of an attention layer, and say which token it selects and how firmly;
# - derive its gradient in the logits and in the weights $p$, and check both against autograd;
# - predict how fast a softmax saturates, and how plain gradient descent then slows down to a logarithm;
# - read the landscape of the loss over a two-dimensional $p$, and say why it is not convex;
# - recognise catastrophic cancellation and underflow in a gradient, and cure both.
#
# **You need** lesson 01 (gradient descent, normalised descent, the logistic loss), the chain rule, and
# numpy. Reckon with 85 minutes; six exercises are in the text.

# %%
from decimal import Decimal, localcontext

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, optim, plots, train, widgets
from mini_attn.models import PromptAttention
from mini_attn.plots import ink
from mini_attn.softmax import softmax as library_softmax
from mini_attn.softmax import textbook_softmax

plots.style()
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
fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.8), width_ratios=[1, 1.6])
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
# **Only differences count.** Add a constant $c$ to every logit, and $e^{c}$ cancels between numerator and
# denominator. In particular you may subtract the largest logit first. Then every exponent is at most 0 and
# nothing overflows.
#
# **A temperature sets the firmness.** $\mathrm{softmax}(h / \chi)$ with temperature $\chi > 0$ tends to
# the uniform average as $\chi \to \infty$, and puts everything on the largest logit as $\chi \to 0$.
# Since $h = K p$ is linear in $p$, *the length of $p$ is an inverse temperature*: doubling $\|p\|$ halves
# $\chi$. Figure 1 cooled one direction from $\chi = \infty$ to $1/16$.

# %% [markdown]
# ### Exercise 05.1: Softmax with a temperature
#
# ★☆☆ · 6 minutes
#
# Write the softmax of $h/\chi$ over the last axis. It must also be right for logits near $\pm 1000$. Use
# numpy throughout this lesson's exercises.
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
# ★★☆ · 10 minutes
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
# A derivation deserves a second opinion. Central differences give one, autograd another.

# %%
h = K @ (2 * direction)
step = 1e-6
forward, back = np.asarray(softmax(h + step * np.eye(3))), np.asarray(softmax(h - step * np.eye(3)))
differences = (forward - back) @ g / (2 * step)  # row t has logit t moved
h_torch = torch.tensor(h, requires_grad=True)
(torch.softmax(h_torch, -1) @ torch.as_tensor(g)).backward()

print("output_gradient     ", np.asarray(output_gradient(h, g)).round(6))
print("central differences ", differences.round(6))
print("torch autograd      ", h_torch.grad.numpy().round(6))
again = "exercise 05.1 or 05.2 is not right yet: see what its check says"
assert np.allclose(softmax(h), library_softmax(torch.as_tensor(h)), rtol=1e-14), again
assert np.allclose(output_gradient(h, g), differences, atol=1e-8), again
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
# ★★☆ · 12 minutes
#
# Return $\nabla L(p)$ for the logistic loss. All sequences have the same length $T$, so the inputs are
# arrays: `X` and `keys` of shape $(n, T, d)$, `y` of shape $(n,)$, `v` of shape $(d,)$. Values are
# $g_{it} = v \cdot x_{it}$. Go backwards, from the loss to the output, to the logits, to $p$.
#
# <details><summary>Hint</summary>
#
# Per sequence, $\ell'(y_i f_i)\, y_i\, K_i^\top \nabla_h f_i$. Logits are `keys @ p` and values `X @ v`, both
# $(n, T)$. A loop over sequences is fine. For the sum over sequences and tokens at once there is
# `np.einsum("nt,ntd->d", weights, keys)`. And $\ell'(u) = -1/(1 + e^{u})$.
#
# </details>


# %%
@exercise("05.3")
def loss_gradient(p, X, keys, y, v):
    """The gradient of the mean logistic loss in p, (d,)."""
    ### BEGIN SOLUTION
    s, values = softmax(keys @ p), X @ v  # (n, T)
    f = (s * values).sum(axis=-1)  # (n,)
    u = s * (values - f[:, None])  # (n, T)
    slope = -y / (1 + np.exp(y * f))  # (n,)
    return np.einsum("nt,ntd->d", slope[:, None] * u, keys) / len(y)
    ### END SOLUTION


# %%
check("05.3", loss_gradient)

# %% [markdown]
# Now the same through autograd, on eight random sequences of six tokens in five dimensions. The logistic loss
# is `softplus(-u)`, as $\mathrm{softplus}(x) = \log(1 + e^x)$. From here on we let the library's
# `PromptAttention` do this work; it is the model you just differentiated.

# %%
random = data.random_tokens(n=8, T=6, d=5, seed=1)
layer = PromptAttention(d=5, init=torch.linspace(-2, 2, 5, dtype=torch.float64))
torch.nn.functional.softplus(-random.y * layer(random)).mean().backward()
by_hand = loss_gradient(
    layer.p.detach().numpy(), *(a.numpy() for a in (random.X, random.keys, random.y, random.v))
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
    s, u = attention_and_gradient(K @ (norm * unit))
    size = np.abs(u).max()
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
    pull.bar([1, 2, 3], u / size, color=TOKEN_COLORS)
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
# 1, and the largest entry of its gradient is 0.002.

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
# > **Proposition (a softmax saturates exponentially).** Let $p$ have norm $R$ and margin $\mu(p) > 0$. Then
# >
# > $$1 - s_\alpha \;\le\; (T-1)\, e^{-\mu(p) R}, \qquad \|\nabla_p f\| \;\le\; C\, (T-1)\, e^{-\mu(p) R},$$
# >
# > with $C = \max_t \|k_\alpha - k_t\|\, (\max_t g_t - \min_t g_t)$.
# >
# > *Proof.* Each rival has $s_t \le e^{h_t - h_\alpha} \le e^{-\mu(p) R}$; add the $T-1$ of them. As the
# > entries of $\nabla_h f$ sum to zero, $\nabla_p f = \sum_{t \neq \alpha} \partial_t f (k_t - k_\alpha)$.
# > Here $|\partial_t f| = s_t |g_t - f| \le s_t (\max g - \min g)$; add again. ∎

# %% [markdown]
# ### Exercise 05.4: How long must p be?
#
# ★★☆ · 8 minutes
#
# Given keys, a vector $p$ of any length, and a tolerance, return the norm $R$ at which the proposition
# first guarantees $1 - s_\alpha \le$ tolerance *in the direction of* $p$. (You may assume a single winner.)
#
# <details><summary>Hint</summary>
#
# Set the bound equal to the tolerance and solve for $R$. For $\mu(p)$ you need the two largest entries of
# `keys @ p` (the winner itself is not among its rivals), and the length of $p$.
#
# </details>


# %%
@exercise("05.4")
def norm_needed(keys, p, tolerance):
    """The norm R with (T - 1) exp(-m R) = tolerance, a number; keys (T, d), p (d,)."""
    ### BEGIN SOLUTION
    h = np.sort(keys @ p) / np.linalg.norm(p)
    margin = h[-1] - h[-2]
    return np.log((len(keys) - 1) / tolerance) / margin
    ### END SOLUTION


# %%
check("05.4", norm_needed)
print("norm needed for 1 - s_a <= 1e-6:")
for degrees in (90, 60, 50):
    p = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    print(f"  p at {degrees}°: {norm_needed(K, p, 1e-6):6.1f}")

# %% [markdown]
# All three directions select token 1, at very different prices. For the guarantee *the cheapest direction is
# the one with the largest margin*, and finding it is a support vector machine. (For $1 - s_\alpha$ itself
# that is so in the limit of small tolerances.) Keep this thought for lesson 06: it is its whole subject.
#
# In our toy the cheapest direction for token 1 is $k_1$ itself, with margin $\|k_1\| = 1.005$ (token 3, at
# the origin, is the nearest rival). Any other direction is less ahead of token 3. The left of Figure 3
# follows it outwards.
#
# ### What plain gradient descent makes of it
#
# Take the linear loss $\ell(u) = -u$, so that descent on $L = -f$ is ascent on $f$, and start at $p = 0$.
# Late in the run mostly one rival matters, token 3: along $k_1$ token 2 trails by $1.10\,R$ and token 3 by
# only $1.005\,R$, and token 2 costs only 0.1 in value. (It dies out slowly, like $j^{-0.1}$: expect a percent
# or two from it for a long time.) Leave it out, and the dynamics fit on two lines. The gradient is
# $\partial_1 f k_1 + \partial_3 f k_3 \approx s_3\, k_1$, since $k_3 = 0$ and $\partial_1 f = s_1 (1 - f)
# \approx s_3$. With step $\eta$, the lead $h_1 - h_3 = k_1 \cdot p$ grows by $\eta \|k_1\|^2 s_3 \approx \eta
# \|k_1\|^2 e^{-(h_1 - h_3)}$ a step. So $e^{h_1 - h_3}$ grows linearly, and after $j$ steps (lesson 01 wrote
# $t$; here that is a token)
#
# $$\|p\| \approx \frac{\log\left(\eta \|k_1\|^2\, j\right)}{\|k_1\|}, \qquad
#   1 - f \approx \frac{1}{\eta \|k_1\|^2\, j}.$$
#
# No constant is fitted in this prediction. Here is the measurement.

# %%
k1 = K[0]
margin = np.linalg.norm(k1)


def ascend(steps, at_steps, step_rule):
    """Gradient ascent on f from p = 0; p at the steps asked for. step_rule: gradient -> step."""
    p, kept = np.zeros(2), []
    for j in range(1, steps + 1):
        e = np.exp(K @ p)
        s = e / e.sum()
        p = p + step_rule(K.T @ (s * (g - s @ g)))
        if j in at_steps:
            kept.append(p)
    return np.array(kept)


times = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000]
plain = ascend(30_000, set(times), lambda gradient: gradient)  # step eta = 1
lengths = np.linalg.norm(plain, axis=1)
misses = 1 - at(plain)(tokens)[:, 0].detach().numpy()
predicted = np.log(margin**2 * np.array(times)) / margin

print("     j    ||p||  predicted   j (1 - f)")
for j, length, guess, miss in zip(times, lengths, predicted, misses, strict=True):
    print(f"{j:6} {length:8.2f} {guess:10.2f} {j * miss:11.2f}")
slope = (lengths[-1] - lengths[-3]) / np.log(times[-1] / times[-3])
print(f"slope of ||p|| in log j, steps 3,000 to 30,000: {slope:.3f}   predicted 1/||k_1|| = {1 / margin:.3f}")
assert (round(margin, 3), round(1 / margin, 3), round(1 / margin**2, 3)) == (1.005, 0.995, 0.990)
assert round((k1 - K[1]) @ k1 / margin, 2) == 1.10
assert abs(lengths[-1] - predicted[-1]) < 0.1
assert abs(slope - 1 / margin) < 0.01
assert abs(times[-1] * misses[-1] - 1 / margin**2) < 0.02

# %% slideshow={"slide_type": "subslide"}
radii = np.linspace(0.5, 30, 60)
model = at(np.outer(radii, k1 / margin))
model(tokens).sum().backward()
sizes = model.p.grad.norm(dim=-1).numpy()
bound = max(np.linalg.norm(k1 - k) for k in K) * (g.max() - g.min()) * 2 * np.exp(-margin * radii)
assert (sizes <= bound).all()
assert round(np.log10(sizes[-1])) == -13

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6))
left.semilogy(radii, sizes, label="measured")
left.semilogy(radii, bound, "--", color=plots.COLORS["black"], label="bound of the proposition")
left.set(
    xlabel=r"norm $R = \|p\|$ along $k_1$",
    ylabel=r"gradient norm $\|\nabla_p f\|$",
    title="the gradient dies",
)
left.legend()
plots.convergence(times, lengths, predicted, ax=right)
right.set(xlabel="steps $j$", ylabel=r"$\|p\|$", title="plain gradient descent crawls")
show(
    fig,
    alt="Left: the gradient norm falls along a straight line on a logarithmic axis, from 0.1 to 1e-13 "
    "as the norm of p grows to 30, just below the bound. Right: the norm of p under plain "
    "gradient descent grows as a straight line in log j and lies on the predicted line.",
)

# %% [markdown]
# **Figure 3.** Left: the norm of $\nabla_p f$ along the direction $k_1$, and the bound. Right: $\|p\|$ after
# $j$ steps of gradient descent with $\eta = 1$ (dots), and $\log(\|k_1\|^2 j)/\|k_1\|$ (dashed).

# %% [markdown]
# After 30,000 steps $\|p\|$ is within 0.1 of the prediction, its slope in $\log j$ is within 0.01 of
# $1/\|k_1\| = 0.995$, and $j\,(1 - f)$ is within 0.02 of $1/\|k_1\|^2 = 0.990$. This is lesson 01 again: a
# loss that falls as one over the number of steps, a norm that grows as its logarithm. There the tail of the
# *loss* was exponential; here it is the tail of the *softmax*, and even the linear loss crawls.
#
# The cure is that of lesson 01 too: divide the gradient by its norm, and take steps of fixed length. That
# sends us down the left panel of Figure 3, to gradients of $10^{-13}$ and far below. Remember that when we
# get to section 5.6.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.5 The landscape
#
# With $d = 2$ we can look at all of $L(p) = -f$ at once. The layer takes leading dimensions, so one call
# evaluates a whole grid of $p$, and one `backward` gives the gradient at each of them.

# %%
side = np.linspace(-10, 10, 121)
model = at(np.stack(np.meshgrid(side, side), axis=-1))  # (121, 121, 2): a layer for each p of the grid
L = -model(tokens)[..., 0]
L.sum().backward()
size = model.p.grad.norm(dim=-1).numpy()

pair = at([[2.0, -5.0], [-5.0, -5.0]])  # two starts, trained side by side
descent = optim.NormalizedGD(pair.parameters(), lr=0.1, batch_dims=1)
history = train.fit(
    pair, tokens, descent, 200, "linear", record={"p": lambda m: m.p}, every=4, progress=False
)
ends = pair(tokens)[:, 0].detach().numpy()
print("from (2, -5): f =", ends[0].round(3), "  from (-5, -5): f =", ends[1].round(3))
np.testing.assert_allclose(ends, [0.9, 1.0], atol=1e-4)

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.7))
levels = np.linspace(-1.05, 0.05, 12)  # each plateau in the middle of a colour
filled = left.contourf(side, side, L.detach().numpy(), levels=levels, cmap="viridis")
fig.colorbar(filled, ax=left, label="loss $L(p) = -f$", shrink=0.85, ticks=[-1, -0.8, -0.6, -0.4, -0.2, 0])
for run, marker in zip((0, 1), "os", strict=True):
    path = history["p"][:, run].T.numpy()  # (2, records)
    left.plot(*path, color=plots.COLORS["vermillion"], linewidth=3)
    left.plot(*path[:, 0], marker, color=plots.COLORS["vermillion"], markersize=9, markeredgecolor="white")
left.set_title("three plateaus")
filled = right.contourf(side, side, np.log10(size), levels=np.arange(-5, 0.1), cmap="cividis", extend="min")
fig.colorbar(filled, ax=right, label=r"$\log_{10} \|\nabla L(p)\|$", shrink=0.85)
right.set_title("steep only along the borders")
for ax in (left, right):
    for x, y in (([0, 10], [0, 11]), ([0, -10], [0, -1]), ([0, 0], [0, -10])):  # where two logits tie
        ax.plot(x, y, "--", color=plots.COLORS["black"], linewidth=1.2)
    for spot, token in zip(((-3, 6.2), (4.5, -7.5), (-8.8, -8.4)), (1, 2, 3), strict=True):
        ax.annotate(f"token {token}", spot, fontsize=14, bbox={"facecolor": "white", "edgecolor": "none"})
    ax.set(xlim=(-10, 10), ylim=(-10, 10), xlabel="$p_1$", ylabel="$p_2$", aspect="equal")
show(
    fig,
    alt="Left: the loss over the plane of p. Three flat sectors meet near the origin: the upper one, of "
    "token 1, at minus 1; the right one, of token 2, at minus 0.9; the lower left one, of token 3, "
    "at 0. Of two training paths, one goes right and stays at minus 0.9, the other goes up to minus 1. "
    "Right: the gradient norm is above 0.01 along the borders between the sectors and falls to 0.00001 "
    "inside them.",
)

# %% [markdown]
# **Figure 4.** Left: the loss over $p$, and two runs of normalised descent, from $(2, -5)$ (disc) and from
# $(-5, -5)$ (square). Right: the size of the gradient on a logarithmic scale. Dashed: two logits tie; each
# sector is named after the token that wins in it.

# %% [markdown]
# Each sector of the plane is where one token wins, and far out the loss is minus that token's value: $-1$,
# $-0.9$ and $0$. The gradient lives along the borders between sectors.
#
# **The landscape is not convex.** $L$ stays between $-1$ and $0$ everywhere. A convex function on the whole
# plane that is bounded above must be constant: if it rose anywhere along a line, it would go on rising at
# least as fast, past every bound. The same holds for any data and any continuous loss, unless $L$ is
# constant, because $f$ never leaves the range of the values.
#
# **And it matters.** The run from $(-5, -5)$ ends at $f = 1$; the one from $(2, -5)$ ends at $f = 0.9$,
# with token 2, and stays there. No local minimum is in sight: $f$ keeps rising along the second run, for
# ever, towards 0.9. There are two ways to infinity, and both attract. Which tokens can attract like this is
# the question of lessons 06 and 07.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.6 The formula that fails
#
# Normalised descent divides the gradient by its norm. It will amplify whatever is there, so $\nabla_h f$ must
# be right *relative to its own size*, however small. Is it?
#
# Call $h_\alpha$ minus the largest other logit the **lead**; in the notation of section 5.4 it is $\mu(p) R$.
#
# We need a judge who does not round at $10^{-16}$. Python's `decimal` computes with as many digits as we
# ask for.


# %%
def textbook(h, g):
    """s_t (g_t - f), as printed everywhere."""
    e = np.exp(h - h.max())
    s = e / e.sum()
    return s * (g - s @ g)


def exact(h, g):
    """The same, with 80 decimal digits; the floats h and g are taken as exact."""
    with localcontext() as context:
        context.prec = 80
        e = [Decimal(float(x)).exp() for x in h]
        values = [Decimal(float(x)) for x in g]
        f = sum(a * b for a, b in zip(e, values, strict=True)) / sum(e)
        return np.array([float(a / sum(e) * (b - f)) for a, b in zip(e, values, strict=True)])


for lead in (10, 40):
    h = lead * K @ k1 / margin**2  # along k_1, with h_1 - h_3 = lead
    print(f"lead {lead}")
    print("   textbook", np.array2string(textbook(h, g), precision=3))
    print("   exact   ", np.array2string(exact(h, g), precision=3))
assert textbook(h, g)[0] == 0 < exact(h, g)[0]
assert np.abs(textbook(h, g)[1:] / exact(h, g)[1:] - 1).max() < 1e-12
assert (np.spacing(1.0), 1 - np.nextafter(1, 0)) == (2.0**-52, 2.0**-53)
assert (round(53 * np.log(2), 1), round(24 * np.log(2), 1)) == (36.7, 16.6)

# %% [markdown]
# At a lead of 10 the two agree. At a lead of 40 the textbook gradient of the *losers* is right to twelve
# digits, and that of the *winner* is exactly zero. It should be minus the sum of the others.
#
# The culprit is the bracket $g_\alpha - f$. At saturation $f \approx g_\alpha$, and the two agree to all the
# digits a float has. Double precision numbers lie $2^{-52}$ apart above 1, and $2^{-53}$ below; sums and
# products round, so $f$ is off by about $2^{-53} |g_\alpha| \approx 1.1 \times 10^{-16}\, |g_\alpha|$. The
# true difference is $g_\alpha - f \approx \sum_t e^{-\Delta_t} (g_\alpha - g_t)$, where $\Delta_t = h_\alpha
# - h_t$. Their ratio is the relative error of $\partial_\alpha f$:
#
# $$\text{relative error} \;\approx\; \frac{2^{-53}\, |g_\alpha|}{\big|\sum_{t \neq \alpha} e^{-\Delta_t}\,
#   (g_\alpha - g_t)\big|} .$$
#
# For one rival that matters, of value 0, this is $2^{-53}\, e^{\Delta}$, and reaches one at the lead $\Delta
# = 53 \log 2 = 36.7$: the **wall**. Rivals of nearly the winner's value, or a constant added to all values,
# bring it nearer; many rivals move it out; a winner of value 0 has none.
#
# This is **catastrophic cancellation**. No step of the calculation is wrong. The subtraction merely lays
# bare what the rounding of $f$ had already lost. In single precision (24 bits) the wall stands at
# $24 \log 2 = 16.6$. Predicted and measured, all rivals with the same lead:

# %%
print("values                  predicted wall   measured")
leads = np.arange(20, 50, 0.25)
for values in ([1, 0], [1, 0.9], [1, 0.999], [1001, 1000], [1] + [0] * 300, [0, 1]):
    values = np.array(values, dtype=float)
    differences = np.abs(values[0] - values[1:]).sum()
    wall = 53 * np.log(2) + np.log(differences / values[0]) if values[0] else np.inf
    h = np.where(np.arange(len(values)) == 0, leads[:, None], 0.0)
    true = [exact(row, values)[0] for row in h]
    off = np.array([abs(textbook(row, values)[0] / t - 1) > 0.5 for row, t in zip(h, true, strict=True)])
    measured = leads[off.argmax()] if off.any() else np.inf
    name = f"{values[0]:g}, {values[1]:g}" + (" (300 rivals)" if len(values) > 2 else "")
    print(f"{name:22s} {wall:14.1f} {measured:12.1f}")
    assert wall == measured or abs(wall - measured) < 1

# %% [markdown]
# ### Exercise 05.5: Cure the cancellation
#
# ★★☆ · 10 minutes
#
# Return $\nabla_h f$ with every entry right to six digits *relative to the largest*, at any lead up to 60.
# The mathematics may not change; only the order of the arithmetic. The winner is the token of largest logit,
# which need not be the one of largest value.
#
# <details><summary>Hint</summary>
#
# $\nabla_h f$ does not change when a constant is added to every value. Which constant makes $g_\alpha - f$
# harmless? Or: since the weights sum to one, $g_t - f = \sum_\tau s_\tau (g_t - g_\tau)$, and differences of
# values are exact enough.
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
# There are two good ways. *Pairwise*: $\partial_t f = \sum_\tau s_t s_\tau (g_t - g_\tau)$, which subtracts
# values before it averages. It costs $T^2$. *Anchored at the winner*: subtract $g_\alpha$ from every value
# first, then use the old formula. It costs one subtraction, and $\partial_\alpha f = -s_\alpha \sum_{t \neq
# \alpha} s_t (g_t - g_\alpha)$ is now a sum of small numbers, not a difference of large ones. The library's
# softmax does the second in its `backward`, so autograd gets it right wherever it is used.


# %%
def worst(gradient, leads, dtype):
    """Relative error of a gradient along k_1, sum |u - exact| / sum |exact|, one number a lead."""
    errors = []
    for lead in leads:
        h, values = (lead * K @ k1 / margin**2).astype(dtype), g.astype(dtype)
        truth = exact(h, values)
        errors.append(np.abs(gradient(h, values) - truth).sum() / np.abs(truth).sum())
    return np.maximum(errors, 1e-17)  # zero has no logarithm


def by_library(h, g):
    h = torch.tensor(h, requires_grad=True)
    (library_softmax(h) @ torch.as_tensor(g)).backward()
    return h.grad.numpy()


leads = np.arange(1, 61)
errors = {}
for dtype, bits in ((np.float32, 24), (np.float64, 53)):
    broken, cured = worst(textbook, leads, dtype), worst(by_library, leads, dtype)
    law = np.minimum(2.0**-bits * np.exp(leads), 1) / 2  # the winner's entry is half of the sum
    errors[dtype.__name__] = broken, cured, law
    assert (broken <= 4 * law + 2.0 ** (2 - bits)).all()
    assert (np.abs(broken[leads > bits * np.log(2) + 1] - 0.5) < 1e-6).all()
    assert cured.max() < {53: 1e-14, 24: 1e-6}[bits]

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(8, 4.2))
looks = (("orange", 4.5, 17.6), ("blue", 2, 37.7))
for (name, (broken, cured, law)), (color, width, x) in zip(errors.items(), looks, strict=True):
    ax.semilogy(leads, broken, color=plots.COLORS[color], linewidth=width)
    ax.semilogy(leads, cured, ":", color=plots.COLORS[color])
    ax.semilogy(leads, law, "--", color=plots.COLORS["black"], linewidth=1.2)
    ax.annotate(f"textbook, {name}", (x, 0.02), color=ink(color))
    ax.annotate(f"cured, {name}", (46, cured[45:].max() * 1.7), color=ink(color))
ax.set(xlabel=r"lead $\Delta = h_1 - h_3$", ylabel=r"relative error of $\nabla_h f$", ylim=(3e-18, 10))
show(
    fig,
    alt="Relative error of the gradient against the lead, on a logarithmic axis. The textbook formula's "
    "error rises in a straight line with the lead until it stays at one half, from lead 37 in double and 17 "
    "in single precision, along the dashed predictions. The cured formula stays at rounding level.",
)

# %% [markdown]
# **Figure 5.** Relative error of the gradient in the logits, the sum of all entries' errors over the sum of
# their sizes. Solid: textbook; from lead 37 on both stand at 1/2, one over the other. Dotted: cured, with
# errors below $10^{-17}$ drawn there. Dashed: half the prediction for the winner's entry, since that is half
# of the sum; $2^{-54} e^{\Delta}$ in double and $2^{-25} e^{\Delta}$ in single precision. No constant is
# fitted.

# %% [markdown]
# The textbook error climbs the predicted line and stops at exactly one half: the winner's entry, which is
# half of $\sum_t |\partial_t f|$, is gone. The cured gradient keeps a relative error below $10^{-14}$ (single
# precision: $10^{-6}$) at every lead.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### What a lost entry does to training
#
# With $\partial_1 f = 0$ the direction of ascent is $K^\top \nabla_h f = \partial_2 f\, k_2 + \partial_3 f\,
# k_3 = \partial_2 f\,(1, 0)$, with $\partial_2 f < 0$. So once the lead passes 37, normalised descent should
# walk straight to the left, along $(-1, 0)$. The limit direction should be $k_1 \propto (-0.1, 1)$ (lesson 06
# shows why), so the cosine between $p$ and $k_1$ should fall from 1. How far? At $p = (-x, 36.7)$ token 2
# trails by $1.1 x + 36.7$; when that reaches 745, its attention underflows, nothing is left of the gradient,
# and the walk freezes: at $x = 644$, where the cosine is 0.156. Past the wall $f = 1$ to all digits: the loss
# will not tell us.


# %%
def train_toy(softmax, dtype=torch.float64, steps=4000):
    """Normalised descent, step 0.2, from p = 0 on the linear loss: steps, cosine to k_1, norm, p."""
    toy = tokens.to(dtype=dtype)
    model = PromptAttention(d=2, dtype=dtype)
    target = toy.keys[0, 0] / toy.keys[0, 0].norm()
    history = train.fit(
        model,
        toy,
        optim.NormalizedGD(model.parameters(), lr=0.2),
        steps=steps,
        loss="linear",
        record={"p": lambda m: m.p},
        every=10,
        progress=False,
        softmax=softmax,
    )
    p = history["p"][1:].double()  # p = 0 has no direction
    return (
        history.steps[1:].numpy(),
        ((p @ target.double()) / p.norm(dim=-1)).numpy(),
        p.norm(dim=-1).numpy(),
        p.numpy(),
    )


steps, cosine_textbook, _, p_textbook = train_toy(textbook_softmax)
_, cosine_cured, _, p_cured = train_toy(library_softmax)
_, cosine_textbook32, _, _ = train_toy(textbook_softmax, torch.float32)

print(" step   textbook: cos, p      cured: cos, p")
for record in (14, 17, 24, 49, 99, 199, 399):
    (x, y), (x_cured, y_cured) = p_textbook[record], p_cured[record]
    print(
        f"{steps[record]:5}   {cosine_textbook[record]:.2f}  ({x:4.0f}, {y:3.0f})"
        f"     {cosine_cured[record]:.2f}  ({x_cured:3.0f}, {y_cured:3.0f})"
    )
walk = (p_textbook[99] - p_textbook[49]) / (steps[99] - steps[49])
print("textbook, mean step from 500 to 1,000:", walk.round(4) + 0.0)
frozen = {}
for lead, wall in ((745.1, 36.7), (104.0, 16.6)):  # where exp(-lead) is 0, and the wall: double, single
    x = (lead - wall) / 1.1
    frozen[wall] = (0.1 * x + wall) / np.hypot(x, wall) / margin
predictions = [f"{cosine:.2f}" for cosine in frozen.values()]
ends = [f"{cosine[-1]:.2f}" for cosine in (cosine_textbook, cosine_textbook32)]
print("frozen at the cosine, predicted for double and single precision:", *predictions, "  measured:", *ends)
assert np.array_equal(p_textbook[-1], p_textbook[-20])
assert abs(cosine_textbook[-1] - frozen[36.7]) < 0.001
assert abs(cosine_textbook32[-1] - frozen[16.6]) < 0.01
assert round(frozen[36.7], 3) == 0.156
np.testing.assert_allclose(walk, [-0.2, 0.0], atol=1e-9)
assert abs(cosine_textbook[99] - 0.31) < 0.005
assert cosine_cured[-1] > 0.99999

# %% [markdown]
# The walk to the left is there, $(-0.2, 0)$ a step, after a run that looked finished. At step 150 both runs
# have a cosine of 1.00; at step 1,000 the textbook run has 0.31, and it freezes at 0.156, as predicted. It
# lost the answer it had already found.
#
# > **Rule.** A gradient that will be normalised must be accurate *relative to itself*. Agreement with
# > autograd to $10^{-15}$, as in section 5.3, does not show that: the autograd of `torch.softmax` uses the
# > same formula.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5.7 Where it breaks *(optional)*
#
# Two more walls wait behind the first. One is built by hand, out of caution; the other is where
# floating-point numbers end.
#
# ### An innocent $+\varepsilon$
#
# Division by a norm near zero looks dangerous, so it is customary to write
# $\nabla L / (\|\nabla L\| + \varepsilon)$; Adam does it too. Once
# $\|\nabla L\| \ll \varepsilon$ the step is $(\eta/\varepsilon) \nabla L$. That is *plain* gradient descent
# with step $\eta/\varepsilon$, and section 5.4 already told us what it does:
#
# $$\|p\| \approx \frac{\log\left(\|k_1\|^2\, j\, \eta/\varepsilon\right)}{\|k_1\|}
#   \qquad \text{after } j \text{ steps.}$$

# %%
eta, epsilon = 0.2, 1e-8
checkpoints = [100, 200, 500, 1000, 2000, 5000, 10_000]
damped = ascend(10_000, set(checkpoints), lambda G: eta * G / (np.linalg.norm(G) + epsilon))
damped_lengths = np.linalg.norm(damped, axis=1)
stalled = np.log(margin**2 * np.array(checkpoints) * eta / epsilon) / margin

print("     j     eta j   with eps   predicted")
for j, length, guess in zip(checkpoints, damped_lengths, stalled, strict=True):
    print(f"{j:6} {eta * j:9.0f} {length:10.2f} {guess:11.2f}")
assert np.abs(damped_lengths - stalled)[-3:].max() < 0.1

# %% [markdown]
# Without $\varepsilon$ each step has length $\eta$, and the norm would be near $\eta j = 2{,}000$ at the end.
# With $\varepsilon = 10^{-8}$ it stalls near 26, within 0.1 of the prediction. The loss looks converged,
# nothing warns, and the direction is all but frozen. No $\varepsilon$, then. Normalise without it, and leave
# $p$ alone when the gradient is exactly zero.

# %% [markdown]
# ### Underflow, and a gradient in logarithms
#
# The cured gradient is accurate while $e^{-\Delta}$ is an ordinary number. In single precision that ends at
# $e^{-87}$, in double precision at $e^{-708}$. Then come the subnormal numbers, which lose a digit after
# another, and from $e^{-104}$ and $e^{-746}$ on there is only 0: every rival has attention 0, and $\nabla_h f
# = 0$.

# %%
print(
    "float32: exp(-103) =",
    np.exp(np.float32(-103)),
    "(true 1.85e-45)   exp(-104) =",
    np.exp(np.float32(-104)),
)
print("float64: exp(-745) =", np.exp(-745.0), "                  exp(-746) =", np.exp(-746.0))
assert np.exp(np.float32(-103)) > 0 == np.exp(np.float32(-104))
assert np.exp(-745.0) > 0 == np.exp(-746.0)
assert abs(float(np.exp(np.float32(-103))) / np.exp(-103.0) - 1) > 0.2
assert np.finfo(np.float32).tiny < np.exp(np.float32(-87)) < 2 * np.finfo(np.float32).tiny
assert np.exp(-708.0) > np.finfo(float).tiny > np.exp(-709.0)

# %% [markdown]
# Normalised descent does not care about the length of the gradient. So take out a common factor *before* it
# can underflow. Away from the winner,
#
# $$\log |\partial_t f| = \log s_t + \log |g_t - f|, \qquad \log s_t = h_t - h_\alpha - \log \sum_\tau
#   e^{h_\tau - h_\alpha},$$
#
# and $\log s_t$ is an ordinary number like $-2000$. Let $c$ be the largest $\log |\partial_t f|$; then $\pm\,
# e^{\log |\partial_t f| - c}$ is the scaled gradient, its largest losing entry is $\pm 1$, and the winner's
# entry is minus the sum of the others, as ever.
#
# With several sequences one point needs care. The gradient in $p$ is a *sum* over sequences, so they must
# keep their proportions: one common $c$ for all of them.

# %% [markdown]
# ### Exercise 05.6: A direction that cannot underflow
#
# ★★★ · 15 minutes
#
# For logits and values of shape $(n, T)$, return the gradients $\nabla_h f$ of all $n$ sequences, divided by
# the largest $|\partial_t f_i|$ in the whole array. Leads go up to 5,000. You may assume that no rival has
# exactly the winner's value (with such ties $g_t - f$ must be taken in logarithms too; the library sets them
# apart) and that $\nabla_h f$ is not 0. A rival may come close to the winner's value, though.
#
# <details><summary>Hint</summary>
#
# Subtract each row's winning value from `g`, as in 05.5. Compute `log_s`, then $g_t - f$ with `np.exp(log_s)`
# as weights. (A rival that underflows there changes nothing: $g_t - g_\alpha$ is not 0 for any other rival,
# and beside it the missing term is far below rounding.) Set `log_u` to `-np.inf` at the winners before you
# take the maximum. A mask of the winners is `np.arange(T) == h.argmax(axis=-1)[:, None]`. Divide once more at
# the end: the winner's entry may have come out above 1.
#
# </details>


# %%
@exercise("05.6")
def gradient_direction(h, g):
    """All gradients over their largest entry, (n, T), from logits h (n, T) and values g (n, T)."""
    ### BEGIN SOLUTION
    winner = np.arange(h.shape[-1]) == h.argmax(axis=-1)[:, None]  # (n, T)
    lead = h.max(axis=-1, keepdims=True) - h
    log_s = -lead - np.log(np.exp(-lead).sum(axis=-1, keepdims=True))
    g = g - g[winner][:, None]
    advantage = g - (np.exp(log_s) * g).sum(axis=-1, keepdims=True)  # g_t - f
    log_u = np.where(winner, -np.inf, log_s + np.log(np.abs(advantage)))
    u = np.sign(advantage) * np.exp(log_u - log_u.max())
    u = np.where(winner, -u.sum(axis=-1, keepdims=True), u)
    return u / np.abs(u).max()
    ### END SOLUTION


# %%
check("05.6", gradient_direction)

# %% [markdown]
# The library's softmax has both. Without `batch_dims` its backward is the anchored one. With it, it returns
# the direction in logarithms, one factor for each independent run (the leading `batch_dims` dimensions tell
# runs apart), and `train.fit` asks for that whenever the optimiser normalises. So single precision can go
# where double precision could not.


# %%
def unscaled_softmax(logits, batch_dims=None):
    """The cured softmax without the common factor taken out."""
    return library_softmax(logits)


_, cosine_logs, norm_logs, _ = train_toy(library_softmax, torch.float32)
_, _, norm_cured, _ = train_toy(unscaled_softmax, torch.float32)
print(f"float32, cured:          ||p|| = {norm_cured[-1]:.0f} at step 4,000")
print(
    f"float32, cured, in logs: ||p|| = {norm_logs[-1]:.0f} at step 4,000, cosine to k_1 {cosine_logs[-1]:.4f}"
)
assert abs(norm_cured[-1] - 103.5) < 0.5
assert norm_logs[-1] > 798
assert cosine_logs[-1] > 0.9999


# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
for curve, color, line, spot, name in (
    (cosine_logs, "blue", "-", (1300, 0.93), "cured, in logs (float32)"),
    (cosine_textbook, "vermillion", "-", (1300, 0.2), "textbook (float64)"),
    (cosine_textbook32, "black", "--", (1300, 0.35), "textbook (float32)"),
):
    left.plot(steps, curve, line, color=plots.COLORS[color])
    left.annotate(name, spot, color=plots.COLORS["black"], fontsize=11)
for wall in frozen.values():
    left.axhline(wall, color=plots.COLORS["black"], linewidth=1, linestyle=":")
left.annotate("predicted", (0, 0.07), fontsize=11)
left.set(
    xlabel="step", ylabel="cosine between $p$ and $k_1$", ylim=(0, 1.05), title="where the direction goes"
)
short = steps <= 1000
right.plot(steps[short], norm_logs[short], label="cured, in logs (float32)")
right.plot(steps[short], norm_cured[short], "--", label="cured (float32)", color=plots.COLORS["vermillion"])
right.plot(
    [0, *checkpoints[:4]],
    [0, *damped_lengths[:4]],
    "o:",
    color=plots.COLORS["black"],
    label=r"$+\varepsilon = 10^{-8}$ (float64)",
)
right.set(xlabel="step", ylabel=r"$\|p\|$", title="how far the run gets")
right.legend(loc="upper left")
show(
    fig,
    alt="Left: cosine between p and k_1 against steps. The run in logarithms stays at 1. The textbook "
    "runs reach 1 and then fall, in double precision from step 180 to 0.16, in single precision "
    "from step 80 to 0.30, where they stay, on the dotted predictions. Right: norm of p against steps. In "
    "logarithms it grows on a straight line to 200 at step 1,000; without logarithms float32 stops at 104; "
    "with epsilon it stalls near 24.",
)

# %% [markdown]
# **Figure 6.** Normalised descent on the toy, step 0.2, from $p = 0$. Left: the direction; dotted, where the
# textbook runs are predicted to freeze. Right: the norm, which ought to grow by 0.2 a step.

# %% [markdown]
# In single precision the cured run stops dead at $\|p\| = 104$, where the lead is 104 and $e^{-104}$
# underflows. (So does the textbook run in single precision, on its way to the left.) In logarithms it goes
# on to 800, and to any length you have patience for, with a cosine above 0.9999.

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
# *other* losers: beside one that is only 10 behind it is next to nothing, and descent can stay with the
# second-best token; if it is the nearest rival itself, nothing else pushes, and normalised descent will
# follow it.
#
# </details>
#
# **3.** Two keys are equal, $k_1 = k_2$. Does the softmax saturate as $\|p\| \to \infty$?
#
# <details><summary>Answer</summary>
#
# Not between those two: they always share their attention half and half, whatever $p$ is. The margin is 0
# if they lead, and the proposition says nothing. A softmax cannot select what its keys do not separate.
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
# **5.** Why does the textbook run keep $f = 1$ while its direction goes wrong?
#
# <details><summary>Answer</summary>
#
# Walking to the left still increases the lead of token 1 over both rivals ($k_1$ has a negative first
# coordinate). The loss sees only who wins. The direction carries information that the loss has long stopped
# showing.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention is a soft selection: $f = \sum_t s_t g_t$, $s = \mathrm{softmax}(Kp)$. The direction of $p$
#   says which token, its length, an inverse temperature, how firmly.
# - The gradient in the logits is $\partial_t f = s_t (g_t - f)$; in $p$ it is $K^\top \nabla_h f$.
# - At margin $\mu(p)$ and norm $R$, what the rivals keep, and the gradient, are at most of order $e^{-\mu(p)
#   R}$. So the norm under plain descent grows like the logarithm of the number of steps, over $\mu(p)$. The
#   largest margin is the cheapest way to choose.
# - The landscape is bounded and hence not convex; more than one token can attract.
# - The textbook gradient loses the winner's entry at a lead of about $53 \log 2 \approx 37$, depending on the
#   values. Anchor the values at
#   the winner, take common factors out in logarithms, and add no $\varepsilon$.

# %%
progress("05")

# %% [markdown]
# ## Further reading
#
# - Vaswani et al. (2017), *Attention is all you need*, arXiv 1706.03762: softmax attention with keys, queries
#   and values, and the $1/\sqrt{d}$ in the logits, which is a temperature.
# - Tarzanagh, Li, Zhang, Oymak (2023), *Max-margin token selection in attention mechanism*, arXiv 2306.13596:
#   the model of this lesson, and our toy.
# - Blanchard, Higham, Higham (2021), *Accurately computing the log-sum-exp and softmax functions*: rounding
#   errors of the forward pass.
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
