"""JupyterLab opens on the lessons, in their own settings."""

import os
import sys
from pathlib import Path

import pytest

from course.start import jupyterlab

NAME = "01_lesson.ipynb"


def test_command_ends_with_the_learners_options_and_asks_nobody_outside(tmp_path):
    command = jupyterlab.command(tmp_path, "01 a&b.ipynb", ["--no-browser", "--port=8899"])
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert command[-2:] == ["--no-browser", "--port=8899"]
    assert "--LabApp.default_url=/lab/tree/01%20a%26b.ipynb" in command
    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert "--LabApp.extension_manager=readonly" in command


def test_environment_adds_to_what_is_set(monkeypatch):
    monkeypatch.setenv("PATH", "/theirs")
    monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)
    environment = jupyterlab.environment()
    assert environment["PATH"] == os.pathsep.join([os.path.dirname(sys.executable), "/theirs"])
    disabled = Path(environment["JUPYTER_CONFIG_PATH"], "labconfig", "page_config.json").read_text()
    assert "announcements" in disabled


def test_main_hands_out_and_becomes_jupyterlab(lessons, mine, monkeypatch, capsys):
    became = []
    monkeypatch.setattr(jupyterlab, "LESSONS", lessons)
    monkeypatch.setattr(jupyterlab, "MINE", mine)
    monkeypatch.setattr(os, "execve", lambda *arguments: became.append(arguments))
    jupyterlab.main(["--port=1"])
    ((path, command, environment),) = became
    assert path == sys.executable
    assert command == jupyterlab.command(mine, NAME, ["--port=1"])
    assert environment == jupyterlab.environment()
    assert (mine / NAME).exists()
    assert f"{NAME}: new" in capsys.readouterr().out


@pytest.mark.parametrize("trouble", ["no lessons", "a file in the way"])
def test_main_says_in_one_sentence_what_is_wrong(lessons, mine, monkeypatch, capsys, trouble):
    if trouble == "no lessons":
        for path in lessons.iterdir():
            path.unlink()
    else:
        mine.write_text("")
    monkeypatch.setattr(jupyterlab, "LESSONS", lessons)
    monkeypatch.setattr(jupyterlab, "MINE", mine)
    assert jupyterlab.main([]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "could not be handed out" in error
