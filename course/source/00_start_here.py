# %% [markdown] slideshow={"slide_type": "slide"}
# # 00 · Start here
#
# ![Left: two clouds of labelled points; the line found by logistic regression lies on the line of the
# max-margin SVM. Right: paths of gradient descent on attention weights from many starts; each bends towards
# one of two dashed rays, the SVM solutions of the two tokens.](../course/assets/two-machines.png)
#
# **Figure 1.** The course in one picture. Left: train logistic regression long enough, and its line comes to
# lie in the middle of the widest empty strip between the clouds, where a support vector machine would put it.
# Right: train the weights of a softmax attention, from many starts, and every path bends towards one of two
# rays. Each ray is the solution of a support vector machine, too, not over points but over *tokens*. Nobody
# told either machine to solve one.
#
# **Why do they?** You will derive it, compute it and measure it, from the picture on the left (lesson 01) to
# the one on the right (lesson 06) and beyond, and you will see where it stops being true.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this page you can**
#
# - run a notebook, and start it afresh when it is in a muddle;
# - find your way through the course, and back to where you left it;
# - say whether you know enough to begin.
#
# **You need** a little Python. About 35 minutes, five exercises, which show what the other lessons take for
# granted.

# %% [markdown]
# ## 0.1 How a notebook works
#
# A notebook is made of cells: some hold text, like this one, others code. Click on the code below, and press
# **Shift-Enter**. That runs the cell and moves on to the next.

# %%
import numpy as np

from course.exercise import check, exercise, progress, todo

print("This cell has run: 1 + 2 + ... + 100 =", sum(range(101)))

# %% [markdown]
# The number in brackets on the left counts the cells that have run since the notebook was opened; `[*]` means
# that one is still busy. Three things to know:
#
# - **Go from the top.** A cell uses what the cells above it have made. Lessons come with the output of every
#   cell already in place, so that you can read them before you run them; it does not mean that the cells have
#   run in *your* session. If a cell says that a name is not there, run what is above it: in the menu, *Run*,
#   *Run All Above Selected Cell*.
# - **Change what you like.** This copy is yours. A newer version of a lesson never overwrites what you wrote:
#   it is put beside it, with `new` in its name. For a lesson as it was, rename or delete yours and run
#   `make learn` again.
# - **When in a muddle**, choose *Kernel*, *Restart Kernel and Run All Cells*. Everything is forgotten but
#   what stands in the cells, and they run in order. If one of them stops, the notebook goes there.

# %% [markdown]
# ## 0.2 The map
#
# Run the next cell for the whole course. Each line links to its lesson. *Needs* lists the lessons that it
# builds on, and the minutes include the exercises, but no optional sections (with a pencil for every
# derivation, take half as long again); take a lesson in two sittings if you like. Sections that are called
# optional can be left out: a later lesson may point back to one, but says again what it needs of it.

# %%
progress()

# %% [markdown]
# The column *solved* is yours. Every `check` writes its verdict to the file `.progress` beside your lessons
# and nowhere else; delete it, and the course forgets what you have solved. `make learn` opens the lesson
# where you left off. In any notebook `progress("06")` says what is left of lesson 06, and in a terminal
# `python -m course progress` shows this table.
#
# The story in four sentences. Part I (lessons 01 to 04) is about straight lines: where descent goes, how to
# prove it, and how the optimiser and the way the weights are factored change it. Part II (05 to 09) puts one
# softmax between the weights and the loss, and finds the same machine over tokens. Part III (10 to 14) makes
# transformers of it, one ingredient at a time: queries, keys, nonlinear heads, every position asking. Part IV
# (15 to 18) changes the optimiser, the task and the data, and ends where the theory does.

# %% [markdown]
# ## 0.3 Do you know enough to begin?
#
# The course builds on a first year of linear algebra and calculus, and on some NumPy. (The lessons also show
# some PyTorch, to be read; exercises ask for NumPy unless they say otherwise.) These five questions
# are typical of what the lessons use without a word. Work them as you will work all exercises: replace
# `todo()` by your own code, run the cell, then run the check below it. A check tries your function on several
# inputs and says what went wrong on the first that fails. Open the hint if you are stuck.
#
# If you leave an exercise out, the notebook goes on with our solution. If four of the five come easily, go
# to lesson 01. If not, *Mathematics for Machine Learning* by Deisenroth, Faisal and Ong
# ([mml-book.github.io](https://mml-book.github.io), free) has what is missing: the chapter stands with each
# question.

