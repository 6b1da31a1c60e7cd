"""JupyterLab opens on the lessons, in their own settings."""

import json
import os
import sys
from pathlib import Path

import pytest
from ipykernel import kernelspec
from jupyter_client.kernelspec import KernelSpecManager

from course.make.notebook import METADATA
from course.start import handing_out, jupyterlab, kernel, progress

NAME = "01_lesson.ipynb"


def test_command_ends_with_the_learners_options_and_asks_nobody_outside(tmp_path):
    command = jupyterlab.command(tmp_path / "my-lessons", "01 a&b.ipynb", ["--no-browser", "--port=8899"])
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert command[-2:] == ["--no-browser", "--port=8899"]
    assert "--LabApp.default_url=/lab/tree/my-lessons/01%20a%26b.ipynb" in command
    assert f"--ServerApp.root_dir={tmp_path}" in command  # ../mini_attn is inside
    assert f"--ServerApp.preferred_dir={tmp_path / 'my-lessons'}" in command
    assert "--LabApp.extension_manager=readonly" in command


def test_environment_adds_to_what_is_set(monkeypatch):
    monkeypatch.setenv("PATH", "/theirs")
    monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)
    environment = jupyterlab.environment()
    assert environment["PATH"] == os.pathsep.join([os.path.dirname(sys.executable), "/theirs"])
    settings = Path(environment["JUPYTER_CONFIG_PATH"], "labconfig")
    assert "announcements" in (settings / "page_config.json").read_text()
    json.loads((settings / "default_setting_overrides.json").read_text())


def test_the_kernel_that_our_settings_bring_is_the_usual_one_with_our_extension(monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", jupyterlab.environment()["JUPYTER_PATH"])
    found = KernelSpecManager().get_kernel_spec("python3")
    assert Path(found.resource_dir).is_relative_to(jupyterlab.SETTINGS)
    usual = kernelspec.get_kernel_dict()
    assert found.display_name == usual["display_name"] == METADATA["kernelspec"]["display_name"]
    assert found.argv[-1] == f"--IPKernelApp.extra_extensions=['{kernel.__name__}']"


def test_jupyterlab_goes_where_the_learner_left_off(tmp_path):
    handing_out.hand_out(handing_out.LESSONS, tmp_path)
    name, said = jupyterlab.where_to(tmp_path)
    assert name == "00_start_here.ipynb"
    assert said == "Opening 00_start_here.ipynb."
    progress.remember("03.1", "solved", tmp_path)
    name, said = jupyterlab.where_to(tmp_path)
    assert name.startswith("03_")
    assert said.startswith("Opening lesson 03, where you left off: next is exercise 03.2 ")
    (tmp_path / name).unlink()  # put away by the learner
    assert jupyterlab.where_to(tmp_path)[0] == "00_start_here.ipynb"


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
