"""`python -m course replicate`: the table, a row of it, the sweeps, and computing them anew."""

import pytest

from course.replicate import command, rows, stored
from course.replicate.rows import Row, mean


@pytest.fixture
def row(one, monkeypatch):
    """A row that reads the sweep: the mean length in two dimensions is sqrt(pi / 2)."""
    found = Row(
        "99.mean", "mirror", "mean length", 1.2533, 5e-5, lambda s: mean(s.length.sel(d=2, scale=1)), "9.1",
        "99.lengths",
    )  # fmt: skip
    monkeypatch.setattr(stored, "every", lambda: [one])
    monkeypatch.setattr(rows, "every", lambda: [found])
    return found


def test_a_sweep_is_listed_computed_and_read_by_its_row(one, row, capsys):
    assert command.main(["--sweeps"]) == 0
    assert "missing" in capsys.readouterr().out
    one.path.write_bytes(b"the old one")
    assert command.main(["--fresh", "99.mean"]) == 0
    assert one.load().length.shape == (3, 2, 30)
    assert [path.name for path in one.path.parent.rglob("*") if path.is_file()] == ["99_lengths.nc"]
    capsys.readouterr()
    assert command.main(["--sweeps"]) == 0
    assert " KB " in capsys.readouterr().out
    assert command.main([]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["row", "paper", "what", "published", "ours", "trials", "seed", "verdict", "in"]
    assert line.split()[:5] == ["99.mean", "mirror", "mean", "length", "1.2533"]
    assert line.split()[-4:] == ["30", "0", "agrees", "9.1"]
    assert command.main(["--row", "99.mean"]) == 0
    said = capsys.readouterr().out
    assert "Optimizing Attention with Mirror Descent" in said
    assert "Stored in 99_lengths.nc, seed 0" in said


def test_a_killed_computation_leaves_the_old_result(one, row, monkeypatch):
    one.path.write_bytes(b"the old one")

    def killed(self, out=None, progress=True):
        raise KeyboardInterrupt

    monkeypatch.setattr(stored.Measured, "compute", killed)
    with pytest.raises(KeyboardInterrupt):
        command.main(["--fresh"])
    assert one.path.read_bytes() == b"the old one"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fresh", "12.nonsense"], "There is no stored sweep '12.nonsense'; there are:"),
        (["--row", "12.nonsense"], "There is no row '12.nonsense'; there are: 06.global"),
        (["--fresh", "06.global"], "Row '06.global' needs no stored sweep"),
    ],
)
def test_an_unknown_name_is_refused_in_words(arguments, said, capsys):
    assert command.main(arguments) == 1
    assert said in capsys.readouterr().err