# %% [markdown]
# ### Exercise 00.1: The length of a shadow
# ★☆☆ · 2 minutes
#
# The sun stands straight above the line through $0$ and $w$. How long is the shadow of $x$
# on that line, counted negative if it falls on the side of $-w$? (Chapter 3: inner products, projections.)
#
# <details><summary>Hint</summary>
#
# It is $\lVert x \rVert$ times the cosine of the angle between $x$ and $w$, and
# $x \cdot w = \lVert x \rVert \lVert w \rVert \cos\theta$.
# </details>


# %%
@exercise("00.1")
def shadow(x, w):
    """A number, for x (d,) and w (d,), which is not zero."""
    ### BEGIN SOLUTION
    return x @ w / np.linalg.norm(w)
    ### END SOLUTION


# %%
check("00.1", shadow)

# %% [markdown]
# ### Exercise 00.2: All points at once
# ★☆☆ · 3 minutes
#
# The rows of `X` are $n$ points $x_i$, and `y` holds their labels, $-1$ or $+1$. Return
# the $n$ numbers $y_i\, x_i \cdot w$, without a loop. (NumPy: broadcasting, `@`.)
#
# <details><summary>Hint</summary>
#
# `X @ w` holds all $x_i \cdot w$, in an array of shape `(n,)`. Two arrays of one shape are multiplied entry
# by entry with `*`.
# </details>


# %%
@exercise("00.2")
def signed_products(X, y, w):
    """An array (n,), for X (n, d), y (n,) and w (d,)."""
    ### BEGIN SOLUTION
    return y * (X @ w)
    ### END SOLUTION


# %%
check("00.2", signed_products)

# %% [markdown]
# ### Exercise 00.3: The chain rule
# ★☆☆ · 5 minutes
#
# Derive the gradient of $f(w) = \frac{1}{2} \lVert A w - b \rVert^2$ by hand, and write it
# in NumPy. (Chapter 5: gradients of vectors and matrices.)
#
# <details><summary>Hint</summary>
#
# With the residual $r = A w - b$, $f = \frac{1}{2} r \cdot r$. The gradient of $f$ in $r$ is $r$, and each
# entry of $w$ moves $r$ along one column of $A$.
# </details>


# %%
@exercise("00.3")
def gradient(w, A, b):
    """The gradient at w: an array (d,), for w (d,), A (n, d) and b (n,)."""
    ### BEGIN SOLUTION
    return A.T @ (A @ w - b)
    ### END SOLUTION


# %%
check("00.3", gradient)

# %% [markdown]
# A derivation can be tried. Move $w$ a little in some direction, and $f$ must change as the gradient says.

# %%
rng = np.random.default_rng(0)
A, b, w, direction = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3), rng.normal(size=3)


def f(w):
    return ((A @ w - b) ** 2).sum() / 2


measured = (f(w + 1e-6 * direction) - f(w - 1e-6 * direction)) / 2e-6
predicted = gradient(w, A, b) @ direction
print(f"slope measured {measured:.6f}, predicted {predicted:.6f}")
assert abs(measured - predicted) < 1e-6, "see exercise 00.3"

# %% [markdown]
# ### Exercise 00.4: How far a matrix stretches
# ★★☆ · 4 minutes
#
# Of all vectors $w$ of length one, find the one for which $A w$ is longest. How long is
# it? (Chapter 4: the singular value decomposition. Lessons 03 and 04 take it for granted.)
#
# <details><summary>Hint</summary>
#
# $\lVert A w \rVert^2 = w \cdot A^\top A\, w$, so the answer is the root of the largest eigenvalue of
# $A^\top A$. That is the largest singular value of $A$.
# </details>


# %%
@exercise("00.4")
def stretch(A):
    """A number, for A (n, d)."""
    ### BEGIN SOLUTION
    return np.linalg.norm(A, 2)
    ### END SOLUTION


# %%
check("00.4", stretch)

