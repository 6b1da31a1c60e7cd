"""What the results of a sweep depend on, so that a change of it is noticed.

Noticed: the trial function's code (not its comments or layout), the values that it has captured, its
defaults, the module-level values and functions it names, and so on through the reader's own functions and
classes; a module of the reader's own that it names, by its file; the versions of Python, numpy, scipy, torch
and mini_attn, the last by its code.

Not noticed, because nothing that can be read shows it: what the trial finds at run time, in files, in the
environment, or through names put together then (`getattr`, `importlib`); state inside objects that can
neither be looked into nor pickled; other packages; the processor, whose last bits may differ.
"""

import dis
import hashlib
import importlib.metadata
import platform
import sys
import sysconfig
import types
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch

PACKAGE = Path(__file__).resolve().parent.parent


def digest(*parts) -> str:
    """A short hash of what the parts' texts say."""
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@cache
def versions() -> dict[str, str]:
    """What runs here: name -> version. That of mini_attn ends in a hash of its source."""
    files = [p for p in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "sweep" not in p.parents]
    source = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:8]
    try:
        own = importlib.metadata.version("mini_attn")
    except importlib.metadata.PackageNotFoundError:
        own = "0"
    packages = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "torch")}
    return {"python": platform.python_version(), **packages, "mini_attn": f"{own}+{source}"}


def is_own(module: str | None) -> bool:
    """Whether a module is the reader's own: neither installed nor part of Python nor of mini_attn."""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if module == "__main__" or module not in sys.modules:
        return True
    if file is None:
        return False
    file, python = Path(file).resolve(), Path(sysconfig.get_path("stdlib")).resolve()
    installed = {"site-packages", "dist-packages"}.intersection(file.parts)
    return not (installed or file.is_relative_to(python) or file.is_relative_to(PACKAGE))


def fingerprint(trial) -> dict[str, str]:
    """What a trial function is made of: part -> hash."""
    return _Walk().parts(trial)


class _Walk:
    """One look through a function and all it refers to; a second meeting with an object is a reference."""

    def __init__(self):
        self.met = {}

    def parts(self, trial) -> dict[str, str]:
        if isinstance(trial, types.MethodType):
            trial = partial(trial.__func__, trial.__self__)
        if isinstance(trial, partial):
            given = {f"the value given for {name}": self.value(v) for name, v in trial.keywords.items()}
            first = {f"the value given in place {i}": self.value(v) for i, v in enumerate(trial.args)}
            return {**self.parts(trial.func), **first, **given}
        if not isinstance(trial, types.FunctionType):
            return {"the trial": self.value(trial)}
        self._meet(trial)
        refers = {f"the value of {name}": self.value(v) for name, v in references(trial).items()}
        return {"its code": _code(trial.__code__), **refers}

    def value(self, x) -> str:
        if isinstance(x, torch.Tensor):
            x = x.detach().cpu()
            return digest("tensor", x.dtype, tuple(x.shape), hashlib.sha256(_bytes(x)).hexdigest())
        if isinstance(x, np.ndarray) and x.dtype != object:
            data = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()
            return digest("array", x.dtype.str, x.shape, data)
        if x is None or isinstance(x, bool | int | float | complex | str | bytes | np.generic | Path):
            return digest(type(x).__name__, repr(x))
        if isinstance(x, torch.dtype | torch.device | torch.Size | range | slice | types.EllipsisType):
            return digest(repr(x))
        if isinstance(x, types.ModuleType):
            own = is_own(x.__name__) and getattr(x, "__file__", None)
            return digest(x.__name__, Path(x.__file__).read_bytes() if own else "")
        if id(x) in self.met:
            return digest("met before", self.met[id(x)][0])
        self._meet(x)
        return self._compound(x)

    def _meet(self, x):
        self.met[id(x)] = len(self.met), x  # kept, so that no other object gets its id

    def _compound(self, x) -> str:
        if isinstance(x, list | tuple):
            return digest(type(x).__name__, *map(self.value, x))
        if isinstance(x, dict):
            return digest("dict", *(digest(self.value(k), self.value(v)) for k, v in x.items()))
        if isinstance(x, set | frozenset):
            return digest("set", *sorted(map(self.value, x)))
        if isinstance(x, types.CodeType):
            return _code(x)
        name = f"{getattr(x, '__module__', '')}.{getattr(x, '__qualname__', type(x).__qualname__)}"
        if isinstance(x, types.MethodType):
            return digest("method", self.value(x.__self__), self.value(x.__func__))
        if isinstance(x, types.FunctionType | type):
            if not is_own(x.__module__):
                return digest(name)
            if isinstance(x, type):
                return digest("class", *map(self.value, x.__bases__), *self._members(vars(x)))
            return digest("function", _code(x.__code__), *self._members(references(x)))
        if isinstance(x, types.BuiltinFunctionType):
            return digest("built in", name)
        if isinstance(x, partial):
            return digest("partial", self.value(x.func), self.value(x.args), self.value(x.keywords))
        return self._object(x)

    def _members(self, members) -> list[str]:
        """Hashes of a namespace, less what Python itself puts into one."""
        ours = {k: v for k, v in members.items() if not k.startswith("__") or callable(v)}
        return [digest(k, self.value(v)) for k, v in sorted(ours.items())]

    def _object(self, x) -> str:
        kind = self.value(type(x))
        for inner in ("__func__", "fget"):  # static and class methods, properties
            if hasattr(x, inner):
                return digest(kind, self.value(getattr(x, inner)))
        if hasattr(x, "__dict__"):
            return digest(kind, *(digest(k, self.value(v)) for k, v in sorted(vars(x).items())))
        import cloudpickle  # here: few sweeps need it

        try:
            return digest(kind, hashlib.sha256(cloudpickle.dumps(x)).hexdigest())
        except Exception:  # whatever an object may raise when it is asked for its state
            return digest(kind)


def _bytes(x: torch.Tensor) -> bytes:
    return x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""


def references(function: types.FunctionType) -> dict:
    """What a function refers to by name: captured values, defaults, and module-level values."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
    names = set(_names(function.__code__))
    found |= {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    code = function.__code__
    optional = code.co_varnames[: code.co_argcount][-len(function.__defaults__ or ()) or code.co_argcount :]
    found |= zip(optional, function.__defaults__ or (), strict=True)
    return found | (function.__kwdefaults__ or {})


def _names(code: types.CodeType) -> list[str]:
    """The module-level names that a function and the functions inside it look up."""
    own = [step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inner = [name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names(const)]
    return [*own, *inner]


def _code(code: types.CodeType) -> str:
    """What a function does, whatever its name, file, lines and comments."""
    consts = []
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            consts.append(_code(const))
        elif isinstance(const, frozenset):  # its order differs from process to process
            consts.append(repr(sorted(map(repr, const))))
        else:
            consts.append(repr(const))
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return digest(code.co_code.hex(), consts, names, counts, code.co_exceptiontable.hex())
