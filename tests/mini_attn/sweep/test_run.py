"""What a sweep computes, what it returns, and what it makes of failures."""

import json
import threading

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import xarray as xr

from mini_attn import data, geometry, models, optim, train
from mini_attn.sweep import run, sweep, wilson


def trained(n, T, d, *, trials, seed, device):
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed).to(device)
    model = models.CrossAttention(d, trials=trials).to(device)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps=200, progress=False)
    return {"outcome": geometry.outcome(model.attention(tokens), tokens)}


def test_a_phase_diagram_is_one_call(tmp_path):
    out = tmp_path / "phase.nc"
    result = sweep(trained, {"n": [1, 4], "T": [3, 6], "d": [2, 6]}, trials=30, out=out, progress=False)
    share = (result.outcome == "global").mean("trial")
    assert share.dims == ("n", "T", "d")
    assert share.sel(n=1, T=3, d=6) > 0.9  # one sequence, room enough: the best token wins
    assert share.sel(n=4, T=6, d=2) < 0.3
    low, high = wilson((result.outcome == "global").sum("trial"), 30)
    assert ((low <= share) & (share <= high)).all()
    drawing = share.sel(T=6).plot()
    plt.close("all")
    assert drawing.get_array().shape == (2, 2)
    cell = sweep(trained, {"d": [6], "T": [6], "n": [4]}, trials=30, progress=False)
    assert (cell.outcome.squeeze() == result.outcome.sel(n=4, T=6, d=6)).all()
    assert xr.load_dataset(out).identical(result)


def test_the_result_says_what_it_is_and_how_it_was_made(experiment, options, tmp_path):
    result = sweep(experiment, out=tmp_path / "a.nc", **options)
    assert result["size"].dims == ("n", "p", "trial")
    assert result["size"].shape == (2, 3, 25)
    assert {name: v.dtype for name, v in result.items()} == {
        "size": np.float64,
        "large": bool,
        "word": object,  # as xarray reads strings
        "count": np.int32,
    }
    assert result.p.values.tolist() == [0.5, 1, 2]
    assert (result.word == "large").equals(result.large)
    assert result.attrs["trial"] == "noise"
    assert "def noise(n, p, *, trials, seed):" in result.attrs["source"]
    assert json.loads(result.attrs["made"])["grid"] == options["grid"]
    assert (result.attrs["trials"], result.attrs["seed"], result.attrs["batch"]) == ("25", "3", "10")
    assert f"torch {torch.__version__}" in result.attrs["versions"]
    assert result.attrs["failed"] == "[]"
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]
    assert sweep(experiment, **options).identical(result)
    sweep(experiment, out=tmp_path / "b.nc", **options)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_a_cell_alone_is_the_cell_in_the_grid_and_more_trials_keep_full_batches(experiment, options):
    whole = sweep(experiment, **options)
    one = sweep(experiment, **{**options, "grid": {"p": [2.0], "n": np.array([4])}})
    for name in whole:
        assert (one[name].squeeze().values == whole[name].sel(n=4, p=2).values).all()
    more = sweep(experiment, **{**options, "trials": 40})
    assert more["size"][..., :20].equals(whole["size"][..., :20])
    assert len(np.unique(more["size"].sel(n=4, p=2))) == 40
    other = sweep(experiment, **{**options, "seed": 4})
    assert not np.isin(other["size"], whole["size"]).any()


def test_paired_values_meet_the_same_draws(experiment, options):
    result = sweep(experiment, paired=["p"], **options)
    assert (result["count"].sel(p=1) == result["count"].sel(p=2)).all()
    apart = sweep(experiment, **options)
    assert not (apart["count"].sel(p=1) == apart["count"].sel(p=2)).all()


def test_no_parameters_make_one_cell():
    result = sweep(lambda *, trials, seed: {"x": range(trials)}, {}, trials=7, batch=3, progress=False)
    assert result.x.values.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert result.x.dims == ("trial",)


def test_global_random_numbers_threads_and_dtype_are_the_sweeps_and_then_the_callers():
    def trial(*, trials, seed):
        draws = torch.randn(trials) + torch.from_numpy(np.random.rand(trials)).float()  # noqa: NPY002
        return {"x": draws, "threads": [torch.get_num_threads()] * trials}

    torch.manual_seed(0)
    before = torch.get_rng_state(), torch.get_num_threads()
    one, two = (sweep(trial, {}, trials=6, batch=3, progress=False) for _ in range(2))
    assert one.identical(two)
    assert one.x.dtype == np.float32
    assert len(np.unique(one.x)) == 6
    assert (one.threads == 1).all()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]