# %% [markdown]
# Here, too, an experiment says whether to believe it: none of a thousand directions is stretched further, and
# in the plane one of them comes close.

# %%
plane = rng.normal(size=(3, 2))
units = rng.normal(size=(1000, 2))
units /= np.linalg.norm(units, axis=1, keepdims=True)
farthest = np.linalg.norm(units @ plane.T, axis=1).max()
print(f"farthest of 1,000 directions {farthest:.4f}, predicted {stretch(plane):.4f}")
assert 0.9999 < farthest / stretch(plane) <= 1 + 1e-12, "see exercise 00.4"

# %% [markdown]
# ### Exercise 00.5: Steps downhill
# ★★☆ · 6 minutes
#
# Minimise the $f$ of 00.3 by gradient descent: from `start`, take `steps` steps
# $w \leftarrow w - \eta \nabla f(w)$, and return all points on the way, the start first. (Chapter 7: gradient
# descent. Every lesson does this, with other functions.)
#
# <details><summary>Hint</summary>
#
# Keep a list of points, append `w - eta * gradient(w, A, b)` in a loop, and make one array of it at the end.
# `w -= ...` would change the point that is already in the list.
# </details>


# %%
@exercise("00.5")
def descend(A, b, start, eta, steps):
    """An array (steps + 1, d), for A (n, d), b (n,), start (d,), a number eta and a whole number steps."""
    ### BEGIN SOLUTION
    path = [start]
    for _ in range(steps):
        path.append(path[-1] - eta * gradient(path[-1], A, b))
    return np.array(path)
    ### END SOLUTION


# %%
check("00.5", descend)

# %% [markdown]
# With a step of one over the square of the stretch, $f$ falls at every step, and the path ends where the
# gradient is zero.

# %%
path = descend(A, b, w, 1 / stretch(A) ** 2, 2000)
heights = np.array([f(point) for point in path])
print(f"f at the start {heights[0]:.4f}, after 10 steps {heights[10]:.4f}, after 2,000 {heights[-1]:.4f}")
print(f"length of the gradient at the end: below {1e-9:.0e}")
assert (np.diff(heights) < 1e-12).all(), "see exercise 00.5"
assert np.linalg.norm(gradient(path[-1], A, b)) < 1e-9, "see exercise 00.5"

# %% [markdown]
# ## 0.4 On your way
#
# This is what you have solved of this page:

# %%
progress("00")

# %% [markdown]
# Every lesson explains its symbols where they first appear, and those of this list keep their meaning where a
# lesson does not say otherwise; $t$ counts steps up to lesson 04, tokens from lesson 05 on. When you have
# been away for a while, come back to this list.
#
# <details><summary>The symbols that return in most lessons</summary>
#
# - $x_i$, $y_i = \pm 1$: points and their labels (01). $w$: weights of a line. $L$: the loss. $\eta$: the
#   size of a step.
# - $u_i$: the signed output, label times output; where it is large, the example is well predicted (01).
# - $\mu$: a margin, the least $u_i$ over the length of the weights; $\hat\mu$: the largest (01).
# - $\lambda_i$: how hard a constraint of the SVM presses (01); $q_i$: the same, scaled to the sum one (02).
# - $x_{it}$: token $t$ of sequence $i$; $k_{it}$: its key; $T$: how many a sequence has (05, 06).
# - $h_{it}$, $s_{it}$: logit and attention of a token (05); $v$: the head that reads their mixture (06).
# - $\gamma_{it} = y_i\, v \cdot x_{it}$: the score of a token, how much it helps (06).
# - $\alpha_i$: the selected token; $a_{it} = k_{i\alpha_i} - k_{it}$: its comparison with token $t$ (05, 06).
# - $p$: the attention vector; $p_{\mathrm{mm}}$: its SVM over tokens, the Att-SVM (05, 06).
# - $z_i$: the query; $W$: the attention matrix; $W_{\mathrm{mm}}$: its Att-SVM (10).
# - $R$: a length, or the radius of a ball that holds the weights (05).
# </details>
#
# **Next:** [lesson 01](01_logistic_regression_bias.ipynb) begins with the left half of the picture, and a
# question: many lines separate the two clouds equally well in the eyes of logistic regression. Which one does
# it choose?
