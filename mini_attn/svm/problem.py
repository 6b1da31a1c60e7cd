"""Hard-margin problems with rank-one rows, and the three that the course trains its models against."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.arguments import (
    bool_tensor,
    dense,
    describe,
    finite_tensor,
    real_tensor,
    token_numbers,
)

PIECE = 2**16  # rows that are treated at once
LARGE = 1000  # rows from which on Euclidean problems are solved one by one, with a working set


@dataclass(frozen=True, eq=False)
class HardMarginProblem:
    """A batch of hard-margin problems, whose rows A_j = a_j b_j^T stay factored.

        min_W N(W)   subject to   <a_j b_j^T, W> >= r_j,   or  = r_j  where equality[j]

    Leading dimensions (written ... below) are independent problems. Where b is None the unknown is a vector w
    of shape (..., d1) and the rows read a_j . w. Rows switched off by the mask become 0 >= 0, so
    that problems with different numbers of rows share one batch; what the padding held does not matter.

    Args:
        a: (..., m, d1) left factors, float32 or float64. m = 0 is allowed: the answer is then 0.
        b: (..., m, d2) right factors, or None.
        r: (..., m) right-hand side.
        equality: (..., m) bool, True where the row is an equality. Default: nowhere.
        mask: (..., m) bool, True where the row counts. Default: everywhere.

    Raises:
        ValueError: if something is not a torch tensor, or shapes, dtypes or devices do not agree, or an entry
            that counts is NaN or infinite (the message says where).

    Source: Tarzanagh et al., "Max-margin token selection in attention mechanism" (2023) and "Transformers as
        support vector machines" (2023). Introduced in lesson 02.
    """

    a: Float[Tensor, "*batch m d1"]
    b: Float[Tensor, "*batch m d2"] | None
    r: Float[Tensor, "*batch m"]
    equality: Bool[Tensor, "*batch m"] | None = None
    mask: Bool[Tensor, "*batch m"] | None = None

    def __post_init__(self):
        a = real_tensor("a", self.a, ndim=2)
        rows = a.shape[:-1]
        for name, tensor in (("b", self.b), ("r", self.r)):
            if tensor is None and name == "b":
                continue
            real_tensor(name, tensor, ndim=1)
            if tensor.dtype != a.dtype or tensor.device != a.device:
                raise ValueError(
                    f"a is {a.dtype} on {a.device} but {name} is {tensor.dtype} on {tensor.device}; "
                    f"convert one: {name}.to(a)"
                )
            shape = tensor.shape[:-1] if name == "b" else tensor.shape
            if shape != rows:
                want = (*rows, "d2") if name == "b" else tuple(rows)
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {want} to match a's rows")
        for name, flags in (("equality", self.equality), ("mask", self.mask)):
            if flags is not None:
                bool_tensor(name, flags, rows, a.device)
        if self.mask is not None:
            object.__setattr__(self, "a", torch.where(self.mask[..., None], a, 0))
            object.__setattr__(self, "r", torch.where(self.mask, self.r, 0))
            if self.b is not None:
                object.__setattr__(self, "b", torch.where(self.mask[..., None], self.b, 0))
        for name in ("a", "b", "r"):
            if getattr(self, name) is not None:
                finite_tensor(name, getattr(self, name))

    def __getitem__(self, index) -> HardMarginProblem:
        """The problems of the batch that the index picks from the leading dimensions.

        Raises:
            IndexError: the problem has no leading dimensions, or the index reaches into its rows.
        """
        if isinstance(index, list):
            index = torch.as_tensor(index, device=self.a.device)
        try:
            self.r.new_empty(()).expand(self.batch_shape)[index]
        except IndexError as error:
            raise IndexError(
                f"an index picks problems from the leading dimensions {tuple(self.batch_shape)}, not rows: "
                f"{error}"
            ) from None
        lead = self.batch_shape
        if any(part is ... for part in (index if isinstance(index, tuple) else (index,))):  # ends before rows
            index = torch.arange(lead.numel(), device=self.a.device).reshape(lead)[index]
            lead = torch.Size((lead.numel(),))
        picked = object.__new__(HardMarginProblem)  # this one has been checked
        for name in ("a", "b", "r", "equality", "mask"):
            part = getattr(self, name)
            if part is not None:
                part = part.reshape(*lead, *part.shape[len(self.batch_shape) :])[index]
            object.__setattr__(picked, name, part)
        return picked

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the leading dimensions; () for one problem."""
        return self.a.shape[:-2]

    @property
    def unknown_shape(self) -> tuple[int, ...]:
        """Shape of W, (..., d1, d2), or of w, (..., d1), with the leading dimensions."""
        return (*self.batch_shape, self.a.shape[-1], *(() if self.b is None else self.b.shape[-1:]))

    @property
    def is_equality(self) -> Bool[Tensor, "*batch m"]:
        """`equality` with its default filled in."""
        return torch.zeros_like(self.r, dtype=torch.bool) if self.equality is None else self.equality

    def missing(self, rest: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m"]:
        """How far a row is missed that lacks r_j - <A_j, W> = rest_j: |rest_j| where = is asked, else its
        positive part."""
        return torch.where(self.is_equality, rest.abs(), rest.clamp_min(0))

    def multipliers(self, weights: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m"]:
        """Weights that the dual allows: of any sign on equalities, else at least 0."""
        return torch.where(self.is_equality, weights, weights.clamp_min(0))

    def forward(self, W: Float[Tensor, ...]) -> Float[Tensor, "*batch m"]:
        """Left-hand sides <a_j b_j^T, W>, never forming a d1 x d2 matrix per row.

        Args:
            W: (..., d1, d2), or (..., d1) where b is None.

        Returns:
            (..., m).
        """
        if self.b is None:
            return (self.a @ W[..., None])[..., 0]
        parts = [((a @ W) * b).sum(-1) for a, b in zip(*self._pieces(), strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def adjoint(self, dual: Float[Tensor, "*batch m"]) -> Float[Tensor, ...]:
        """sum_j dual_j a_j b_j^T: what weights on the rows add up to.

        Args:
            dual: (..., m).

        Returns:
            (..., d1, d2), or (..., d1) where b is None.
        """
        if self.b is None:
            return (dual[..., None, :] @ self.a)[..., 0, :]
        pieces = zip(*self._pieces(), dual.split(PIECE, -1), strict=True)
        total, *others = (a.mT @ (weights[..., None] * b) for a, b, weights in pieces)
        for other in others:
            total += other
        return total

    def _pieces(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The factors, some rows at a time: what is made of them on the way stays small."""
        return self.a.split(PIECE, -2), self.b.split(PIECE, -2)


def label_problem(X: Float[Tensor, "*batch n d"], y: Tensor) -> HardMarginProblem:
    """The hard-margin SVM over labelled points: min N(w) subject to y_i w.x_i >= 1. There is no intercept:
    append a coordinate 1 to the points for one that the norm counts too.

    Args:
        X: (..., n, d) points.
        y: (..., n) labels, -1 or +1, of any real dtype.

    Returns:
        A problem with vector unknown w (..., d) and n rows.

    Raises:
        ValueError: if a label is not -1 or +1, or shapes do not agree.

    Source: Vapnik, "Statistical learning theory" (1998). Introduced in lesson 02.
    """
    real_tensor("X", X, ndim=2)
    if not isinstance(dense("y", y), Tensor) or y.shape != X.shape[:-1]:
        raise ValueError(f"y must be a tensor of shape {tuple(X.shape[:-1])}, got {describe(y)}")
    if y.dtype == torch.bool or y.is_complex() or not (y.to(X).abs() == 1).all():
        raise ValueError("labels y must be -1 or +1, as numbers; map classes {0, 1} by y = 2.0 * y - 1")
    a = y.to(X)[..., None] * X
    return HardMarginProblem(a, None, a.new_ones(a.shape[:-1]))


def token_problem(
    keys: Float[Tensor, "*batch n T d"],
    selected: Int[Tensor, "*batch n"],
    lead: Float[Tensor, "*batch n"] | None = None,
    mask: Bool[Tensor, "*batch n T"] | None = None,
) -> HardMarginProblem:
    """The attention SVM over tokens: min N(p) subject to p.(k_{i alpha_i} - k_it) >= r_i for t != alpha_i.

    Args:
        keys: (..., n, T, d).
        selected: (..., n) alpha_i, the token to keep in each sequence, integers in [0, T).
        lead: (..., n) r_i, by how much sequence i's token has to lead; 1 unless given. The relaxed Att-SVM
            has r_i = 0 where sequence i is no support vector of the label SVM.
        mask: (..., n, T) bool, True where a token is real, as in ``TokenData.mask``; None means everywhere.

    Returns:
        A problem with vector unknown p (..., d) and n (T - 1) rows, ordered by i, then by t. Rows of masked
        tokens are switched off.

    Raises:
        ValueError: if a selected token does not exist or is masked, or shapes do not agree.

    Source: Tarzanagh, Li, Zhang, Oymak, "Max-margin token selection in attention mechanism" (2023),
        (Att-SVM).
        Introduced in lesson 06; ``lead`` in lesson 09, ``mask`` in lesson 14.
    """
    a, mask = _winner_minus_others("keys", keys, selected, mask)
    T = keys.shape[-2]
    a = a.flatten(-3, -2)  # (..., n * (T - 1), d)
    mask = None if mask is None else mask.flatten(-2)
    if lead is None:
        return HardMarginProblem(a, None, a.new_ones(a.shape[:-1]), mask=mask)
    if not isinstance(dense("lead", lead), Tensor) or lead.shape != selected.shape:
        raise ValueError(
            f"lead must be a tensor of shape {tuple(selected.shape)}, one number per sequence, "
            f"got {describe(lead)}"
        )
    if lead.is_complex():
        raise ValueError(f"lead holds real numbers; got {lead.dtype}")
    return HardMarginProblem(a, None, lead.to(a).repeat_interleave(T - 1, dim=-1), mask=mask)


def attention_problem(
    X: Float[Tensor, "*batch n T d"],
    z: Float[Tensor, "*batch n d"],
    selected: Int[Tensor, "*batch n"],
    mask: Bool[Tensor, "*batch n T"] | None = None,
) -> HardMarginProblem:
    """The attention SVM for W: min N(W) subject to (x_{i alpha_i} - x_it)^T W z_i >= 1, t != alpha_i.

    Args:
        X: (..., n, T, d) tokens.
        z: (..., n, e) queries (e = d in the course).
        selected: (..., n) alpha_i, integers in [0, T).
        mask: (..., n, T) bool, as for :func:`token_problem`.

    Returns:
        A problem with unknown W (..., d, e) and n (T - 1) rows, ordered by i, then by t. Rows of masked
        tokens are switched off.

    Raises:
        ValueError: if a selected token does not exist or is masked, or shapes do not agree.

    Source: Tarzanagh, Li, Thrampoulidis, Oymak, "Transformers as support vector machines" (2023), (Att-SVM).
        Introduced in lesson 10, ``mask`` in lesson 14.
    """
    a, mask = _winner_minus_others("X", X, selected, mask)  # (..., n, T - 1, d)
    real_tensor("z", z, ndim=2)
    if z.shape[:-1] != X.shape[:-2]:
        raise ValueError(
            f"z has shape {tuple(z.shape)}, expected {(*X.shape[:-2], 'd')}: one query per sequence"
        )
    if z.dtype != X.dtype or z.device != X.device:
        raise ValueError(
            f"X is {X.dtype} on {X.device} but z is {z.dtype} on {z.device}; convert one: z.to(X)"
        )
    b = z[..., None, :].expand(*a.shape[:-1], z.shape[-1])
    a, b = a.flatten(-3, -2), b.flatten(-3, -2)
    return HardMarginProblem(a, b, a.new_ones(a.shape[:-1]), mask=None if mask is None else mask.flatten(-2))


def _winner_minus_others(
    name: str, keys: Tensor, selected: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """k_{i alpha_i} - k_it for the T - 1 tokens t != alpha_i, (..., n, T - 1, d), and their mask."""
    real_tensor(name, keys, ndim=3)
    T = keys.shape[-2]
    if T == 0:
        raise ValueError(
            f"{name} has shape {tuple(keys.shape)}, T = 0 tokens a sequence; expected at least one"
        )
    selected = token_numbers("selected", selected, keys.shape[:-2], T, keys.device)
    others = torch.arange(T - 1, device=keys.device)
    others = others + (others >= selected[..., None])  # (..., n, T - 1), skips alpha_i
    d = keys.shape[-1]
    winner = keys.gather(-2, selected[..., None, None].expand(*selected.shape, 1, d))
    if mask is not None:
        mask = _visible_others(mask, keys, selected, others)
    return winner - keys.gather(-2, others[..., None].expand(*others.shape, d)), mask


def _visible_others(mask: Tensor, keys: Tensor, selected: Tensor, others: Tensor) -> Tensor:
    """The mask of the tokens t != alpha_i, (..., n, T - 1); a sequence that sees no token selects none."""
    bool_tensor("mask", mask, keys.shape[:-1], keys.device, "True where a token is real")
    hidden = mask.any(-1) & ~mask.gather(-1, selected[..., None])[..., 0]
    if hidden.any():
        where = tuple(hidden.nonzero()[0].tolist())
        raise ValueError(
            f"selected{list(where)} is {selected[where].item()}, which the mask hides; select a real token"
        )
    return mask.gather(-1, others)
