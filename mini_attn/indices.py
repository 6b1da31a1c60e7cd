"""Numbers of tokens, checked, as torch indexes with them."""

import torch
from jaxtyping import Int
from torch import Tensor


def token_numbers(name: str, given, shape: tuple[int, ...], T: int, device) -> Int[Tensor, "..."]:
    """The argument called `name`, a token number for each of `shape`, as int64 on the device.

    Raises:
        ValueError: no dense tensor of this shape, no integers, or a number that is not from 0 to T - 1.
    """
    if not isinstance(given, Tensor) or given.shape != shape or given.layout != torch.strided:
        got = type(given).__name__
        if isinstance(given, Tensor):
            got = f"{given.dtype} of shape {tuple(given.shape)}"
            got += "" if given.layout == torch.strided else f", {given.layout}"
        raise ValueError(
            f"{name} must be a dense tensor of shape {tuple(shape)}, a token number each; got {got}"
        )
    if given.dtype.is_floating_point or given.dtype.is_complex or given.dtype == torch.bool:
        raise ValueError(f"{name} holds token numbers, so integers; got {given.dtype}")
    numbers = given.to(device, torch.int64)  # first: in short types T may not fit
    outside = (numbers < 0) | (numbers >= T)
    if outside.any():
        raise ValueError(
            f"{name} holds {numbers[outside][0].item()}, but the {T} tokens are numbered 0 to {T - 1}"
        )
    return numbers
