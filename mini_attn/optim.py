"""Normalised descent: optimisers whose step length is theirs to choose, trial by trial.

Each is a ``torch.optim.Optimizer``. A parameter group is one vector per trial: ``batch_dims`` leading
dimensions of each parameter are trials, and norms run over all the rest of the group. (SGD, Adam and Muon
come from torch.)
"""

from inspect import unwrap
from numbers import Integral

import torch
from torch import Tensor
from torch.optim import Optimizer


class TrialOptimizer(Optimizer):
    """What this file's optimisers share: walks over the groups; subclasses say which way to go."""

    scale_free = True  # the update ignores the gradient's length, so a log-scaled gradient will do

    # As torch wraps them, the first call of any imports torch's compiler, which takes longer than many a run.
    state_dict, load_state_dict, zero_grad = map(
        unwrap, (Optimizer.state_dict, Optimizer.load_state_dict, Optimizer.zero_grad)
    )

    def __init__(self, params, lr: float, batch_dims: int = 0, **defaults):
        if not lr > 0 or lr == float("inf"):
            raise ValueError(f"lr = {lr}; expected a positive finite step length")
        if not isinstance(batch_dims, Integral) or batch_dims < 0:
            raise ValueError(f"batch_dims = {batch_dims!r}; expected how many dimensions are trials")
        super().__init__(params, {"lr": lr, "batch_dims": batch_dims, **defaults})

    def add_param_group(self, param_group):
        unwrap(Optimizer.add_param_group)(self, param_group)
        group = self.param_groups[-1]
        least = group["batch_dims"] + self._least_dims
        for parameter in group["params"]:
            if parameter.ndim < least:
                raise ValueError(
                    f"a parameter of shape {tuple(parameter.shape)} has too few dimensions: "
                    f"{type(self).__name__} with batch_dims = {group['batch_dims']} needs at least {least}"
                )

    _least_dims = 0

    @torch.no_grad()
    def step(self, closure=None):
        """Take one step; ``closure`` re-evaluates the model and returns the loss of each trial."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        grads = {w: w.grad for group in self.param_groups for w in group["params"] if w.grad is not None}
        self.move(grads, loss)
        return loss

    def move(self, grads: dict[Tensor, Tensor], loss: Tensor | None = None) -> None:
        """Take the step for gradients given by parameter, whatever ``.grad`` holds; in no_grad mode."""
        for group in self.param_groups:
            parameters = [w for w in group["params"] if w in grads]
            if parameters:
                self._update(parameters, [grads[w] for w in parameters], group, loss)

    def _update(self, parameters: list[Tensor], grads: list[Tensor], group: dict, loss):
        raise NotImplementedError

    def block(self, own: dict[Tensor, Tensor], trials: slice) -> "TrialOptimizer":
        """This optimiser over a block of the trials, with settings of its own.

        Args:
            own: for each parameter its block, (trials of the block, ...).
            trials: which they are, counted along all trial dimensions.
        """
        block = object.__new__(type(self))
        block.__dict__.update(self.__dict__)
        block.param_groups = []
        for group in self.param_groups:
            parameters = group["params"]
            lead = parameters[0].shape[: group["batch_dims"]]
            per_trial = {
                key: value.expand(lead).flatten()[trials]
                for key, value in group.items()
                if isinstance(value, Tensor) and value.ndim
            }
            weights = [own[w] for w in parameters]
            block.param_groups.append({**group, **per_trial, "params": weights, "batch_dims": 1})
        return block


def _per_trial(value: Tensor, like: Tensor, batch_dims: int) -> Tensor:
    """View a value per trial, (*trials,), so that it broadcasts against ``like``."""
    return value.reshape(*value.shape, *(1,) * (like.ndim - batch_dims))


def _normalise(
    grads: list[Tensor], batch_dims: int, order: float = 2.0
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Write each trial's gradient over the group as scale g, so that g's norm neither under- nor overflows.

    Returns:
        g for each parameter; its l_order norm, (*trials,); and the scale, (*trials,). A zero gradient gives
        zeros, a tiny norm and a tiny scale.
    """
    info = torch.finfo(grads[0].dtype)
    flat = [g.flatten(batch_dims) if g.ndim > batch_dims else g[..., None] for g in grads]
    norm = _norm(flat, order)
    safe = (norm > info.tiny ** (0.8 / order)) & (norm < info.max ** (0.8 / order))
    if safe.all():
        return grads, norm, torch.ones_like(norm)
    scale = torch.stack([part.abs().amax(-1) for part in flat]).amax(0).clamp_(min=info.tiny)
    scale.masked_fill_(safe, 1.0)  # not one digit of a trial is to depend on the others
    flat = [part / scale[..., None] for part in flat]
    units = [part.reshape(g.shape) for part, g in zip(flat, grads, strict=True)]
    return units, _norm(flat, order).clamp_(min=info.tiny), scale


