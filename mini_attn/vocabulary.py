"""Sequences over a vocabulary: next tokens, and the order of tokens that data ask for under each query."""

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.arguments import dense, describe


@dataclass(frozen=True, eq=False)
class NextTokens:
    """Sequences of tokens from a vocabulary, each with the token that comes next.

    Token c of the V in the vocabulary has the embedding e_c, and a *collocation* says which one follows it,
    next(c). The last token of a sequence is its query. A token t of sequence i is **optimal** if
    next(x_it) = y_i: whoever attends to it alone knows the answer.

    Args:
        embeddings: (..., V, d), floating.
        following: next(c), (..., V) integers in [0, V).
        tokens: (..., n, T) integers in [0, V).
        target: y_i, the token that comes next, (..., n) integers in [0, V).

    Raises:
        ValueError: shapes that do not fit, tokens that the vocabulary lacks, or numbers that are no integers.

    Introduced in lesson 16.
    """

    embeddings: Float[Tensor, "*trials V d"]
    following: Int[Tensor, "*trials V"]
    tokens: Int[Tensor, "*trials n T"]
    target: Int[Tensor, "*trials n"]

    def __post_init__(self):
        if not isinstance(self.embeddings, Tensor) or not self.embeddings.is_floating_point():
            raise ValueError("embeddings must be a floating tensor of shape (..., V, d)")
        *trials, V, _ = self.embeddings.shape
        wants = {"following": (*trials, V), "tokens": None, "target": None}
        for name in wants:
            value = getattr(self, name)
            if not isinstance(value, Tensor) or value.dtype != torch.int64:
                raise ValueError(f"{name} holds numbers of tokens: expected an int64 tensor, got {value!r}")
            if value.numel() and not (int(value.min()) >= 0 and int(value.max()) < V):
                raise ValueError(
                    f"{name} has entries from {int(value.min())} to {int(value.max())}; the vocabulary's "
                    f"{V} tokens are numbered 0 to {V - 1}"
                )
        wants["target"] = self.tokens.shape[:-1]
        wants["tokens"] = (*trials, *self.tokens.shape[-2:])
        for name, shape in wants.items():
            if tuple(getattr(self, name).shape) != tuple(shape):
                raise ValueError(
                    f"{name} has shape {tuple(getattr(self, name).shape)}; expected {tuple(shape)}"
                )

    @property
    def trials(self) -> torch.Size:
        """Shape of the leading dimensions; () for one problem."""
        return self.embeddings.shape[:-2]

    @cached_property
    def X(self) -> Float[Tensor, "*trials n T d"]:
        """Embeddings of the tokens, (..., n, T, d)."""
        flat = self.tokens.flatten(-2)[..., None]
        rows = self.embeddings.gather(-2, flat.expand(*flat.shape[:-1], self.embeddings.shape[-1]))
        return rows.unflatten(-2, self.tokens.shape[-2:])

    @cached_property
    def z(self) -> Float[Tensor, "*trials n d"]:
        """Embeddings of the queries, the last tokens, (..., n, d)."""
        return self.X[..., -1, :]

    @cached_property
    def optimal(self) -> Bool[Tensor, "*trials n T"]:
        """Which tokens have the target as their next token, (..., n, T)."""
        return _follow(self.following, self.tokens) == self.target[..., None]


def _follow(following: Tensor, tokens: Tensor) -> Tensor:
    return following.gather(-1, tokens.flatten(-2)).view_as(tokens)


