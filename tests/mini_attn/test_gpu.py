"""What runs on a CUDA device gives what runs on the CPU. Elsewhere these tests skip."""

import pytest
import torch

from mini_attn import data, models, optim, paths, svm, train

pytestmark = pytest.mark.gpu

tokens = data.random_tokens(5, 6, 8, trials=4, seed=2)


def trained(device, make, **options):
    model = make().to(device)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    history = train.fit(model, tokens.to(device), optimizer, 60, progress=False, **options)
    assert all(w.device.type == device for w in model.parameters())
    return model, history


@pytest.mark.parametrize(
    "make",
    [
        lambda: models.PromptAttention(8, trials=4),
        lambda: models.CrossAttention(8, trials=4),
        lambda: models.FactoredAttention(8, 8, trials=4),
    ],
)
def test_training_agrees_with_the_cpu(make):
    (here, h), (there, g) = (trained(device, make) for device in ("cpu", "cuda"))
    for w, w_cuda in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(w_cuda.cpu(), w, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(g["loss"].cpu(), h["loss"], rtol=1e-6, atol=1e-9)


def test_a_run_saved_on_the_gpu_goes_on_where_it_was(tmp_path):
    whole, _ = trained("cuda", lambda: models.CrossAttention(8, trials=4))
    model = models.CrossAttention(8, trials=4).to("cuda")
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens.to("cuda"), optimizer, 30, progress=False).save(tmp_path / "run.pt")
    again, _ = trained(
        "cuda",
        lambda: models.CrossAttention(8, trials=4),
        resume=train.History.load(tmp_path / "run.pt"),
    )
    assert torch.equal(whole.W, again.W)


def test_the_path_agrees_with_the_cpu():
    ends = [
        paths.regularization_path(
            models.CrossAttention(8, trials=4).to(device), tokens.to(device), [1.0, 10.0], tol=1e-9
        )["W"].cpu()
        for device in ("cpu", "cuda")
    ]
    torch.testing.assert_close(*ends, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["fro", "nuc", "spectral", 1.5, 3.0])
def test_solvers_agree_with_the_cpu(norm):
    problem = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    there = tokens.to("cuda")
    here = svm.solve(problem, norm=norm, method="batched")
    cuda = svm.solve(svm.attention_problem(there.X, there.z, there.optimal), norm=norm, method="batched")
    assert cuda.value.device.type == "cuda"
    assert (cuda.gap <= (1e-9 if norm == "fro" else 1e-6)).all()
    torch.testing.assert_close(cuda.objective.cpu(), here.objective, rtol=2e-6, atol=0)
