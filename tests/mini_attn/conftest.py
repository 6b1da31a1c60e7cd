"""The fixture `device`: a CUDA device where there is one, and everywhere a second device made of nothing.

The second finds tensors left behind on the CPU without a GPU. A tensor on it says that it is elsewhere, keeps
its numbers on the CPU, and refuses to meet a CPU tensor, as a CUDA tensor would (0-dimensional tensors and
indices from the CPU may meet either). What it cannot show: CUDA's kernels, their rounding, their speed.
"""

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")  # the one name of a device that torch knows and never touches
_MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)  # these ask the device before any mode is asked
_MOVES = (torch.ops.aten._to_copy, torch.ops.aten.copy_)
_INDEXING = (torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_)


class _Elsewhere(Tensor):
    @staticmethod
    def __new__(cls, here: Tensor):
        return Tensor._make_wrapper_subclass(
            cls, here.shape, here.stride(), here.storage_offset(), dtype=here.dtype, device=DEVICE
        )

    def __init__(self, here: Tensor):
        self.here = here

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        return _run(op, args, kwargs or {})

    is_meta = False  # it holds numbers, unlike torch's meta tensors

    def tolist(self):
        return self.here.tolist()

    def numpy(self, *_, **__):
        raise TypeError("this tensor is elsewhere; use .cpu() first")

    __array__ = numpy

    def __reduce_ex__(self, protocol):
        return _Elsewhere, (self.here,)

    def __repr__(self):
        return f"elsewhere({self.here})"


def _is_there(device) -> bool:
    return device == DEVICE or device == DEVICE.type


def _run(op, args, kwargs):
    """Run one operation on the CPU tensors inside; its result is elsewhere if its arguments were."""
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    there = [x for x in tensors if isinstance(x, _Elsewhere)]
    if op.overloadpacket not in _MOVES:
        must_match = [args[0], *args[2:]] if op.overloadpacket in _INDEXING and there else (args, kwargs)
        operands = [x for x in tree_leaves(must_match) if isinstance(x, Tensor) and x.ndim]
        here = [tuple(x.shape) for x in operands if not isinstance(x, _Elsewhere)]
        if there and here:
            raise RuntimeError(
                f"{op}: expected all tensors on one device; {here} are on the CPU, "
                f"{[tuple(x.shape) for x in there]} elsewhere"
            )
    result = op(
        *tree_map(_inside, args),
        **{name: "cpu" if _is_there(x) else tree_map(_inside, x) for name, x in kwargs.items()},
    )
    written = [
        value
        for value, argument in zip(args, op._schema.arguments, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if written and len(op._schema.returns) == 1:  # in place
        return written[0]
    if op._schema.is_mutable and isinstance(kwargs.get("out"), Tensor):
        return kwargs["out"]
    stays = _is_there(kwargs["device"]) if kwargs.get("device") is not None else bool(there)
    return tree_map(_outside, result) if stays else result


def _inside(x):
    return x.here if isinstance(x, _Elsewhere) else x


def _outside(x):
    return _Elsewhere(x) if isinstance(x, Tensor) else x


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        return _run(op, args, kwargs or {})


class _Makers(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in _MAKERS and _is_there(kwargs.get("device")):
            return function(*args, **{**kwargs, "device": None}).to(DEVICE)
        return function(*args, **kwargs)


@pytest.fixture(params=["elsewhere", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    """A device other than the CPU."""
    if request.param == "cuda":
        yield torch.device("cuda")
        return
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # it does not know such tensors
    with torch.serialization.safe_globals([_Elsewhere]), _Makers(), _Operations():
        yield DEVICE