def _norm(flat: list[Tensor], order: float) -> Tensor:
    norms = [torch.linalg.vector_norm(part, ord=order, dim=-1) for part in flat]
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), ord=order, dim=0)


class NormalizedGD(TrialOptimizer):
    """Normalised gradient descent:  w <- w - lr g / ||g||_2,  for each trial.

    Args:
        params: parameters or groups; the norm runs over a whole group. Put a head and the attention weights
            into separate groups.
        lr: length of every step, > 0.
        batch_dims: how many leading dimensions of each parameter are trials.

    Raises:
        ValueError: lr or batch_dims out of range.

    Source: Nacson et al. 2019; Ji and Telgarsky 2021 (linear models).
    Introduced in lesson 01.
    """

    def __init__(self, params, lr: float, batch_dims: int = 0):
        super().__init__(params, lr, batch_dims)

    def _update(self, parameters, grads, group, loss):
        units, norm, _ = _normalise(grads, group["batch_dims"])
        for w, unit in zip(parameters, units, strict=True):
            w.addcdiv_(unit, _per_trial(norm, w, group["batch_dims"]), value=-group["lr"])


class PolyakGD(TrialOptimizer):
    """Gradient descent with Polyak's step:  w <- w - lr (L - L*) / ||g||_2^2  g,  for each trial.

    Args:
        params, batch_dims: as for NormalizedGD.
        lr: factor of Polyak's step; 1 is the classical choice.
        target: L*, the value the loss tends to, a number or one per trial, (*trials,). If the trial is on its
            way to a worse limit than L*, the steps grow without bound: set ``max_step``.
        max_step: longest step ||w_new - w|| allowed.

    With attention the loss tends to L* > 0, and L - L* drowns in rounding once it falls below 1e-16: in
    float64 the steps end near ||W|| = 120 and 1 - cosine = 3e-3 (medians of 60 trials of W, n=6, T=8, d=10,
    given L* itself). Growing normalised steps, :func:`mini_attn.train.growing`, go on.

    Raises:
        ValueError: lr, max_step or batch_dims out of range; a step without a closure.

    Source: Polyak 1969; for self-attention Vasudeva et al. 2024.
    Introduced in lesson 17.
    """

    scale_free = False

    def __init__(
        self, params, lr: float = 1.0, target=0.0, max_step: float = float("inf"), batch_dims: int = 0
    ):
        if not max_step > 0:
            raise ValueError(f"max_step = {max_step}; expected a positive length")
        super().__init__(params, lr, batch_dims, target=target, max_step=max_step)

    def step(self, closure=None):
        """Take one step; the closure is needed, and returns the loss of each trial."""
        if closure is None:
            raise ValueError(
                "PolyakGD reads the loss: call step(closure), the closure returning the loss per trial"
            )
        return super().step(closure)

    def _update(self, parameters, grads, group, loss):
        units, norm, scale = _normalise(grads, group["batch_dims"])
        target = torch.as_tensor(group["target"], dtype=norm.dtype, device=norm.device)
        excess = (torch.as_tensor(loss) - target).clamp(min=0.0)
        length = (group["lr"] * excess / norm / scale).clamp(max=group["max_step"])
        length = length.where(norm > torch.finfo(norm.dtype).tiny, 0.0)  # or the gradient is zero
        for w, unit in zip(parameters, units, strict=True):
            w.sub_(_per_trial(length / norm, w, group["batch_dims"]) * unit)


