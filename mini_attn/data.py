"""Data sets: random ones, the papers' toys, and sequences in which every position asks."""

from numbers import Integral

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn.arguments import bool_tensor, dense, describe
from mini_attn.containers import PointData as PointData
from mini_attn.containers import TokenData as TokenData


def _unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def random_tokens(
    n: int, T: int, d: int, trials: int | None = None, seed: int = 0, lengths=None
) -> TokenData:
    """Draw tokens, queries and heads uniformly from the unit sphere, and fair random labels.

    Args:
        n: sequences a trial. T: tokens a sequence. d: embedding dimension. All at least 1.
        trials: number of independent problems, a leading dimension; None for a single problem.
        seed: of the generator; the same seed gives the same tokens on every machine.
        lengths: how many tokens of each sequence are real, its first ones: whole numbers from 1 to T that
            broadcast to (trials, n). None: all, and no mask. The tokens are those of the seed either way.

    Returns:
        float64 TokenData on the CPU.

    Source: the random data of Tarzanagh et al. 2023, "Transformers as Support Vector Machines".
    Introduced in lesson 05; ``lengths`` in lesson 14.
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
    return TokenData(X=X, z=z, y=y, v=v, mask=None if lengths is None else _first(lengths, T, y.shape))


def _first(lengths, T: int, shape: torch.Size) -> Bool[Tensor, "*trials n T"]:
    """The mask of sequences that end after so many tokens."""
    lengths = torch.as_tensor(lengths)
    whole = not (lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool)
    if not whole or not ((lengths >= 1) & (lengths <= T)).all():
        raise ValueError(f"lengths = {lengths.tolist()}; expected whole numbers from 1 to T = {T}")
    try:
        lengths = lengths.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"lengths has shape {tuple(lengths.shape)}; expected one that broadcasts to {tuple(shape)}"
        ) from None
    return torch.arange(T) < lengths[..., None]


def every_position(
    X: Float[Tensor, "*trials n T d"],
    y: Float[Tensor, "*trials n T"],
    v: Float[Tensor, "*trials d"],
    causal: bool = False,
    mask: Bool[Tensor, "*trials n T"] | None = None,
) -> TokenData:
    """Self-attention in which every position of a sequence asks, and each has a label of its own:

        h_ikt = x_it^T W x_ik,    f_ik = sum_t s_ikt v.x_it,    over all t, or t <= k when causal.

    These are n T examples with the query z = x_ik: everything that takes TokenData takes them, and their
    tokens are stored once. Example i T + k is position k of sequence i; ``.unflatten(-1, (n, T))`` brings
    outputs (..., n T) back to positions.

    A position that sees one token only, such as the first when causal, has no choice: its output is that
    token's value, it counts in the loss, and it has no gradient and no row in an SVM.

    Args:
        X: tokens, (..., n, T, d), floating.
        y: labels of the positions in {-1, +1}, (..., n, T).
        v: linear prediction head, (..., d).
        causal: whether position k sees only t <= k.
        mask: bool, (..., n, T), True where a token is real; None means everywhere. Positions that are not
            real are nobody's token and no example: what X and y hold there, NaN included, is forgotten.

    Raises:
        ValueError: shapes that do not fit, and whatever TokenData refuses.

    Source: Tarzanagh et al. 2023, "Transformers as Support Vector Machines", on sequence outputs.
    Introduced in lesson 14.
    """
    if not isinstance(dense("X", X), Tensor) or X.ndim < 3:
        raise ValueError("X must be a tensor of shape (..., n, T, d): trials, sequences, tokens, dimension")
    *_, T, _ = X.shape
    if not isinstance(dense("y", y), Tensor) or y.shape != X.shape[:-1]:
        raise ValueError(
            f"y must be a tensor of shape {tuple(X.shape[:-1])}, a label per position; got {describe(y)}"
        )
    visible = None
    if mask is not None:
        bool_tensor("mask", mask, X.shape[:-1], X.device, "True where a token is real")
        X = torch.where(mask[..., None], X, 0)
        visible = mask[..., None] & mask[..., None, :]  # (..., n, T, T)
    if causal:
        before = torch.ones(T, T, dtype=torch.bool, device=X.device).tril()
        visible = before.expand(*X.shape[:-1], T) if visible is None else visible & before
    return TokenData(
        X=X,
        z=X.flatten(-3, -2),
        y=y.flatten(-2),
        v=v,
        mask=None if visible is None else visible.flatten(-3, -2),
        positions=T,
    )


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