def next_tokens(
    n: int,
    T: int,
    V: int,
    d: int | None = None,
    queries: int | None = None,
    targets: int | None = None,
    trials: int | None = None,
    seed: int = 0,
    rank: Float[Tensor, "*trials V V"] | None = None,
    like: NextTokens | None = None,
) -> tuple[NextTokens, Float[Tensor, "*trials V V"]]:
    """Draw sequences that some model can answer: under each query the tokens have a rank, and the top of a
    sequence says what comes next, y_i = next(the token of highest rank in sequence i).

    Tokens with the same next token have the same rank, so that no sequence contradicts another.

    Args:
        n: sequences a trial. T: tokens a sequence, the query included. V: size of the vocabulary.
        d: dimension of Gaussian embeddings of about length 1; None for unit vectors, e_c the c-th, d = V.
        queries: only tokens 0, ..., queries - 1 stand last in a sequence; None for all V.
        targets: how many different next tokens there are; None for V: next is a permutation.
        trials: number of independent problems, a leading dimension; None for a single one.
        seed: of the generator.
        rank: (..., V, V), rank[q, u] of tokens whose next is u, under the query q; None draws it.
        like: take embeddings and collocation from these data: more sequences in the same language.

    Returns:
        The data, float64, and the rank: its highest next token in the sequence is the target.

    Raises:
        ValueError: sizes that are no whole numbers from 1 on.

    Source: after the realisable data of Huang, Liang and Yang, "Non-asymptotic convergence of training
        transformers for next-token prediction" (2024). Introduced in lesson 16.
    """
    sizes = {"n": n, "T": T, "V": V, "d": d, "queries": queries, "targets": targets, "trials": trials}
    for name, size in sizes.items():
        most = V if name in ("queries", "targets") else None
        whole = isinstance(size, Integral) and not isinstance(size, bool)
        if size is not None and (not whole or size < 1 or (most and size > most)):
            upto = "" if most is None else f" and at most V = {most}"
            raise ValueError(f"{name} = {size!r}; expected a whole number, at least 1{upto}")
    if like is not None and not isinstance(like, NextTokens):
        raise ValueError(f"like must be NextTokens, such as next_tokens returns; got {type(like).__name__}")
    lead = () if trials is None else (trials,)
    for name, given, shape in (
        ("rank", rank, (*lead, V, V)),
        ("like.following", like and like.following, (*lead, V)),
    ):
        if given is not None and (
            not isinstance(given, Tensor) or given.shape != shape or given.isnan().any()
        ):
            raise ValueError(f"{name} must be a tensor of shape {shape} without NaN; got {describe(given)}")
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.rand(*lead, *shape, generator=generator, dtype=torch.float64)

    permutation = draw(V).argsort(-1)
    following = permutation % (targets or V)
    drawn = draw(V, V)
    rank = drawn if rank is None else rank
    tokens = (draw(n, T) * V).long()
    tokens[..., -1] = (draw(n) * (queries or V)).long()
    if like is not None:
        embeddings, following = like.embeddings, like.following
    elif d is None:
        embeddings = torch.eye(V, dtype=torch.float64).expand(*lead, V, V).contiguous()
    else:  # drawn last: the sequences are the same for all d
        embeddings = torch.randn(*lead, V, d, generator=generator, dtype=torch.float64) / d**0.5
    nexts = _follow(following, tokens)  # (..., n, T)
    query = tokens[..., -1:]
    ranks = rank.gather(-2, query.expand(*query.shape[:-1], V)).gather(-1, nexts)
    target = nexts.gather(-1, ranks.argmax(-1, keepdim=True))[..., 0]
    return NextTokens(embeddings, following, tokens, target), rank


def priorities(data: NextTokens) -> Bool[Tensor, "*trials V V V"]:
    """The order that data ask for: [q, a, b] is True if some sequence with the query q holds a and b, a is
    optimal in it, and b is not ("a > b under q").

    For general data, which may contradict themselves, these are the edges of the token-priority graphs of
    Li et al., "Mechanics of next token prediction with self-attention" (2024).

    Introduced in lesson 16.
    """
    V = data.embeddings.shape[-2]
    optimal = data.optimal
    pair = optimal[..., :, None] & ~optimal[..., None, :]  # (..., n, T, T)
    q = data.tokens[..., -1, None, None].expand(pair.shape)
    a = data.tokens[..., :, None].expand(pair.shape)
    b = data.tokens[..., None, :].expand(pair.shape)
    place = ((q * V + a) * V + b).flatten(-3)
    found = torch.zeros(*data.trials, V**3, dtype=torch.int64, device=place.device)
    found.scatter_add_(-1, place, pair.flatten(-3).long())
    return (found > 0).unflatten(-1, (V, V, V))


def closure(above: Bool[Tensor, "*batch V V"]) -> Bool[Tensor, "*batch V V"]:
    """Whatever follows from "a > b": a > c if a > b and b > c. (..., V, V) -> the same shape.

    A token that is above itself, on the diagonal, stands on a cycle. Introduced in lesson 16.
    """
    if (
        not isinstance(dense("above", above), Tensor)
        or above.dtype != torch.bool
        or above.ndim < 2
        or above.shape[-1] != above.shape[-2]
    ):
        raise ValueError(f"above must be a bool tensor (..., V, V), [a, b] for a > b; got {describe(above)}")
    reach, length = above, 1
    while length < above.shape[-1]:  # paths of up to 2, 4, 8, ... edges
        reach = reach | (reach.double() @ reach.double() > 0)
        length *= 2
    return reach


def same_component(above: Bool[Tensor, "*batch V V"]) -> Bool[Tensor, "*batch V V"]:
    """Which tokens reach each other, a > ... > b > ... > a: the strongly connected components, with a itself.

    Introduced in lesson 16.
    """
    reach = closure(above)
    return (reach & reach.mT) | torch.eye(above.shape[-1], dtype=torch.bool, device=above.device)