def test_sizes_that_differ_between_cells_are_filled_up():
    def trial(n, *, trials, seed):
        x = torch.arange(n).expand(trials, n)
        return {
            "x": x,
            "w": np.where(x > 0, "b", "a"),
            "ok": x > 0,
            "f": x.to(torch.bfloat16),
            "same": x[:, :1],
        }

    result = sweep(trial, {"n": [1, 3]}, trials=2, progress=False)
    assert result.x.dims == ("n", "trial", "x_0")
    np.testing.assert_array_equal(result.x.sel(n=1, trial=1), [0, np.nan, np.nan])
    np.testing.assert_array_equal(result.ok.sel(n=1, trial=1), [0, np.nan, np.nan])
    assert result.x.sel(n=3, trial=0).values.tolist() == [0, 1, 2]
    assert result.w.sel(n=1, trial=0).values.tolist() == ["a", "", ""]
    assert (result.x.dtype, result.ok.dtype, result.f.dtype) == (np.float64, np.float32, np.float32)
    assert result.same.dtype == np.int32


def failing(n, p, *, trials, seed, when):
    if when(n, p):
        raise FloatingPointError("training diverged")
    return {"size": torch.full((trials,), float(n)), "word": ["yes"] * trials, "ok": [True] * trials}


def test_a_batch_that_fails_is_reported_and_the_rest_goes_on(options, tmp_path, capsys):
    broken = tmp_path / "broken"
    broken.touch()

    def trial(n, p, *, trials, seed):
        return failing(
            n, p, trials=trials, seed=seed, when=lambda n, p: broken.exists() and n == 2 and p == 1
        )

    out = tmp_path / "a.nc"
    options["progress"] = True
    with pytest.warns(RuntimeWarning, match=r"3 of 18 batches failed(.|\n)*again") as warned:
        result = sweep(trial, out=out, **options)
    (said,) = (str(w.message) for w in warned)
    assert warned[0].filename == __file__
    failed = json.loads(result.attrs["failed"])
    assert [f["first"] for f in failed] == [0, 10, 20]
    assert failed[0]["call"] in said
    assert failed[0]["call"].startswith("trial(n=2, p=1, trials=10, seed=")
    assert "FloatingPointError: training diverged" in said
    assert capsys.readouterr().err.count("training diverged") == 3  # when they failed
    assert result["size"].isnull().sum() == 25
    assert result["size"].sel(n=2, p=1).isnull().all()
    assert (result.word.sel(n=2, p=1) == "").all()
    assert result.ok.mean("trial").sel(n=4, p=1) == 1
    assert xr.load_dataset(out).identical(result)

    repeated = eval(failed[0]["call"], {"trial": lambda **cell: cell})
    assert repeated["trials"] == 10
    broken.unlink()
    mended = sweep(trial, out=out, **options)
    assert mended["size"].notnull().all()
    assert mended.ok.dtype == bool
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_if_all_fail_the_first_error_is_raised(options):
    options["batch"] = 25
    with pytest.raises(RuntimeError, match=r"(?s)trial\(n=2, p=0.5, .*FloatingPointError.*in failing"):
        sweep(lambda n, p, *, trials, seed: failing(n, p, trials=trials, seed=seed, when=min), **options)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "NoneType; expected a dict"),
        (torch.zeros(5), r"Tensor; expected a dict"),
        ({}, "empty dict"),
        ({"x": torch.zeros(4)}, r"'x' has shape \(4,\).*trials = 5"),
        ({"x": 3.0}, r"'x' has shape \(\)"),
        ({"x": [object()] * 5}, "'x' holds object"),
        ({"x": [{"a": 1}] * 5}, "'x' holds object"),
        ({"x": [None] * 5}, "'x' holds object"),
        ({"x": [[1], [1, 2], [1], [1], [1]]}, "ValueError"),
        ({"x": torch.zeros(5, dtype=torch.complex64)}, "return the parts"),
        ({"x": np.zeros(5, "datetime64[s]")}, "datetime64"),
        ({"x": torch.full((5,), 2**62 + 1)}, "beyond 2\\^53"),
        ({"n": torch.zeros(5)}, "other than trial, n"),
        ({"trial": torch.zeros(5)}, "other than trial, n"),
        ({3: torch.zeros(5)}, "plain name"),
        ({"x": lambda: 1}, "holds object"),
        ({"x": torch.zeros(5, 0)}, "it is empty"),
    ],
)
def test_what_cannot_be_kept_is_named(returned, message):
    with pytest.raises(RuntimeError, match=f"every batch failed(.|\n)*{message}"):
        sweep(lambda n, *, trials, seed: returned, {"n": [1]}, trials=5, progress=False)


