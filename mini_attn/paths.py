"""Regularization paths: the best weights of each size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mini_attn import losses
from mini_attn.data import PointData, TokenData
from mini_attn.gradients import closed_form
from mini_attn.models import FactoredAttention

_PATIENCE = 300  # steps without progress before a trial goes back to its best point


@dataclass(frozen=True)
class Path:
    """Constrained minimisers, one a radius and trial, each with a certificate.

    Args:
        radii: R, (radii,).
        values: parameters by name, (radii, *trials, ...), with W = K Q^T beside K and Q; ``path["p"]`` reads
            ``values["p"]``.
        loss: L at the minimisers, (radii, *trials).
        residual: how far from stationary, (radii, *trials): || P(w - R g / ||g||) - w || / R, with P the
            projection on the ball. On the sphere it is about the angle between -g and w, in radians.

    Introduced in lesson 08.
    """

    radii: Tensor
    values: dict[str, Tensor]
    loss: Tensor
    residual: Tensor

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise KeyError(f"{name!r} is not on this path; it has {sorted(self.values)}")
        return self.values[name]


def regularization_path(
    model: nn.Module,
    data: PointData | TokenData,
    radii: Sequence[float] | Float[Tensor, "radii"],
    loss: str | losses.Loss = "logistic",
    tol: float = 1e-6,
    max_steps: int = 2000,
) -> Path:
    """Follow the minimiser of the loss on a growing ball, in every trial at once.

    For each radius R:   argmin L(w)   subject to   ||w|| <= R,
    in the Euclidean norm of p or w, or the Frobenius norm of W. For factors the constraint is
    (||K||_F^2 + ||Q||_F^2) / 2 <= R, which admits exactly the W = K Q^T of nuclear norm <= R and rank <= m.

    Each radius starts from the solution at the radius before, and projects gradient steps of Barzilai and
    Borwein's length on the ball. Attention losses are not convex: what is found is a stationary point, the
    one that continues the minimiser at the smallest radius. To compare several starts, give the model more
    trials. Rank-deficient factors are saddle points, so (K, Q) are shaken a little at each radius. The
    gradient enters by its direction only, so that the radius may be large, and the minimiser is expected on
    the sphere; where one lies inside the ball (labels that no line separates), the residual stays of order 1.

    Args:
        model: LinearClassifier, PromptAttention, CrossAttention or FactoredAttention with a fixed head. It
            starts from its parameters, and is left at the last radius.
        data: as for :func:`mini_attn.train.fit`.
        radii: R, positive and increasing.
        loss: "logistic", "exponential", "linear", or a Loss.
        tol: residual at which a trial has arrived.
        max_steps: gradient steps a radius, at most; ``residual`` tells which trials arrived.

    Raises:
        ValueError: radii that do not increase; a model without a closed-form gradient, or with fewer trials
            than the data.

    Source: Tarzanagh et al. 2023, "Max-Margin Token Selection in Attention Mechanism", on the regularization
    path; steps: Barzilai and Borwein 1988, Birgin, Martinez and Raydan 2000.
    Introduced in lesson 08.
    """
    loss = losses.get(loss)
    radii = torch.as_tensor(radii, dtype=torch.float64).flatten()
    if not len(radii) or not radii.isfinite().all() or radii[0] <= 0 or (radii.diff() <= 0).any():
        raise ValueError(
            f"radii = {radii.tolist()}; expected positive numbers, each larger than the one before"
        )
    trials = model.trials
    if torch.broadcast_shapes(trials, data.trials) != trials:
        raise ValueError(
            f"the data have trials {tuple(data.trials)} and the model {tuple(trials)}; "
            f"give the model trials={tuple(data.trials)}"
        )
    evaluate = closed_form(model, data, loss, len(trials))
    if evaluate is None:
        raise ValueError(
            f"{type(model).__name__} has no closed-form gradient; expected a model of this package, head=None"
        )
    factored = isinstance(model, FactoredAttention)
    parameters = dict(model.named_parameters())
    vector = _Vector(parameters, len(trials))
    generator = torch.Generator().manual_seed(0)
    kept: dict[str, list[Tensor]] = {name: [] for name in ("loss", "residual", *parameters)}
    before = None
    with torch.no_grad():
        for R in radii.tolist():
            radius = math.sqrt(2 * R) if factored else R
            w = vector.read()
            if before is not None:
                w = w * (radius / before)
            if factored:
                shake = torch.randn(w.shape, generator=generator, dtype=torch.float64).to(w)
                w = w + 0.01 * radius / math.sqrt(w.shape[-1]) * shake
            residual = _minimise(vector, evaluate, w, radius, tol, max_steps)
            before = radius
            kept["loss"].append(loss.value(data.y * model(data)).mean(-1))
            kept["residual"].append(residual)
            for name, parameter in parameters.items():
                kept[name].append(parameter.detach().clone())
    stacked = {name: torch.stack(values) for name, values in kept.items()}
    if factored:
        stacked["W"] = stacked["K"] @ stacked["Q"].mT
    return Path(radii, loss=stacked.pop("loss"), residual=stacked.pop("residual"), values=stacked)


class _Vector:
    """A model's parameters as one vector a trial."""

    def __init__(self, parameters: dict[str, nn.Parameter], batch_dims: int):
        self.parameters, self.batch_dims = parameters, batch_dims

    def flat(self, tensors: dict[str, Tensor]) -> Float[Tensor, "*trials D"]:
        return torch.cat([tensors[name].flatten(self.batch_dims) for name in self.parameters], -1)

    def read(self) -> Float[Tensor, "*trials D"]:
        return self.flat({name: w.detach() for name, w in self.parameters.items()})

    def write(self, vector: Float[Tensor, "*trials D"]):
        sizes = [w.shape[self.batch_dims :].numel() for w in self.parameters.values()]
        for w, part in zip(self.parameters.values(), vector.split(sizes, -1), strict=True):
            w.copy_(part.reshape(w.shape))


