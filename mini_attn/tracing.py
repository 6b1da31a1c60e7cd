"""What a path holds, and how the weights of a model are moved along it, in blocks of trials."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from mini_attn import losses
from mini_attn.balls import balanced, into_ball, into_nuclear_ball, minimise
from mini_attn.data import PointData, TokenData
from mini_attn.gradients import Evaluation, closed_form
from mini_attn.models import CrossAttention, FactoredAttention, joint_trials, trial_blocks, trials_apart
from mini_attn.optim import _normalise
from mini_attn.threads import each, one_thread, threads_for


@dataclass(frozen=True)
class Path:
    """Constrained or penalised minimisers, one a radius (or ridge) and trial, each with a certificate.

    Args:
        radii: R, (radii,). On a ridge path the norms of the minimisers, (ridges, *trials).
        values: parameters by name, (radii, *trials, ...), with W = K Q^T beside K and Q; ``path["p"]`` reads
            ``values["p"]``.
        loss: L at the minimisers, (radii, *trials).
        residual: how far from stationary, (radii, *trials): || P(w - R g / ||g||) - w || / R, with P the
            projection on the ball, of W where K and Q are trained. On a sphere it is about the angle between
            -g and w, in radians. inf where the logits overflowed, and w is no more than the start. On a ridge
            path, see :func:`ridge_path`.
        ridges: lambda, (ridges,), on a ridge path; else None.

    Introduced in lesson 08; ``ridges`` in lesson 11.
    """

    radii: Tensor
    values: dict[str, Tensor]
    loss: Tensor
    residual: Tensor
    ridges: Tensor | None = None

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise KeyError(f"{name!r} is not on this path; it has {sorted(self.values)}")
        return self.values[name]


def in_blocks(follow: Callable, model: nn.Module, data: PointData | TokenData) -> Path:
    """follow(model, data), or of blocks of trials, on threads of their own, and the paths joined."""
    cut = trial_blocks(model, data)
    with torch.no_grad():
        if len(cut) == 1:
            with threads_for(data):
                return follow(model, data)
        with one_thread() as threads:
            paths = each(
                lambda piece: follow(model.block(piece), data.block(piece) if data.trials else data),
                cut,
                threads,
            )

    def join(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, 1).unflatten(1, model.trials)

    return Path(
        paths[0].radii if paths[0].ridges is None else join([path.radii for path in paths]),
        {name: join([path[name] for path in paths]) for name in paths[0].values},
        join([path.loss for path in paths]),
        join([path.residual for path in paths]),
        paths[0].ridges,
    )


class Traced:
    """The weights that a path moves, flat in each trial (W for factors), and what it has kept."""

    def __init__(self, model: nn.Module, data: PointData | TokenData, loss: losses.Loss):
        trials = model.trials
        if joint_trials(model, data) != trials:
            raise ValueError(
                f"the data have trials {tuple(data.trials)} and the model {tuple(trials)}; "
                f"give the model trials={tuple(data.trials)}"
            )
        head = getattr(model, "head", None)
        if head is not None and any(True for _ in head.parameters()):
            raise ValueError(
                "a path is followed with a fixed head; expected head=None, or an MLPHead not trainable"
            )
        self.rank = model.K.shape[-1] if isinstance(model, FactoredAttention) else None
        moved = model
        if self.rank is not None:
            W = model.W.detach()
            moved = CrossAttention(W.shape[-1], tuple(trials), init=W, head=head, dtype=W.dtype)
            moved = moved.to(W.device)
        self.evaluate = closed_form(moved, data, loss, len(trials))
        if self.evaluate is None:
            raise ValueError(
                f"{type(model).__name__} has no closed-form gradient; expected a model of this package"
            )
        ((self.name, self.parameter),) = moved.named_parameters()
        self.model, self.moved, self.data, self.loss, self.batch_dims = model, moved, data, loss, len(trials)
        self.project = into_ball if self.rank is None else partial(into_nuclear_ball, self.rank)
        self.kept = {key: [] for key in ("loss", "residual", *dict(model.named_parameters()))}
        if self.rank is not None:
            self.kept["W"] = []

    def start(self, R: float) -> Tensor:
        """The parameter's w / R, shortened where it is far outside of the ball."""
        w = self.parameter.detach().flatten(self.batch_dims)
        return w / w.abs().amax(-1, keepdim=True).clamp(min=R)

    def slope(self, R: float | Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
        """L and g / ||g|| at R w."""
        self.parameter.copy_((R * unit).reshape(self.parameter.shape))
        margins, grads = self.evaluate()
        (g,), norm, _ = _normalise([grads[self.name].reshape(unit.shape)], self.batch_dims)
        return losses.mean(self.loss.value(margins), self.data.present)[..., None], g / norm[..., None]

    def minimise(self, unit: Tensor, R: Tensor, tol: float, max_steps: int) -> tuple[Tensor, Tensor]:
        """The minimisers on the balls of radius R, (*trials, 1), in units of R, and their residuals."""

        def among(places: Tensor) -> Callable:
            data = self.data.block(places) if self.data.trials else self.data
            return partial(Traced(self.moved.block(places), data, self.loss).slope, R.flatten()[places, None])

        apart = among if trials_apart(self.moved, self.data) else None
        return minimise(partial(self.slope, R), self.project, unit, R, tol, max_steps, apart)

    @cached_property
    def evaluate_exactly(self) -> Evaluation:
        """The gradient with its length, which only ridge paths ask for."""
        return closed_form(self.moved, self.data, self.loss)

    def gradient(self, w: Tensor) -> Tensor:
        """The gradient at w with its length."""
        self.parameter.copy_(w.reshape(self.parameter.shape))
        return self.evaluate_exactly()[1][self.name].reshape(w.shape)

    def norm(self, w: Tensor, order: int | str = "nuc") -> Tensor:
        """The norm that bounds w, (*trials, 1): Euclidean, or a norm of the matrix for factors."""
        if self.rank is None:
            return w.norm(dim=-1, keepdim=True)
        lost = ~w.isfinite().all(-1, keepdim=True)
        square = w.masked_fill(lost, 0.0).unflatten(-1, self.parameter.shape[-2:])
        return torch.linalg.matrix_norm(square, order)[..., None].masked_fill(lost, torch.nan)

    def keep(self, w: Tensor, residual: Tensor) -> None:
        """A row of the path: the weights are w, as far as the residual says."""
        self.parameter.copy_(w.reshape(self.parameter.shape))
        if self.rank is not None:
            self.kept["W"].append(self.parameter.detach().clone())
            factors = balanced(self.parameter, self.rank)
            for factor, part in zip((self.model.K, self.model.Q), factors, strict=True):
                factor.copy_(part)
        margins = self.data.y * self.model(self.data)
        self.kept["loss"].append(losses.mean(self.loss.value(margins), self.data.present))
        self.kept["residual"].append(residual)
        for key, trained in self.model.named_parameters():
            self.kept[key].append(trained.detach().clone())

    def path(self, radii: Tensor, ridges: Tensor | None = None) -> Path:
        """All rows, in the order in which they were kept."""
        stacked = {key: torch.stack(values) for key, values in self.kept.items()}
        return Path(radii, stacked, stacked.pop("loss"), stacked.pop("residual"), ridges)
