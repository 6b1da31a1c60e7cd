"""Data sets: sequences of tokens with a query and a label, labelled points, and the papers' toys."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Integral

import torch
from jaxtyping import Float, Int
from torch import Tensor


class _Data:
    """What both kinds of data share: a look at the fields, and moving them all at once."""

    def to(self, *args, **kwargs):
        """Return a copy on another device or of another floating dtype; arguments as for ``Tensor.to``."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v.to(*args, **kwargs) for k, v in given.items() if v is not None})

    @property
    def trials(self) -> torch.Size:
        """Shape of the leading trial dimensions; ``()`` for a single problem."""
        return self.y.shape[:-1]

    def _check(self, shapes: dict[str, tuple[int, ...]]):
        if shapes["y"][-1] == 0:
            what = "sequences" if len(shapes["X"]) - len(shapes["y"]) == 2 else "points"
            raise ValueError(
                f"X has shape {tuple(shapes['X'])}, so n = 0 {what}: a loss needs at least one; "
                "a batch without trials is (0, n, ...)"
            )
        for name, shape in shapes.items():
            value = getattr(self, name)
            if not isinstance(value, Tensor) or not value.is_floating_point():
                kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise ValueError(
                    f"{name} is {kind}; expected a floating torch tensor: torch.as_tensor({name})"
                )
            if value.shape != shape:
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}; the other fields imply {tuple(shape)}"
                )
            if value.dtype != self.X.dtype or value.device != self.X.device:
                raise ValueError(
                    f"{name} is {value.dtype} on {value.device}, X is {self.X.dtype} on {self.X.device}; "
                    "bring them to one dtype and device first"
                )
            if not value.isfinite().all():
                where = tuple((~value.isfinite()).nonzero()[0].tolist())
                raise ValueError(f"{name} holds NaN or inf, first at index {where}; remove or repair it")
        if not (self.y.abs() == 1).all():
            raise ValueError(f"labels y must be -1 or +1; found {self.y[self.y.abs() != 1][0].item()}")


@dataclass(frozen=True)
class PointData(_Data):
    """Labelled points, the data of a linear classifier.

    Args:
        X: points, (..., n, d), floating.
        y: labels in {-1, +1}, (..., n), same dtype.

    Introduced in lesson 01.
    """

    X: Float[Tensor, "*trials n d"]
    y: Float[Tensor, "*trials n"]

    def __post_init__(self):
        if not isinstance(self.X, Tensor) or self.X.ndim < 2:
            raise ValueError("X must be a tensor of shape (..., n, d): trials, points, coordinates")
        self._check({"X": self.X.shape, "y": self.X.shape[:-1]})


@dataclass(frozen=True, init=False)
class TokenData(_Data):
    """Sequences of tokens with queries, labels and a fixed linear head.

    Token t of sequence i has value x_it (a row of X), key k_it, and score gamma_it = y_i v.x_it:
    how much attending to it helps the label.

    Args:
        X: tokens, (..., n, T, d), floating.
        z: queries, (..., n, d).
        y: labels in {-1, +1}, (..., n).
        v: linear prediction head, (..., d).
        keys: what the attention logits are computed from, (..., n, T, d); the tokens X unless given, and then
            also after ``dataclasses.replace(tokens, X=...)``: keys of their own stay, keys that are the
            tokens follow them.

    All sequences have T tokens; there is no mask for shorter ones.

    Raises:
        ValueError: a shape, dtype or device that disagrees with X; NaN or inf; a label other than +-1;
            no sequence, or no token.

    Introduced in lesson 05.
    """

    X: Float[Tensor, "*trials n T d"]
    z: Float[Tensor, "*trials n d"]
    y: Float[Tensor, "*trials n"]
    v: Float[Tensor, "*trials d"]
    _keys: Float[Tensor, "*trials n T d"] | None = field(repr=False)

    # Written by hand for replace(), which passes what each field holds: None while the keys are the tokens.
    def __init__(self, X, z, y, v, keys=None, *, _keys=None):
        if keys is None:
            keys = _keys
        own = None if keys is X else keys
        for name, value in {"X": X, "z": z, "y": y, "v": v, "_keys": own}.items():
            object.__setattr__(self, name, value)
        if not isinstance(self.X, Tensor) or self.X.ndim < 3:
            raise ValueError(
                "X must be a tensor of shape (..., n, T, d): trials, sequences, tokens, dimension"
            )
        if self.X.shape[-2] == 0:
            raise ValueError("X has T = 0 tokens in a sequence; attention needs at least one")
        *trials, n, _, d = self.X.shape
        self._check(
            {
                "X": self.X.shape,
                "z": (*trials, n, d),
                "y": (*trials, n),
                "v": (*trials, d),
                "keys": self.X.shape,
            }
        )

    @property
    def keys(self) -> Float[Tensor, "*trials n T d"]:
        """What the attention logits are computed from; X itself unless the keys are others."""
        return self.X if self._keys is None else self._keys

    @cached_property
    def values(self) -> Float[Tensor, "*trials n T"]:
        """What the head reads from each token: g_it = v.x_it."""
        return (self.X @ self.v[..., None, :, None]).squeeze(-1)

    @cached_property
    def scores(self) -> Float[Tensor, "*trials n T"]:
        """Token scores gamma_it = y_i v.x_it."""
        return self.y[..., None] * self.values

    @cached_property
    def optimal(self) -> Int[Tensor, "*trials n"]:
        """Index of the token with the highest score in each sequence, opt_i."""
        return self.scores.argmax(-1)