def _minimise(vector, evaluate, w: Tensor, radius: float, tol: float, max_steps: int) -> Tensor:
    """Projected Barzilai-Borwein steps from w; the best points go to the model, their residuals back."""
    tiny = torch.finfo(w.dtype).tiny

    def project(w: Tensor) -> Tensor:
        return w * (radius / w.norm(dim=-1, keepdim=True).clamp(min=tiny)).clamp(max=1.0)

    def gradient(w: Tensor) -> Tensor:
        """g / ||g||."""
        vector.write(w)
        g = vector.flat(evaluate()[1])
        g = g / g.abs().amax(-1, keepdim=True).clamp(min=tiny)
        return g / g.norm(dim=-1, keepdim=True).clamp(min=tiny)

    w = project(w)
    g = gradient(w)
    first = min(0.1, 1 / radius)
    length = torch.full_like(w[..., :1], first)  # of steps, in radii
    best, arrived, waited = w, torch.full_like(w[..., :1], math.inf), torch.zeros_like(w[..., :1])
    for step in range(max_steps + 1):
        residual = (project(w - radius * g) - w).norm(dim=-1, keepdim=True) / radius
        better = residual < arrived
        best, arrived = torch.where(better, w, best), torch.where(better, residual, arrived)
        if step == max_steps or (arrived <= tol).all():
            break
        waited = torch.where(better, 0.0, waited + 1)
        lost = waited >= _PATIENCE
        if lost.any():  # back to the best point, with short steps
            w, length = torch.where(lost, best, w), torch.where(lost, 0.1 * first, length)
            g, waited = gradient(w), waited.masked_fill(lost, 0.0)
        ahead = project(w - length * radius * g)
        g_ahead = gradient(ahead)
        s, y = (ahead - w) / radius, g_ahead - g
        sy, ss, yy = ((a * b).sum(-1, keepdim=True) for a, b in ((s, y), (s, s), (y, y)))
        proposed = ss / sy.abs() if step % 2 else sy.abs() / yy  # the long and the short step in turn
        length = torch.where(proposed.isfinite() & (proposed > 0), proposed, length).clamp(1e-12, 1.0)
        w, g = ahead, g_ahead
    vector.write(best)
    return arrived.squeeze(-1)
