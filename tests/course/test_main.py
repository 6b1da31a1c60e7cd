"""`python -m course COMMAND` hands over to the command's module."""

import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from course import __main__ as command_line

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def asked(monkeypatch):
    """Stand-ins for the commands' modules; lists what each was called with."""
    calls = []

    def load(name):
        return types.SimpleNamespace(main=lambda arguments: calls.append((name, arguments)))

    monkeypatch.setattr(importlib, "import_module", load)
    return calls


def test_commands_get_their_arguments(asked):
    assert command_line.main(["build", "01", "--check"]) == 0
    assert command_line.main(["start", "--no-browser", "--port=8899"]) == 0
    assert command_line.main(["build", "-h"]) == 0
    assert asked == [
        ("course.make.build", ["01", "--check"]),
        ("course.start.jupyterlab", ["--no-browser", "--port=8899"]),
        ("course.make.build", ["-h"]),
    ]


def test_exit_status_is_the_commands_own(monkeypatch):
    monkeypatch.setattr(importlib, "import_module", lambda name: types.SimpleNamespace(main=lambda _: 3))
    assert command_line.main(["build"]) == 3


@pytest.mark.parametrize("arguments", [[], ["bake"]])
def test_unknown_commands_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        command_line.main(arguments)
    assert "python -m course" in capsys.readouterr().err


def test_every_command_exists():
    for module, _ in command_line.COMMANDS.values():
        assert callable(importlib.import_module(module).main)


def test_grading_without_its_tools_says_how_to_get_them(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert command_line.main(["grade", "submissions"]) == 1
    assert "grade needs nbgrader and psutil: run `make grade` instead" in capsys.readouterr().err


def test_an_interrupt_before_the_command_is_ready_is_no_traceback(monkeypatch, capsys):
    def load(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", load)
    assert command_line.main(["grade", "submissions"]) == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m course lint | head -0; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "141"
    assert done.stderr == ""


SAYS = """
import sys, types
from course import __main__ as command_line
def main(arguments):
    print("done")
    print("warned", file=sys.stderr)
    return 3
command_line.importlib.import_module = lambda name: types.SimpleNamespace(main=main)
sys.exit(command_line.main(["build"]))
"""


@pytest.mark.parametrize("unbuffered", [[], ["-u"]])
@pytest.mark.parametrize(
    ("streams", "out", "err"),
    [
        ("2>&-", "done\n", ""),
        ("2>/dev/full", "done\n", ""),
        (">&- 2>&- <&-", "", ""),
        (
            ">/dev/full",
            "",
            "warned\nWhat was done is written; the text that says so could not be: "
            "[Errno 28] No space left on device\n",
        ),
        (">/dev/full 2>&1", "", ""),
    ],
)
def test_a_stream_that_is_closed_or_full_stops_nothing(streams, out, err, unbuffered):
    command = f'exec "$@" {streams}'
    program = [sys.executable, *unbuffered, "-c", SAYS]
    done = subprocess.run(["bash", "-c", command, "bash", *program], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (3, out, err)


def test_what_a_streams_encoding_lacks_stops_nothing():
    program = SAYS.replace('"done"', r'"d\xf6ne \ud800"').replace('"warned"', r'"w\xe4rned"')
    command = [sys.executable, "-c", program]
    ascii = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=ascii)
    assert (done.returncode, done.stdout, done.stderr) == (3, "d\\xf6ne \\ud800\n", "w\\xe4rned\n")


@pytest.mark.parametrize("command", ["grade", "release", "progress", "lint", "build"])
def test_commands_do_without_docstrings(command, monkeypatch, capsys):
    """As `python -OO` has it."""
    module = importlib.import_module(command_line.COMMANDS[command][0])
    monkeypatch.setattr(module, "__doc__", None)
    with pytest.raises(SystemExit, match="0"):
        module.main(["-h"])
    assert f"python -m course {command}" in capsys.readouterr().out