def _unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def random_tokens(n: int, T: int, d: int, trials: int | None = None, seed: int = 0) -> TokenData:
    """Draw tokens, queries and heads uniformly from the unit sphere, and fair random labels.

    Args:
        n: sequences a trial. T: tokens a sequence. d: embedding dimension. All at least 1.
        trials: number of independent problems, a leading dimension; None for a single problem.
        seed: of the generator; the same seed gives the same tokens on every machine.

    Returns:
        float64 TokenData on the CPU.

    Source: the random data of Tarzanagh et al. 2023, "Transformers as Support Vector Machines".
    Introduced in lesson 05.
    """
    for name, size in {"n": n, "T": T, "d": d, "trials": trials}.items():
        if size is not None and (not isinstance(size, Integral) or size < (0 if name == "trials" else 1)):
            raise ValueError(
                f"{name} = {size!r}; expected a whole number, at least {0 if name == 'trials' else 1}"
            )
    generator = torch.Generator().manual_seed(seed)
    lead = () if trials is None else (trials,)

    def draw(*shape):
        return torch.randn(*lead, *shape, generator=generator, dtype=torch.float64)

    X, z, v = _unit(draw(n, T, d)), _unit(draw(n, d)), _unit(draw(d))
    y = 2.0 * torch.randint(0, 2, (*lead, n), generator=generator).to(torch.float64) - 1.0
    return TokenData(X=X, z=z, y=y, v=v)


def separable_points(n: int = 20, seed: int = 0) -> PointData:
    """Draw n points in the plane, half of each label, that a line through the origin separates.

    The points lie in two Gaussian clouds at +-(1.5, 1) and are pushed outwards, where needed, to a
    distance of at least 0.4 from the line orthogonal to (1.5, 1).

    Returns:
        float64 PointData with X (n, 2), y (n,).

    Introduced in lesson 01.
    """
    if not isinstance(n, Integral) or n < 1:
        raise ValueError(f"n = {n!r}; expected a whole number of points, at least 1")
    generator = torch.Generator().manual_seed(seed)
    y = 1.0 - 2.0 * (torch.arange(n) % 2).to(torch.float64)
    centre = torch.tensor([1.5, 1.0], dtype=torch.float64)
    axis = centre / centre.norm()
    signed = centre + 0.7 * torch.randn(n, 2, generator=generator, dtype=torch.float64)  # as if y = +1
    along = signed @ axis
    signed = signed + (along.clamp(min=0.4) - along)[:, None] * axis
    return PointData(X=y[:, None] * signed, y=y)


def toy_one_sequence(scores: tuple[float, ...] = (1.0, 0.9, 0.0)) -> TokenData:
    """One sequence of three tokens in the plane, with scores of your choice.

    Keys (-0.1, 1), (1, 0), (0, 0). With scores (1, .9, .9) gradient descent on p finds the first token from
    every start; with (1, .9, 0) it can stop at the second, which is locally optimal.

    Args:
        scores: gamma_t for the three tokens.

    Returns:
        float64 TokenData with n = 1, T = 3, d = 2; values x_t = (score_t, 0), v = (1, 0), y = 1, z = (1, 0).

    Source: example of Tarzanagh et al. 2023, "Max-Margin Token Selection in Attention Mechanism".
    Introduced in lesson 05.
    """
    keys = torch.tensor([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    gamma = torch.as_tensor(scores, dtype=torch.float64)
    if gamma.shape != (3,):
        raise ValueError(f"scores has {gamma.numel()} entries; the toy has 3 tokens")
    e1 = torch.tensor([1.0, 0.0], dtype=torch.float64)
    return TokenData(
        X=(gamma[:, None] * e1)[None], z=e1[None], y=torch.ones(1, dtype=torch.float64), v=e1, keys=keys[None]
    )


def toy_joint(lift: float = 0.5) -> TokenData:
    """Three sequences of two tokens in the plane, for training the head and the prompt together.

    Tokens (0,0), (1,1); (0,0), (1,-1); (0,0), (1/2, 1 + lift), labels 1, -1, 1. The second tokens are the
    ones to keep; the label SVM over them is v_mm = (0, 1). With lift 0 all three are its support vectors;
    with lift > 0 the third is not.

    Args:
        lift: how far the third sequence's token lies beyond the label margin, at least 0.

    Returns:
        float64 TokenData with n = 3, T = 2, d = 2; keys equal values, v = (0, 1), z = (1, 0).

    Raises:
        ValueError: a negative lift, which would change the label SVM.

    Source: the joint training example in the code of Tarzanagh et al. 2023, "Max-Margin Token Selection in
    Attention Mechanism": lift 0 is its tight case, lift 1/2 its relaxed one.
    Introduced in lesson 09.
    """
    if not 0 <= lift < float("inf"):
        raise ValueError(f"lift = {lift}; expected a finite number, 0 or more")
    best = torch.tensor([[1.0, 1.0], [1.0, -1.0], [0.5, 1.0 + lift]], dtype=torch.float64)
    e1, e2 = torch.eye(2, dtype=torch.float64)
    return TokenData(
        X=torch.stack([torch.zeros_like(best), best], dim=1),
        z=e1.expand(3, 2),
        y=torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64),
        v=e2,
    )
