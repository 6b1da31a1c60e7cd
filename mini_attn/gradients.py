"""Gradients in closed form, several times faster than autograd on many small problems."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from mini_attn.data import PointData, TokenData
from mini_attn.heads import LinearHead, MLPHead
from mini_attn.losses import Loss
from mini_attn.models import LinearClassifier, _Attention
from mini_attn.softmax import contrast, logit_gradient, tokens_first, winners

# On sequences of up to this many entries BLAS spends its time on calls. Products over the whole batch are
# faster: in one piece up to this many entries in all, and in slices where the piece would outgrow the caches.
_SEQUENCE, _PIECE = 2**14, 2**19

Evaluation = Callable[[], tuple[Tensor, dict[str, Tensor]]]


def closed_form(
    model: nn.Module, data: PointData | TokenData, loss: Loss, batch_dims: int | None = None
) -> Evaluation | None:
    """Return a function that evaluates margins and gradients at the model's present parameters.

    What does not change from step to step (scores, the order of the data in memory) is prepared once.

    Args:
        model, data, loss: as for :func:`mini_attn.train.fit`.
        batch_dims: None for exact gradients, or the number of trial dimensions for log-scaled ones.

    Returns:
        None where only autograd knows the way: a model, or a head, that is not this package's. Else
        a function of no arguments returning the margins y_i f_i, (*trials, n), and the gradient of
        (1/n) sum_i l(y_i f_i), summed over trials, by parameter name.

    Introduced in lesson 10.
    """
    kind = type(model)
    if isinstance(model, LinearClassifier) and kind.forward is LinearClassifier.forward:
        make = _linear
    elif (
        isinstance(model, _Attention)
        and (model.head is None or type(model.head) in (LinearHead, MLPHead))
        and all(getattr(kind, m) is getattr(_Attention, m) for m in ("forward", "attention", "logits"))
    ):
        make = _attention
    else:
        return None
    model._check(data)
    evaluate = make(model, data, loss, batch_dims)
    shapes = {name: w.shape for name, w in model.named_parameters()}

    @torch.no_grad()
    def evaluate_parameters():
        margins, grads = evaluate()
        for name, shape in shapes.items():
            if grads[name].shape != shape:  # weights that several trials of the data share
                grads[name] = grads[name].sum_to_size(shape)
        return margins, grads

    return evaluate_parameters


def _linear(model, data, loss, batch_dims):
    def evaluate():
        margins = data.y * (data.X @ model.w[..., None]).squeeze(-1)
        u = data.y * loss.slope(margins, batch_dims) / data.y.shape[-1]
        return margins, {"w": (u[..., None, :] @ data.X).squeeze(-2)}

    return evaluate


def _attention(model, data, loss, batch_dims):
    head = model.head
    nonlinear = isinstance(head, MLPHead)
    own = () if head is None else head.V.shape[:-2] if nonlinear else head.v.shape[:-1]
    trials = torch.Size(np.broadcast_shapes(model.trials, data.trials, own))
    n = data.y.shape[-1] if data.present is None else data.present.sum(-1, keepdim=True)
    compare, pull = contractions(data.keys, data.positions, trials)
    hidden = None if data.hidden is None else tokens_first(_for_trials(data.hidden, trials))
    if head is None:
        # finite where masked, unlike the scores
        fixed = data.y[..., None] * data.values
        fixed = tokens_first(fixed.expand(*trials, *fixed.shape[-2:]))  # (T, *trials, n)
    else:
        read, gather = (
            (compare, pull) if data.keys is data.X else contractions(data.X, data.positions, trials)
        )
    trained = head is not None and any(True for _ in head.parameters())
    winner = compared = None  # the winners of the last step, most often those of this one too

    def evaluate():
        nonlocal winner, compared
        q, pullback = model.queries(data)
        h = compare(q)
        if hidden is not None:
            h.masked_fill_(hidden, -torch.inf)
        log_s = torch.log_softmax(h, dim=0)
        s = log_s.exp()
        if nonlinear:
            outputs, v, into_head = head.linearised(gather(s))
            margins, scores = data.y * outputs, data.y * read(v)
        else:
            scores = fixed if head is None else data.y * read(head.v[..., None, :])
            margins = (s * scores).sum(0)
        if hidden is not None and head is not None:
            scores.masked_fill_(hidden, 0.0)
        now = winners(log_s)
        if head is not None or winner is None or not torch.equal(now, winner):
            # dL/ds_it = l'(y_i f_i) y_i g_it / n, but for |l'|
            winner, compared = now, contrast(-scores / n, now)
        u = logit_gradient(log_s, s, *compared, batch_dims, loss.log_slope(margins))
        grads = pullback(pull(u))
        if trained:
            weights = data.y * loss.slope(margins, batch_dims, data.present) / n
            if nonlinear:
                grads["head.V"] = into_head(weights)
            else:
                grads["head.v"] = gather(s * weights).sum(-2)
        return margins, grads

    return evaluate


def _for_trials(x: Tensor, trials: torch.Size) -> Tensor:
    """x (..., n, T) with as many trial dimensions as these, of size 1 where it had none."""
    return x.reshape(*(1,) * (len(trials) + 2 - x.ndim), *x.shape)


def contractions(keys: Tensor, positions: int, trials: torch.Size) -> tuple[Callable, Callable]:
    """Two functions: q -> h = X q, (T, *trials, m), and u -> X^T u, (*trials, m, d), with m = n positions."""
    n, T, d = keys.shape[-3:]
    if positions > 1:
        return _shared_contractions(keys, positions, trials)
    in_one_piece = trials.numel() * n * T * d <= _PIECE
    if T * d > _SEQUENCE or (keys.is_cuda and not in_one_piece):  # a slice more is a kernel more
        return (
            lambda q: tokens_first((keys @ q[..., None]).squeeze(-1)),
            lambda u: (u.movedim(0, -1)[..., None, :] @ keys).squeeze(-2),
        )
    keys = keys.reshape(*(1,) * (len(trials) + 3 - keys.ndim), *keys.shape)  # shared by trials, maybe
    X = keys.movedim((-1, -2), (0, 1)).contiguous()  # (d, T, *trials, n)

    def compare(q: Tensor) -> Tensor:
        if q.shape[:-2] != trials:
            q = q.expand(*trials, *q.shape[-2:])
        q = q.movedim(-1, 0).contiguous()[:, None]  # (d, 1, *trials, n)
        return (X * q).sum(0) if in_one_piece else _sum_of_products(X, q)

    def pull(u: Tensor) -> Tensor:
        if in_one_piece:
            return (X * u).sum(1).movedim(0, -1)
        if d >= T:
            return _sum_of_products(X.movedim(1, 0), u).movedim(0, -1)
        return torch.stack([(x * u).sum(0) for x in X], -1)

    return compare, pull


def _shared_contractions(keys: Tensor, positions: int, trials: torch.Size) -> tuple[Callable, Callable]:
    """Likewise where several queries share the tokens of a sequence: einsum copies neither for the other."""
    n, T, _ = keys.shape[-3:]

    def compare(q: Tensor) -> Tensor:
        q = q[..., None, :, :] if q.shape[-2] == 1 else q.unflatten(-2, (n, positions))
        h = torch.einsum("...ntd,...npd->...tnp", keys, q)
        return h.movedim(-3, 0).expand(T, *trials, n, positions).flatten(-2).contiguous()

    def pull(u: Tensor) -> Tensor:
        u = u.unflatten(-1, (n, positions)).movedim(0, -1)  # (*trials, n, positions, T)
        return torch.einsum("...npt,...ntd->...npd", u, keys).flatten(-3, -2)

    return compare, pull


def _sum_of_products(parts: Tensor, factors: Tensor) -> Tensor:
    """sum_k parts_k factors_k, a slice at a time: each is read once, and the sum stays in the caches."""
    total = parts[0] * factors[0]
    for part, factor in zip(parts[1:], factors[1:], strict=True):
        total.addcmul_(part, factor)
    return total
