"""Gradients by automatic differentiation, to compare the closed forms with."""

import torch
from torch import Tensor, nn

from mini_attn import losses
from mini_attn.softmax import softmax


def with_autograd(
    model: nn.Module, problem, loss: losses.Loss = losses.logistic, batch_dims: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """What :func:`mini_attn.gradients.closed_form` evaluates: margins, and gradients by parameter name."""
    model.zero_grad()
    options = {"softmax": lambda h: softmax(h, batch_dims)} if hasattr(model, "attention") else {}
    margins = problem.y * model(problem, **options)
    losses.mean(loss(margins, batch_dims, problem.present), problem.present).sum().backward()
    return margins.detach(), {name: w.grad for name, w in model.named_parameters()}


def directions(grads: dict[str, Tensor]) -> dict[str, Tensor]:
    """Log-scaled gradients are known up to a factor a trial, the head's up to one of its own: take it out."""
    sizes = {name: g.abs().flatten(1).amax(1) for name, g in grads.items()}
    largest = torch.stack([size for name, size in sizes.items() if not name.startswith("head")]).amax(0)
    sizes = {name: size if name.startswith("head") else largest for name, size in sizes.items()}
    return {name: g / sizes[name].reshape(-1, *(1,) * (g.ndim - 1)) for name, g in grads.items()}
