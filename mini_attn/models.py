"""Linear and one-layer attention models; leading trial dimensions train thousands of problems at once."""

from collections.abc import Callable
from copy import copy
from numbers import Integral

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mini_attn.data import PointData, TokenData
from mini_attn.heads import LinearHead as LinearHead
from mini_attn.heads import MLPHead as MLPHead
from mini_attn.heads import _parameter
from mini_attn.softmax import softmax as stable_softmax
from mini_attn.threads import SMALL, blocks


def joint_trials(model: nn.Module, data: PointData | TokenData) -> torch.Size:
    """The trials that a model and its data make together: one of them may have fewer dimensions.

    Raises:
        ValueError: they do not fit.
    """
    try:  # torch's own broadcast_shapes imports its compiler, for half a second
        return torch.Size(np.broadcast_shapes(model.trials, data.trials))
    except ValueError:
        raise ValueError(
            f"the model has trials {tuple(model.trials)}, the data {tuple(data.trials)}; "
            "give both the same, or one of them none"
        ) from None


def trials_apart(model: nn.Module, data: PointData | TokenData) -> bool:
    """Whether `block` can take some trials out of all, on a CPU: not where trials share something."""
    trials = getattr(model, "trials", torch.Size())
    return bool(
        isinstance(model, _Model)
        and data.X.device.type == "cpu"
        and data.trials in ((), trials)
        and not any(True for _ in model.buffers())  # of which trials share some, maybe
        and all(w.shape[: len(trials)] == trials and w.is_contiguous() for w in model.parameters())
        and trials.numel()
        and trials
    )