class SignDescent(TrialOptimizer):
    """Steepest descent in the maximum norm:  w <- w - lr sign(g).

    Args:
        params, lr, batch_dims: as for NormalizedGD; every entry moves by lr.

    Source: Gunasekar et al. 2018.
    Introduced in lesson 03.
    """

    def __init__(self, params, lr: float, batch_dims: int = 0):
        super().__init__(params, lr, batch_dims)

    def _update(self, parameters, grads, group, loss):
        for w, g in zip(parameters, grads, strict=True):
            w.sub_(g.sign(), alpha=group["lr"])


class SpectralDescent(TrialOptimizer):
    """Steepest descent in the spectral norm:  W <- W - lr U V^T,  where g = U S V^T is the gradient's SVD.

    Args:
        params: matrices, (*trials, d1, d2).
        lr, batch_dims: as for NormalizedGD; every step has spectral norm lr.

    Singular values below max(d1, d2) eps times the largest count as zero and do not move.

    Source: Fan, Schmidt and Thrampoulidis 2025; Muon approximates U V^T by a polynomial.
    Introduced in lesson 03.
    """

    _least_dims = 2

    def __init__(self, params, lr: float, batch_dims: int = 0):
        super().__init__(params, lr, batch_dims)

    def _update(self, parameters, grads, group, loss):
        for w, g in zip(parameters, _normalise(grads, group["batch_dims"])[0], strict=True):
            lost = ~g.isfinite().all((-2, -1), keepdim=True)  # torch's svd would refuse all trials for one
            U, S, Vh = torch.linalg.svd(g.masked_fill(lost, 0.0), full_matrices=False)
            keep = max(g.shape[-2:]) * torch.finfo(g.dtype).eps * S.amax(-1, keepdim=True) < S
            step = (U * keep.to(U.dtype)[..., None, :]) @ Vh
            w.sub_(step.masked_fill_(lost, torch.nan), alpha=group["lr"])


class MirrorDescent(TrialOptimizer):
    """Normalised mirror descent with the potential psi(w) = (1/p) sum |w_j|^p.

    grad psi(w_new) = grad psi(w) - lr g / ||g||_q,  1/p + 1/q = 1,  where grad psi(w) = sign(w) |w|^(p-1).

    Args:
        params, batch_dims: as for NormalizedGD.
        lr: length of the step in the dual variable grad psi(w), > 0.
        p: exponent of the potential, > 1; p = 2 is NormalizedGD.

    Raises:
        ValueError: p, lr or batch_dims out of range.

    Source: Sun et al. 2022; Julistiono et al. 2024 (l_p-AttGD).
    Introduced in lesson 03; for attention in lesson 15.
    """

    def __init__(self, params, lr: float, p: float, batch_dims: int = 0):
        if not 1 < p < float("inf"):
            raise ValueError(
                f"p = {p}; mirror descent needs a finite p > 1 (p = 1 has no inverse mirror map)"
            )
        super().__init__(params, lr, batch_dims, p=float(p))

    def _update(self, parameters, grads, group, loss):
        p = group["p"]
        units, norm, _ = _normalise(grads, group["batch_dims"], p / (p - 1))
        for w, unit in zip(parameters, units, strict=True):
            dual = w.sign() * w.abs() ** (p - 1)
            dual.addcdiv_(unit, _per_trial(norm, w, group["batch_dims"]), value=-group["lr"])
            w.copy_(dual.sign() * dual.abs() ** (1 / (p - 1)))
