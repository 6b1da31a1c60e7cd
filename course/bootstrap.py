"""Prepare .venv and run one of the course's commands in it: learn, test, build, grade and so on.

Standard library only, and in syntax that Python 3.6 can read: an old Python must get far enough to say that
it is too old.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, *(["Scripts", "python.exe"] if os.name == "nt" else ["bin", "python"]))
STAMP = os.path.join(VENV, "course-stamp.json")  # written last: what a finished environment was made from
UNFINISHED = os.path.join(VENV, "course-unfinished")  # stays behind when an installation is killed
OLDEST = (3, 11)
NEEDED = 2.5e9  # bytes: a finished environment and pip's temporary files, with the CPU build of torch
COMMANDS = {  # name: (extras of pyproject.toml, what the environment's Python runs)
    "learn": ([], ["-m", "course", "start"]),
    "test": (["test"], [os.path.join("tests", "run.py")]),
    "grade": (["grade"], ["-m", "course", "grade"]),
    "release": (["grade"], ["-m", "course", "release"]),
    "build": ([], ["-m", "course", "build"]),
    "bench": (["test"], [os.path.join("tests", "benchmarks", "bench.py")]),
    "ruff": (["test"], ["-m", "ruff"]),
}
# What pip does on one core, and for the packages' own tests as well; some files are for other Pythons.
COMPILE = """import compileall, re, sysconfig
for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
    compileall.compile_dir(folder, quiet=2, workers=0, rx=re.compile(r"[/\\\\]tests?[/\\\\]"))"""
# Compiled loops and the list of fonts: made now, not when a lesson first trains or draws.
FIRST = "import mini_attn.kernels, matplotlib.font_manager"

# What pip says, and what a person should do about it. The first match counts.
ADVICE = [
    (
        r"No space left on device|Errno 28|not enough space on the disk",
        "the disk is full: free about 3 GB (8 GB where pip chooses torch with CUDA: then say TORCH=cpu), or"
        " point TMPDIR to a larger disk",
    ),
    (
        r"NewConnectionError|NameResolution|name resolution|dns error|Failed to fetch|getaddrinfo"
        r"|Connect(ion)?Timeout|ReadTimeout"
        r"|timed out|Connection (refused|reset|aborted|broken)|Network is unreachable|ProxyError|SSLError",
        "the network did not answer: check the connection (or the proxy)",
    ),
    (
        r"No matching distribution|Could not find a version|requires a different Python",
        "pip found no package that fits Python {python}: try another version, as in"
        " `make learn PYTHON=python3.12`",
    ),
    (r"Permission denied|Errno 13|Access is denied", "files could not be written: check who owns {root}"),
]


class Problem(Exception):
    """Something the reader can put right; its text is one sentence that says how."""


def say(text):
    print(text, flush=True)


def check_python():
    """Raise Problem unless this Python can make the environment."""
    if sys.version_info < OLDEST:
        newer = [name for name in ("python3.13", "python3.12", "python3.11") if runs(name, "venv, ensurepip")]
        advice = (
            f"this machine has a newer one, so add PYTHON={newer[0]} to the make command"
            if newer
            else "install a newer one from https://www.python.org/downloads/ or your package manager"
        )
        raise Problem(
            "The course needs Python {}.{} or newer, and this is Python {}.{} ({}); {}.".format(
                *OLDEST, *sys.version_info[:2], sys.executable, advice
            )
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise Problem(
            f"This Python ({sys.executable}) cannot make virtual environments: on Debian or Ubuntu run"
            " `apt install python3-venv` as root, elsewhere install Python from"
            " https://www.python.org/downloads/, then run the same command again."
        ) from None


def runs(python, modules):
    """Say whether this command starts a Python that is new enough and has these modules."""
    code = f"import sys, {modules}; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.call([python, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) == 0
    except OSError:
        return False


def pyproject():
    import tomllib  # Python 3.11

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)


def requirements():
    """Return a fingerprint of what pip would act on; other settings in pyproject.toml do not matter."""
    settings = pyproject()
    tools = settings["tool"]
    relevant = [settings["project"], settings["build-system"], tools["setuptools"], tools["mini_attn"]]
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()


def read_stamp():
    try:
        with open(STAMP, encoding="utf-8") as file:
            stamp = json.load(file)
        return {"root": stamp["root"], "requirements": stamp["requirements"], "extras": set(stamp["extras"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path, text):
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


def ready(extras):
    """Say whether .venv is whole, belongs to this folder and holds what pyproject.toml asks for."""
    stamp = read_stamp()
    return (
        stamp is not None
        and stamp["root"] == ROOT
        and stamp["requirements"] == requirements()
        and stamp["extras"] >= set(extras)
        and not os.path.exists(UNFINISHED)
        and runs(PYTHON, "pip")
    )


@contextlib.contextmanager
def one_at_a_time():
    """Let only one command at a time change .venv; the lock goes when its process does, however that ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another command is preparing .venv; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            pass
        yield