def test_what_can_be_kept_is():
    given = {
        "nan": torch.tensor([np.nan, np.inf, -0.0]),
        "graph": torch.zeros(3, requires_grad=True) + 1,
        "half": np.ones(3, np.float16),
        "long": np.ones(3, np.longdouble),
        "byte": np.uint8([0, 255, 3]),
        "large": np.int64([2**40, 1, 2]),
        "words": ["a", "née", ""],
        "objects": np.array(["a", "bc", "d"], dtype=object),
        "blank": ["", "", ""],
        "file": [1, 2, 3],
        "transposed": torch.arange(12.0).view(4, 3).mT,
    }
    result = sweep(lambda *, trials, seed: given, {}, trials=3, progress=False)
    assert result["nan"].values.tobytes() == given["nan"].numpy().tobytes()
    assert result.large.values.tolist() == [2**40, 1, 2]
    assert result.byte.values.tolist() == [0, 255, 3]
    assert result.words.values.tolist() == ["a", "née", ""]
    assert result.objects.values.tolist() == ["a", "bc", "d"]
    assert (result.transposed.values == given["transposed"].numpy()).all()
    assert set(result) == set(given)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"y": [1.0] * 5}, r"returned \['y'\], and the first batch \['x'\]"),
        ({"x": ["word"] * 5}, "'x' holds words, and numbers"),
        ({"x": torch.zeros(5, 2)}, "'x' has 1 dimensions"),
    ],
)
def test_a_batch_unlike_the_first_counts_as_failed(odd, message):
    def trial(n, *, trials, seed):
        return odd if n == 2 else {"x": [1.0] * trials}

    with pytest.warns(RuntimeWarning, match=rf"1 of 3 batches failed(.|\n)*{message}"):
        result = sweep(trial, {"n": [1, 2, 3]}, trials=5, progress=False)
    assert result.x.mean("trial").values.tolist() == pytest.approx([1, np.nan, 1], nan_ok=True)


def test_one_progress_bar_counts_trials(experiment, options, monkeypatch):
    seen = []

    class Bar(run.tqdm):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            seen.append(self)

    monkeypatch.setattr(run, "tqdm", Bar)
    sweep(experiment, **{**options, "progress": True})
    assert [(bar.total, bar.n) for bar in seen] == [(150, 150)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch = 0"),
        ({"batch": 2.5}, "batch = 2.5"),
        ({"memory": -1}, "memory = -1"),
        ({"workers": 0}, "workers = 0"),
        ({"trial": 3}, "expected a function"),
        ({"trial": lambda n, *, trials, seed: {}}, r"called with \(n, p, trials, seed\).*'p'"),
        ({"trial": lambda n, p, q, *, trials, seed: {}}, "'q'"),
        ({"trial": lambda n, p: {}}, "'trials'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(experiment, options, change, message):
    with pytest.raises(ValueError, match=message):
        sweep(**{"trial": experiment, **options, **change})


def test_the_device_is_told_to_who_asks(device):
    def trial(n, *, trials, seed, device):
        return {"x": torch.arange(float(trials), device=device) * n}

    result = sweep(trial, {"n": [1, 2]}, trials=3, device=device, progress=False)
    assert result.x.sel(n=2).values.tolist() == [0, 2, 4]
    assert json.loads(result.attrs["made"])["device"] == device.type


def test_batches_are_sized_by_memory():
    def trial(n, *, trials, seed):
        x = torch.zeros(trials, n, 1000, dtype=torch.float64)
        y = x + 1
        del x
        return {"x": (y + 1).sum((1, 2))}

    call = run.Call(trial, torch.device("cpu"))
    plan = run.design({"n": [1, 8, 100]}, 1000, 0, ())
    megabyte = 2**20
    fits = run.fitting(call, plan, 10 * megabyte, torch.device("cpu"))
    # two tensors of 8,000 n bytes a trial are there at once: 655 trials fit, 81, 6
    assert fits == [512, 64, 4]
    assert run.fitting(call, plan, 2**40, torch.device("cpu")) == [1000] * 3
    assert run.fitting(call, plan, 1, torch.device("cpu")) == [1] * 3


def test_a_resumed_sweep_keeps_the_batches_that_memory_gave_it(tmp_path):
    stop = tmp_path / "stop"
    stop.touch()

    def trial(n, *, trials, seed):
        if n == 2 and trials > 8 and stop.exists():
            raise KeyboardInterrupt
        return {"x": torch.rand(trials, 1000).sum(-1)}

    options = {"grid": {"n": [1, 2]}, "trials": 200, "batch": None, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        sweep(trial, out=tmp_path / "a.nc", memory=400_000, **options)
    stop.unlink()
    result = sweep(trial, out=tmp_path / "a.nc", memory=10**9, **options)
    assert result.attrs["batch"] == "64"
    assert result.identical(sweep(trial, memory=400_000, **options))


def test_a_sweep_works_in_a_thread(experiment, options):
    results = []
    thread = threading.Thread(target=lambda: results.append(sweep(experiment, **options)))
    thread.start()
    thread.join()
    assert results[0].identical(sweep(experiment, **options))
