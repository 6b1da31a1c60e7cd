"""The batched and the large solver on a GPU give the CPU's answers."""

import math

import pytest
import torch

from mini_attn import svm

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def problems(device, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(50, 3, 5, 6, generator=generator, dtype=dtype)
    z = torch.randn(50, 3, 6, generator=generator, dtype=dtype)
    selected = torch.randint(5, (50, 3), generator=generator)
    return svm.attention_problem(X.to(device), z.to(device), selected.to(device))


@pytest.mark.parametrize("norm", ["fro", "nuc", "spectral", 1, 1.5, 3, math.inf])
def test_same_answers_as_on_the_cpu(norm):
    here, there = (svm.solve(problems(device), norm=norm, throw=False) for device in ("cpu", "cuda"))
    assert there.value.is_cuda
    assert here.status.tolist() == there.status.tolist()
    torch.testing.assert_close(there.objective.cpu(), here.objective, rtol=3e-6, atol=0)


def test_large_and_float32():
    single = problems("cuda", torch.float32)
    solution = svm.solve(single, method="large", throw=False)
    assert solution.value.dtype == torch.float32
    assert (solution.status != "stopped").all()
