"""The environment: made once, repaired when broken, and every failure a sentence that says what to do."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import namedtuple
from pathlib import Path

import pytest

from course import bootstrap

ROOT = Path(__file__).parents[2]
REQUIREMENTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
(DATA,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mini_attn"]["data"]
SETUP = DATA, bootstrap.COMPILE, bootstrap.FIRST  # what follows the course itself: data, and code
Usage = namedtuple("Usage", "free")
Folder = namedtuple("Folder", "path venv commands")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder whose .venv is made of empty files, and the commands that would have been run."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    venv = tmp_path / ".venv"
    monkeypatch.setattr(bootstrap, "ROOT", str(tmp_path))
    monkeypatch.setattr(bootstrap, "VENV", str(venv))
    monkeypatch.setattr(bootstrap, "PYTHON", str(venv / "bin" / "python"))
    monkeypatch.setattr(bootstrap, "STAMP", str(venv / "course-stamp.json"))
    monkeypatch.setattr(bootstrap, "UNFINISHED", str(venv / "course-unfinished"))
    monkeypatch.setattr(bootstrap, "runs", lambda python, modules: os.path.exists(python))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1e12))
    monkeypatch.delenv("TORCH", raising=False)
    commands = []

    def run(command):
        if "venv" in command:
            os.makedirs(venv / "bin")
            Path(bootstrap.PYTHON).touch()
            commands.append("venv")
        else:
            commands.append(command[-1])

    monkeypatch.setattr(bootstrap, "run", run)
    return Folder(tmp_path, venv, commands)


def test_old_pythons_can_read_the_script():
    source = Path(bootstrap.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= sys.stdlib_module_names - {"tomllib"}
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom)]


def test_oldest_python_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">={}.{}".format(*bootstrap.OLDEST)


@pytest.mark.parametrize("found", [[], ["python3.12"]])
def test_too_old_python_is_told_what_to_do(monkeypatch, found):
    monkeypatch.setattr(sys, "version_info", (3, 8, 10))
    monkeypatch.setattr(bootstrap, "runs", lambda python, modules: python in found)
    advice = "add PYTHON=python3.12" if found else "install a newer one"
    with pytest.raises(bootstrap.Problem, match=rf"needs Python 3.11 .* this is Python 3.8 .*{advice}"):
        bootstrap.check_python()


def test_python_without_ensurepip_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(bootstrap.Problem, match="apt install python3-venv"):
        bootstrap.check_python()


def test_first_time_makes_and_installs_then_nothing(project):
    bootstrap.prepare([])
    assert project.commands == ["venv", ".", *SETUP]
    bootstrap.prepare([])
    assert project.commands == ["venv", ".", *SETUP]
    assert not os.path.exists(bootstrap.UNFINISHED)


def test_extras_are_added_once_and_then_cover_both(project):
    bootstrap.prepare([])
    bootstrap.prepare(["test"])
    bootstrap.prepare([])
    bootstrap.prepare(["test"])
    assert project.commands == ["venv", ".", *SETUP, ".[test]", *SETUP]


def test_new_requirement_is_installed_with_the_extras_of_before(project):
    bootstrap.prepare(["test"])
    settings = project.path / "pyproject.toml"
    settings.write_text(settings.read_text().replace("line-length = 110", "line-length = 111"))
    bootstrap.prepare([])
    assert project.commands == ["venv", ".[test]", *SETUP]  # a setting of ruff is no reason to call pip
    settings.write_text(settings.read_text().replace("numpy>=1.26", "numpy>=1.27"))
    bootstrap.prepare([])
    assert project.commands == ["venv", ".[test]", *SETUP, ".[test]", *SETUP]


def test_torch_without_cuda_comes_before_the_rest(project, monkeypatch):
    monkeypatch.setenv("TORCH", "cpu")
    seen, run = [], bootstrap.run
    monkeypatch.setattr(bootstrap, "run", lambda command: (seen.append(command), run(command)))
    bootstrap.prepare([])
    torch = next(line for line in REQUIREMENTS if line.startswith("torch"))
    assert project.commands == ["venv", "uv", torch, ".", *SETUP]
    assert seen[2][1:4] == ["-m", "uv", "pip"]
    assert "--torch-backend=cpu" in seen[2]
    bootstrap.prepare([])
    assert len(project.commands) == 7


def test_another_torch_is_refused(project, monkeypatch):
    monkeypatch.setenv("TORCH", "rocm")
    with pytest.raises(bootstrap.Problem, match="TORCH=rocm is not known: say TORCH=cpu"):
        bootstrap.prepare([])


@pytest.mark.parametrize(
    ("platform", "driver", "said"), [("linux", False, True), ("linux", True, False), ("darwin", False, False)]
)
def test_who_has_no_gpu_is_told_of_the_small_torch(project, monkeypatch, capsys, platform, driver, said):
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: driver if "nvidia" in path else exists(path))
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(bootstrap, "runs", lambda python, modules: exists(python) and modules != "torch")
    bootstrap.prepare([])
    assert ("add TORCH=cpu" in capsys.readouterr().out) is said


@pytest.mark.parametrize("stopped", ["venv", ".", *SETUP])
def test_interrupted_installation_starts_anew(project, monkeypatch, stopped):
    whole = bootstrap.run

    def interrupted(command):
        if stopped in command:
            raise KeyboardInterrupt
        whole(command)

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.prepare([])
    (project.venv / "half").mkdir()
    project.commands.clear()
    bootstrap.prepare([])
    assert project.commands == ["venv", ".", *SETUP]
    assert not (project.venv / "half").exists()


def test_interrupted_update_starts_anew_but_a_failed_one_keeps_what_works(project, monkeypatch):
    bootstrap.prepare([])

    def stop(error):
        def run(command):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(bootstrap, "run", run)
            with pytest.raises(type(error)):
                bootstrap.prepare(["test"])

    stop(bootstrap.Problem("no network"))
    assert bootstrap.ready([])
    stop(KeyboardInterrupt())
    assert not bootstrap.ready([])
    project.commands.clear()
    bootstrap.prepare(["test"])
    assert project.commands == ["venv", ".[test]", *SETUP]


def test_environment_of_another_folder_is_made_anew(project):
    bootstrap.prepare([])
    stamp = json.loads(Path(bootstrap.STAMP).read_text())
    Path(bootstrap.STAMP).write_text(json.dumps({**stamp, "root": "/somewhere/else"}))
    project.commands.clear()
    bootstrap.prepare([])
    assert project.commands == ["venv", ".", *SETUP]


def test_environment_whose_python_has_gone_is_made_anew(project):
    bootstrap.prepare([])
    shutil.rmtree(project.venv / "bin")
    project.commands.clear()
    bootstrap.prepare([])
    assert project.commands == ["venv", ".", *SETUP]


@pytest.mark.parametrize("stamp", ["", "{", "[]", '{"root": 1}', "null"])
def test_environment_without_our_stamp_is_used_not_emptied(project, stamp):
    bootstrap.prepare([])
    Path(bootstrap.STAMP).write_text(stamp)
    (project.venv / "theirs").touch()
    project.commands.clear()
    bootstrap.prepare([])
    assert project.commands == [".", *SETUP]
    assert (project.venv / "theirs").exists()


def test_linked_environment_stays_on_its_disk(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("large-disk")
    (elsewhere / "half").mkdir()
    project.venv.symlink_to(elsewhere)
    bootstrap.prepare([])
    assert project.venv.is_symlink()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["bin", "course-stamp.json"]


def test_small_disk_is_told_before_anything_is_made(project, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(4e8))
    with pytest.raises(bootstrap.Problem, match=r"about 3 GB .* only 0.4 GB"):
        bootstrap.prepare([])
    assert not project.venv.exists()


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied", "/x"), bootstrap.Problem("Say this.")]
)
def test_main_prints_one_line_and_fails(monkeypatch, capsys, error):
    def prepare(extras):
        raise error

    monkeypatch.setattr(bootstrap, "prepare", prepare)
    assert bootstrap.main(["learn"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_main_becomes_the_command_in_the_environment(monkeypatch):
    became = []
    monkeypatch.setattr(bootstrap, "prepare", became.append)
    monkeypatch.setattr(os, "chdir", became.append)
    monkeypatch.setattr(os, "execv", lambda path, command: became.append(command))
    bootstrap.main(["test"])
    bootstrap.main(["learn", "--port=8899"])
    assert became[:3] == [["test"], bootstrap.ROOT, [bootstrap.PYTHON, os.path.join("tests", "run.py")]]
    assert became[3:] == [[], bootstrap.ROOT, [bootstrap.PYTHON, "-m", "course", "start", "--port=8899"]]


def test_unknown_command_is_told_the_known_ones(capsys):
    assert bootstrap.main(["lern"]) == 2
    assert " | ".join(bootstrap.COMMANDS) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "the disk is full"),
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<urllib3>:"
            " Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')'\n"
            "ERROR: No matching distribution found for setuptools>=77",
            "the network did not answer",
        ),
        ("ERROR: No matching distribution found for torch<2.14,>=2.6", "try another version"),
        ("ERROR: [Errno 13] Permission denied: '/x'", "could not be written"),
        ("ERROR: something new", "see its last lines"),
    ],
)
def test_failure_of_pip_becomes_one_sentence(output, advice):
    sentence = bootstrap.explain(output)
    assert advice in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


def test_failing_command_leaves_its_words_in_a_log(project, monkeypatch):
    monkeypatch.undo()
    project.venv.mkdir()
    monkeypatch.setattr(bootstrap, "VENV", str(project.venv))
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    code = "import os; print('Network is unreachable', os.environ.get('PIP_TARGET')); raise SystemExit(3)"
    with pytest.raises(bootstrap.Problem, match="the network did not answer"):
        bootstrap.run([sys.executable, "-c", code])
    assert (project.venv / "install.log").read_text() == "Network is unreachable None\n"


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize("script", [None, "exit 127", "echo Python 2.7.18", "exec /bin/cat"])
def test_make_with_no_working_python_says_so(tmp_path, script):
    if script is None:
        python = tmp_path / "missing"
    else:
        python = tmp_path / "python3"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", ROOT, "learn", f"PYTHON={python}"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("The course needs Python 3.11 or newer")
    assert lines[0].endswith("as in: make learn PYTHON=/path/to/python3.12")
    assert all(line.startswith("make") for line in lines[1:])
