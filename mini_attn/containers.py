"""What data are kept in: labelled points, and sequences of tokens with queries, labels and a head."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.arguments import bool_tensor, dense, describe


class _Data:
    """What both kinds of data share: a look at the fields, and moving them all at once."""

    present = None  # which examples count, (*trials, n) bool; None where all do

    def to(self, *args, **kwargs):
        """Return a copy on another device or of another floating dtype; arguments as for ``Tensor.to``."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {k: v.to(*args, **kwargs) for k, v in given.items() if _is_floating(v)}
        flags = {k: v.to(moved["X"].device) for k, v in given.items() if _is_bool(v)}
        return replace(self, **moved, **flags)

    @property
    def trials(self) -> torch.Size:
        """Shape of the leading trial dimensions; ``()`` for a single problem."""
        return self.y.shape[:-1]

    @property
    def entries(self) -> int:
        """Size of the largest tensor that a step of training reads or makes: the points, the tokens with all
        their coordinates, or, where many queries share the tokens, the logits."""
        return max(
            self.X.numel(), self.y.numel() * (self.X.shape[-2] if self.X.ndim > self.y.ndim + 1 else 1)
        )

    def block(self, trials: slice):
        """Return these trials only, counted along all trial dimensions, which become one."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        lead = len(self.trials)
        return replace(
            self, **{k: v.flatten(0, lead - 1)[trials] for k, v in given.items() if isinstance(v, Tensor)}
        )

    def _check_shapes(self, shapes: dict[str, tuple[int, ...]]):
        if shapes["y"][-1] == 0:
            what = "sequences" if len(shapes["X"]) - len(shapes["y"]) == 2 else "points"
            raise ValueError(
                f"X has shape {tuple(shapes['X'])}, so n = 0 {what}: a loss needs at least one; "
                "a batch without trials is (0, n, ...)"
            )
        for name, shape in shapes.items():
            value = getattr(self, name)
            if not _is_floating(dense(name, value)):
                raise ValueError(
                    f"{name} is {describe(value)}; expected a floating torch tensor: torch.as_tensor({name})"
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

    def _check_entries(self, names):
        for name in names:
            finite = getattr(self, name).isfinite()
            if not finite.all():
                where = tuple((~finite).nonzero()[0].tolist())
                raise ValueError(f"{name} holds NaN or inf, first at index {where}; remove or repair it")
        if not (self.y.abs() == 1).all():
            raise ValueError(f"labels y must be -1 or +1; found {self.y[self.y.abs() != 1][0].item()}")


def _is_floating(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_bool(value) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bool


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
        if not isinstance(dense("X", self.X), Tensor) or self.X.ndim < 2:
            raise ValueError("X must be a tensor of shape (..., n, d): trials, points, coordinates")
        shapes = {"X": self.X.shape, "y": self.X.shape[:-1]}
        self._check_shapes(shapes)
        self._check_entries(shapes)


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
        mask: bool, (..., n, T), True where a token is real, so that sequences of several lengths share one
            tensor; None means everywhere. Tokens that are not real take no part in anything. What they held
            is forgotten, NaN included: X and keys are 0 there.
        positions: number of queries a sequence. With more than one, z, y and mask have m = n * positions
            rows instead of n, and rows i * positions, ..., (i + 1) * positions - 1 attend to sequence i,
            whose tokens are stored once. A row of the mask without any token is then allowed, as long as
            another row sees the sequence: it is no example, and what z and y hold there is forgotten too.
            See :func:`mini_attn.data.every_position`.

    Raises:
        ValueError: a shape, dtype or device that disagrees with X; NaN or inf; a label other than +-1;
            no sequence, or no real token in one.

    Introduced in lesson 05; ``mask`` and ``positions`` in lesson 14.
    """

    X: Float[Tensor, "*trials n T d"]
    z: Float[Tensor, "*trials m d"]
    y: Float[Tensor, "*trials m"]
    v: Float[Tensor, "*trials d"]
    _keys: Float[Tensor, "*trials n T d"] | None = field(repr=False)
    mask: Bool[Tensor, "*trials m T"] | None = None
    positions: int = 1

    # Written by hand for replace(), which passes what each field holds: None while the keys are the tokens.
    def __init__(self, X, z, y, v, keys=None, mask=None, positions=1, *, _keys=None):
        if keys is None:
            keys = _keys
        own = None if keys is X else keys
        self._set(X=X, z=z, y=y, v=v, _keys=own, mask=mask, positions=positions)
        if not isinstance(dense("X", X), Tensor) or X.ndim < 3:
            raise ValueError(
                "X must be a tensor of shape (..., n, T, d): trials, sequences, tokens, dimension"
            )
        *trials, n, T, d = X.shape
        if T == 0:
            raise ValueError("X has T = 0 tokens in a sequence; attention needs at least one")
        if not isinstance(positions, Integral) or positions < 1:
            raise ValueError(f"positions = {positions!r}; expected a whole number of queries a sequence")
        m = n * positions
        shapes = {"X": X.shape, "z": (*trials, m, d), "y": (*trials, m), "v": (*trials, d), "keys": X.shape}
        self._check_shapes(shapes)
        if mask is not None:
            self._check_mask((*trials, m, T))
            self._forget_padding()
        self._check_entries(shapes)

    def _set(self, **values):
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_mask(self, shape: tuple[int, ...]):
        bool_tensor("mask", self.mask, shape, self.X.device, "True where a token is real")
        empty = ~self._by_sequence(self.mask).flatten(-2).any(-1)
        if empty.any():
            where = tuple(empty.nonzero()[0].tolist())
            raise ValueError(
                f"mask has no real token in sequence {where if len(where) > 1 else where[0]}; attention "
                "needs at least one: leave the sequence out"
            )

    def _forget_padding(self):
        """Put zeros where nobody looks, so that nothing can depend on what was there."""
        padding = ~self._by_sequence(self.mask).any(-2)
        self._set(X=_blank(self.X, padding[..., None], 0))
        if self._keys is not None:
            self._set(_keys=_blank(self._keys, padding[..., None], 0))
        if self.present is not None:
            self._set(z=_blank(self.z, ~self.present[..., None], 0), y=_blank(self.y, ~self.present, 1))

    def _by_sequence(self, rows: Tensor) -> Tensor:
        """(*trials, m, k) -> (*trials, n, positions, k)."""
        return rows.unflatten(-2, (self.X.shape[-3], self.positions))

    @property
    def keys(self) -> Float[Tensor, "*trials n T d"]:
        """What the attention logits are computed from; X itself unless the keys are others."""
        return self.X if self._keys is None else self._keys

    @cached_property
    def present(self) -> Bool[Tensor, "*trials m"] | None:
        """Which rows see a token at all; None where all do. The others are padding, and count nowhere."""
        seeing = None if self.mask is None else self.mask.any(-1)
        return None if seeing is None or seeing.all() else seeing

    @cached_property
    def hidden(self) -> Bool[Tensor, "*trials m T"] | None:
        """The tokens that get no attention; None where all may. A row that is padding sees the first token
        of its sequence, which means nothing, but keeps NaN away."""
        if self.present is None:
            return None if self.mask is None else ~self.mask
        first = torch.arange(self.mask.shape[-1], device=self.mask.device) == 0
        return ~(self.mask | (first & ~self.present[..., None]))

    @cached_property
    def values(self) -> Float[Tensor, "*trials m T"]:
        """What the head reads from each token: g_it = v.x_it, and 0 where it is masked."""
        return self.read((self.X @ self.v[..., None, :, None]).squeeze(-1))

    @cached_property
    def scores(self) -> Float[Tensor, "*trials m T"]:
        """Token scores gamma_it = y_i v.x_it, and -inf where masked."""
        scores = self.y[..., None] * self.values
        return scores if self.mask is None else scores.masked_fill(~self.mask, -torch.inf)

    @cached_property
    def optimal(self) -> Int[Tensor, "*trials m"]:
        """Index of the token with the highest score in each sequence, opt_i."""
        return self.scores.argmax(-1)

    def compare(self, q: Float[Tensor, "*trials m d"]) -> Float[Tensor, "*trials m T"]:
        """Logits h_it = k_it.q_i of queries q_i, and -inf where masked.

        Args:
            q: (..., m, d), or (..., 1, d) for one query that all rows share.
        """
        if self.positions == 1:
            h = (self.keys @ q[..., None]).squeeze(-1)
        else:
            q = q[..., None, :, :] if q.shape[-2] == 1 else self._by_sequence(q)
            h = torch.einsum("...ntd,...npd->...npt", self.keys, q)
            h = h.expand(*h.shape[:-2], self.positions, -1).flatten(-3, -2)
        return h if self.hidden is None else h.masked_fill(self.hidden, -torch.inf)

    def mix(self, s: Float[Tensor, "*trials m T"]) -> Float[Tensor, "*trials m d"]:
        """The tokens weighted by the attention: sum_t s_it x_it."""
        if self.positions == 1:
            return (s[..., None, :] @ self.X).squeeze(-2)
        return (self._by_sequence(s) @ self.X).flatten(-3, -2)

    def read(self, g: Float[Tensor, "*trials n T"]) -> Float[Tensor, "*trials m T"]:
        """What each row finds in numbers g_it that belong to the tokens: the same for all rows of a sequence,
        and 0 where masked."""
        if self.positions > 1:
            g = g.repeat_interleave(self.positions, -2)
        return g if self.hidden is None else g.masked_fill(self.hidden, 0.0)


def _blank(x: Tensor, where: Tensor, value: float) -> Tensor:
    """x with the value there; x itself if it has it already."""
    blank = x.masked_fill(where, value)
    return x if torch.equal(x, blank) else blank
