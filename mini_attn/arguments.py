"""Arguments, checked: what was given, what was expected, what to do."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

INSTEAD = {  # kinds of tensor that are not dense: how to make one that is
    "nested": "torch.nested.to_padded_tensor({name}, 0), and a mask",
    "quantized": "{name}.dequantize()",
    "meta": "a tensor that holds numbers",
}


def _kind(value: Tensor) -> str | None:
    """Why a tensor is not dense; None if it is: every entry is a number that can be read."""
    if value.is_nested:  # first: it may have no shape
        return "nested"
    if value.layout != torch.strided:
        return str(value.layout)
    return "quantized" if value.is_quantized else "meta" if value.is_meta else None


def describe(value) -> str:
    """What was given, for an error: a tensor's dtype, shape and kind if it is not dense; else the type."""
    if isinstance(value, Tensor):
        kind = _kind(value)
        shape = "" if kind == "nested" else f" of shape {tuple(value.shape)}"
        return f"{value.dtype}{shape}{f', {kind}' if kind else ''}"
    return type(value).__name__


def dense(name: str, value):
    """The value, which need not be a tensor. Raise if it is one of a kind that cannot be computed with."""
    kind = _kind(value) if isinstance(value, Tensor) else None
    if kind is not None:
        instead = INSTEAD.get(kind, "{name}.to_dense()").format(name=name)
        raise ValueError(f"{name} must be dense, got {describe(value)}; use {instead}")
    return value


def real_tensor(name: str, value, ndim: int) -> Tensor:
    """Raise unless the value is a float32 or float64 tensor with `ndim` dimensions or more."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a torch tensor, got {describe(value)}; use torch.as_tensor({name})")
    dense(name, value)
    if value.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} must be float32 or float64, got {value.dtype}; use {name}.double()")
    if value.ndim < ndim:
        raise ValueError(f"{name} must have {ndim} dimensions or more, got shape {tuple(value.shape)}")
    return value


def floating_tensor(name: str, value, ndim: int) -> Float[Tensor, "*trials n T"]:
    """The argument called `name`. Raise unless it is a dense tensor of floating numbers."""
    if not isinstance(dense(name, value), Tensor):
        raise ValueError(f"{name} must be a tensor (*trials, n, T), got {describe(value)}")
    if value.ndim < ndim or not value.is_floating_point():
        raise ValueError(
            f"{name} must hold floating numbers, (*trials, n, T), got {describe(value)}; use {name}.double()"
        )
    return value


def finite_tensor(name: str, value: Tensor) -> None:
    """Raise unless every entry is finite, with the first that is not."""
    fine = value.isfinite()
    if not fine.all():
        where = (~fine).nonzero()[0].tolist()
        raise ValueError(f"{name}{where} is {value[tuple(where)].item()}; every entry must be finite")


def bool_tensor(
    name: str, given, shape: tuple[int, ...] | None, device=None, says: str = ""
) -> Bool[Tensor, "..."]:
    """The argument called `name`. Raise unless it is a bool tensor of this shape, and on the device if given.

    Args:
        says: what True says, for the error.
    """
    if not isinstance(dense(name, given), Tensor) or given.dtype != torch.bool or given.shape != shape:
        want = None if shape is None else tuple(shape)
        raise ValueError(
            f"{name} must be a bool tensor of shape {want}{says and f', {says}'}; got {describe(given)}"
        )
    if device is not None and given.device != device:
        raise ValueError(
            f"{name} is on {given.device}, the rest on {device}; move it: {name}.to({str(device)!r})"
        )
    return given


def token_numbers(
    name: str, given, shape: tuple[int, ...], T: int, device, real: Tensor | None = None
) -> Int[Tensor, "..."]:
    """The argument called `name`, a token number for each of `shape`, as int64 on the device.

    Args:
        real: True where the number counts; it is 0 elsewhere, whatever was given. None: everywhere.

    Raises:
        ValueError: no dense tensor of this shape, no integers, or a number that is not from 0 to T - 1.
    """
    if not isinstance(dense(name, given), Tensor) or given.shape != shape:
        raise ValueError(
            f"{name} must be a dense tensor of shape {tuple(shape)}, a token number each; "
            f"got {describe(given)}"
        )
    if given.dtype.is_floating_point or given.dtype.is_complex or given.dtype == torch.bool:
        raise ValueError(f"{name} holds token numbers, so integers; got {given.dtype}")
    numbers = given.to(device, torch.int64)  # first: in short types T may not fit
    if real is not None:
        numbers = torch.where(real, numbers, 0)
    outside = (numbers < 0) | (numbers >= T)
    if outside.any():
        raise ValueError(
            f"{name} holds {given[tuple(outside.nonzero()[0].tolist())].item()}, but the {T} tokens are "
            f"numbered 0 to {T - 1}"
        )
    return numbers