def trial_blocks(model: nn.Module, data: PointData | TokenData, room: int = SMALL) -> list[slice]:
    """Blocks of trials for `block`, their tensors of up to about ``room`` entries; one of all where trials
    share something."""
    if not trials_apart(model, data):
        return [slice(None)]
    return blocks(model.trials.numel(), data.entries // data.trials.numel(), room)


class _Model(nn.Module):
    _token_dims = 0  # dimensions of X that are neither trials, nor examples, nor coordinates

    def __init__(self, d: int):
        super().__init__()
        if not isinstance(d, Integral) or d < 1:
            raise ValueError(f"d = {d!r}; expected a whole number of dimensions, at least 1")
        self.d = d

    def _check(self, data: PointData | TokenData):
        weight = next(self.parameters())
        if data.X.ndim - data.y.ndim != 1 + self._token_dims:
            wants = "TokenData, X of shape (..., n, T, d)" if self._token_dims else "PointData, X (..., n, d)"
            raise ValueError(
                f"{type(self).__name__} reads {wants}; got {type(data).__name__} with X of shape "
                f"{tuple(data.X.shape)} and y {tuple(data.y.shape)}"
            )
        if data.X.shape[-1] != self.d:
            raise ValueError(f"the model has d = {self.d}, the data have d = {data.X.shape[-1]}")
        if data.X.dtype != weight.dtype or data.X.device != weight.device:
            raise ValueError(
                f"the model is {weight.dtype} on {weight.device}, the data are {data.X.dtype} on "
                f"{data.X.device}; move one of them with .to(...)"
            )
        if data.trials != self.trials:
            joint_trials(self, data)

    @property
    def trials(self) -> torch.Size:
        """Shape of the leading trial dimensions; ``()`` for a single model."""
        raise NotImplementedError

    def block(self, trials: slice | Tensor) -> "_Model":
        """The model of some trials, counted along all trial dimensions, which become one.

        Its parameters are views of this model's: who moves the ones moves the others.
        """
        return _block(self, len(self.trials), trials)


def _block(module: nn.Module, lead: int, trials: slice) -> nn.Module:
    block = copy(module)
    block._parameters = {
        name: nn.Parameter(w.detach().view(-1, *w.shape[lead:])[trials], w.requires_grad)
        for name, w in module._parameters.items()
    }
    block._modules = {
        name: None if part is None else _block(part, lead, trials) for name, part in module._modules.items()
    }
    return block


class LinearClassifier(_Model):
    """f(x) = w.x for each trial.

    Args:
        d: dimension of the points.
        trials: leading dimensions, None, a number or a tuple.
        init: starting w, broadcast to (*trials, d); zeros if None.
        dtype: of the parameters.

    Introduced in lesson 01.
    """

    def __init__(self, d: int, trials=None, init=None, dtype=torch.float64):
        super().__init__(d)
        self.w = _parameter(trials, (d,), init, dtype)

    @property
    def trials(self) -> torch.Size:
        return self.w.shape[:-1]

    def forward(self, data: PointData) -> Float[Tensor, "*trials n"]:
        """Return f(x_i), (..., n)."""
        self._check(data)
        return (data.X @ self.w[..., None]).squeeze(-1)


class _Attention(_Model):
    """f_i = sum_t s_it g(x_it) with attention s_i = softmax(h_i), or g(sum_t s_it x_it): see `heads`."""

    _token_dims = 1

    def __init__(self, d: int, head: nn.Module | None):
        super().__init__(d)
        if getattr(head, "d", d) != d:
            raise ValueError(f"the model has d = {d}, its head has d = {head.d}; give both the same")
        self.head = head

    def queries(self, data: TokenData) -> tuple[Float[Tensor, "*trials n d"], Callable]:
        """Return what the keys are compared with, q_i in h_it = k_it.q_i, and the way back.

        Returns:
            q (..., n, d), or (..., 1, d) if all sequences share it; and a function from the gradient in q,
            (..., n, d), to a dict of gradients in the attention's parameters.
        """
        raise NotImplementedError

    def logits(self, data: TokenData) -> Float[Tensor, "*trials n T"]:
        """Return h_it = k_it.q_i, (..., n, T), and -inf where the data mask a token."""
        self._check(data)
        return data.compare(self.queries(data)[0])

    def attention(self, data: TokenData, softmax=stable_softmax) -> Float[Tensor, "*trials n T"]:
        """Return the attention s_it of each sequence over its tokens, (..., n, T)."""
        return softmax(self.logits(data))

    def forward(self, data: TokenData, softmax=stable_softmax) -> Float[Tensor, "*trials n"]:
        """Return the outputs f_i, (..., n)."""
        attention = self.attention(data, softmax)
        if getattr(self.head, "on_output", False):
            return self.head(data.mix(attention)[..., None, :]).squeeze(-1)
        return (attention * (data.values if self.head is None else data.read(self.head(data.X)))).sum(-1)


class PromptAttention(_Attention):
    """f_i = sum_t s_it v.x_it,  s_i = softmax(K_i p): one trainable query p for all sequences.

    Args:
        d: embedding dimension.
        trials: leading dimensions, None, a number or a tuple.
        init: starting p, broadcast to (*trials, d); zeros if None.
        head: None reads the fixed head ``data.v``; a LinearHead is trained with p; an MLPHead is nonlinear.
        dtype: of the parameters.

    Source: Tarzanagh et al. 2023, "Max-Margin Token Selection in Attention Mechanism".
    Introduced in lesson 05.
    """

    def __init__(self, d: int, trials=None, init=None, head=None, dtype=torch.float64):
        super().__init__(d, head)
        self.p = _parameter(trials, (d,), init, dtype)

    @property
    def trials(self) -> torch.Size:
        return self.p.shape[:-1]

    def queries(self, data):
        return self.p[..., None, :], lambda grad: {"p": grad.sum(-2)}


class CrossAttention(_Attention):
    """f_i = sum_t s_it v.x_it,  s_i = softmax(X_i W z_i): key and query weights joined in one matrix W.

    Args:
        d, trials, head, dtype: as for PromptAttention.
        init: starting W, broadcast to (*trials, d, d); zeros if None.

    Source: Tarzanagh et al. 2023, "Transformers as Support Vector Machines".
    Introduced in lesson 10.
    """

    def __init__(self, d: int, trials=None, init=None, head=None, dtype=torch.float64):
        super().__init__(d, head)
        self.W = _parameter(trials, (d, d), init, dtype)

    @property
    def trials(self) -> torch.Size:
        return self.W.shape[:-2]

    def queries(self, data):
        return data.z @ self.W.mT, lambda grad: {"W": grad.mT @ data.z}


class FactoredAttention(_Attention):
    """f_i = sum_t s_it v.x_it,  s_i = softmax(X_i K Q^T z_i), K and Q of shape (d, m).

    Args:
        d, trials, head, dtype: as for PromptAttention.
        m: inner dimension, the largest rank of W = K Q^T.
        scale: K and Q start from independent N(0, scale^2) entries (zero would be a stationary point).
        seed: of the start.

    Source: Tarzanagh et al. 2023, "Transformers as Support Vector Machines".
    Introduced in lesson 11.
    """

    def __init__(self, d: int, m: int, trials=None, scale=0.1, seed=0, head=None, dtype=torch.float64):
        super().__init__(d, head)
        if not isinstance(m, Integral) or m < 1:
            raise ValueError(f"m = {m!r}; expected a whole number of inner dimensions, at least 1")
        self.K = _parameter(trials, (d, m), None, dtype)
        self.Q = _parameter(trials, (d, m), None, dtype)
        generator = torch.Generator().manual_seed(seed)
        for factor in (self.K, self.Q):
            draw = torch.randn(factor.shape, generator=generator, dtype=torch.float64)
            factor.data.copy_(scale * draw)

    @property
    def trials(self) -> torch.Size:
        return self.K.shape[:-2]

    @property
    def W(self) -> Float[Tensor, "*trials d d"]:
        """The joined weights K Q^T."""
        return self.K @ self.Q.mT

    def queries(self, data):
        zQ = data.z @ self.Q  # (..., n, m)
        return zQ @ self.K.mT, lambda grad: {"K": grad.mT @ zQ, "Q": data.z.mT @ (grad @ self.K)}