def prepare(extras):
    """Make .venv ready: by pip where pyproject.toml asks for more, from nothing where it is broken."""
    if ready(extras):
        return
    with one_at_a_time():
        if ready(extras):
            return
        stamp = read_stamp()
        moved = stamp is not None and stamp["root"] != ROOT
        if moved or os.path.exists(UNFINISHED) or not runs(PYTHON, "pip"):
            make_venv()
            stamp = None
        if stamp is not None:
            extras = sorted(stamp["extras"].union(extras))
            write(UNFINISHED, "")
            try:
                install(extras)
            except Problem:  # pip puts back what it replaced, so the old environment is still whole
                os.remove(UNFINISHED)
                raise
        else:
            install(extras)
        stamp = {"root": ROOT, "requirements": requirements(), "extras": extras}
        write(STAMP, json.dumps(stamp))
        if os.path.exists(UNFINISHED):
            os.remove(UNFINISHED)


def make_venv():
    """Make an empty .venv, also in place of a broken one. The folder itself stays: it may be a link."""
    check_python()
    free = shutil.disk_usage(ROOT).free
    if os.path.isdir(VENV):
        say("Making .venv anew: the old one is incomplete, or its Python or folder has gone.")
        for entry in os.scandir(VENV):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)
        free = shutil.disk_usage(VENV).free
    if free < NEEDED:
        raise Problem(
            "The course needs about 3 GB of disk space (8 GB where pip chooses torch with CUDA: then"
            " say TORCH=cpu), and only"
            f" {free / 1e9:.1f} GB are free at {ROOT}: make room, then run the same command again."
        )
    os.makedirs(VENV, exist_ok=True)
    write(UNFINISHED, "")
    run([sys.executable, "-m", "venv", VENV])


def install(extras):
    """Install the project, editable, with what it needs; quick where most is there."""
    say("Installing what the course needs into .venv (once; about a minute on a fast connection) ...")
    start = time.monotonic()
    wanted = os.environ.get("TORCH", "")
    if wanted == "cpu":
        install_torch_without_cuda()
    elif wanted:
        raise Problem(
            f"TORCH={wanted} is not known: say TORCH=cpu for a torch without CUDA, or nothing at all."
        )
    elif brings_cuda_for_nothing():
        say("No NVIDIA driver is to be seen here, and pip's usual torch may bring CUDA along, 8 GB in all.")
        say("Stop with Ctrl-C and add TORCH=cpu to the command for one of 3 GB.")
    target = "." + ("[{}]".format(",".join(extras)) if extras else "")
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile"]
    run([*pip, "--editable", target])
    run([*pip, "--no-deps", *pyproject()["tool"]["mini_attn"]["data"]])
    run([PYTHON, "-c", COMPILE])
    run([PYTHON, "-c", FIRST])
    say(f"Installed in {time.monotonic() - start:.0f} s.")


def brings_cuda_for_nothing():
    """Say whether pip may choose a torch with CUDA on a machine that has no use for it."""
    driver = any(
        map(os.path.exists, ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"))
    )  # dxg: Windows' Linux
    return sys.platform == "linux" and not driver and not runs(PYTHON, "torch")


def install_torch_without_cuda():
    """Install the CPU build of torch: uv knows where it lies, and pip then adds what torch needs."""
    (torch,) = [line for line in pyproject()["project"]["dependencies"] if re.match(r"torch\b", line)]
    run([PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "uv"])
    run([PYTHON, "-m", "uv", "pip", "install", "--python", PYTHON, "--torch-backend=cpu", "--no-deps", torch])


def run(command):
    """Run pip or venv, show what it is busy with, and turn its failure into a sentence."""
    # Settings meant for other Pythons would send packages elsewhere.
    unwanted = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    output = []
    width = shutil.get_terminal_size().columns - 1
    with process:
        for line in process.stdout:
            output.append(line)
            if sys.stdout.isatty() and re.match(r"\s*(Collecting|Downloading|Installing) ", line):
                sys.stdout.write("\r\033[K" + line.strip()[:width] + "\r")
                sys.stdout.flush()
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K")
    if process.returncode:
        text = "".join(output)
        with contextlib.suppress(OSError):
            write(os.path.join(VENV, "install.log"), text)
        raise Problem(explain(text))


def explain(output):
    """Return one sentence for what pip or venv printed before it failed."""
    python = ".".join(str(number) for number in sys.version_info[:2])
    advice = "see its last lines in .venv/install.log"
    for pattern, sentence in ADVICE:
        if re.search(pattern, output):
            advice = sentence.format(python=python, root=ROOT)
            break
    return f"The installation stopped: {advice}; then run the same command again (log: .venv/install.log)."


def main(arguments):
    if not arguments or arguments[0] not in COMMANDS:
        say("Usage: python3 course/bootstrap.py {} [arguments]".format(" | ".join(COMMANDS)))
        return 2
    extras, command = COMMANDS[arguments[0]]
    try:
        check_python()
        prepare(extras)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"The installation stopped at {error.filename} ({error.strerror or error}): check that {ROOT} can"
            " be written to and that its disk is not full, then run the same command again.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here next time.", file=sys.stderr)
        return 130
    command = [PYTHON, *command, *arguments[1:]]
    os.chdir(ROOT)
    if os.name == "nt":  # there execv returns to the prompt while the command still runs
        return subprocess.call(command)
    os.execv(PYTHON, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
