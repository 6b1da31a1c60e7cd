"""The walls around a student's code: the bubblewrap command, and whether it works on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from course.grade import calls

INSIDE = "/grading"  # where the runner, the sealed library and the fonts stand in the sandbox
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/fonts",
)
PROC = (
    *("/proc/keys", "/proc/key-users"),  # what they say is the grader's business
    *("/proc/meminfo", "/proc/stat", "/proc/vmstat", "/proc/zoneinfo"),  # counters that one sandbox can move
)  # and another read; Python, numpy and torch do without
ZEROS = "/dev/zero"  # a mapping of it is memory that nobody can count (see `calls.py`)
WRITABLE = ("/tmp", "/dev/shm")  # all that a student's code can write to: in memory, of a limited size
# Who is started so ends first where the machine has no memory left, not the grader; what root says, stays.
# And no crash starts a program of the machine's: one that collects cores does so at a limit of 0, not at 1.
BEFORE = "{ echo 1000 > /proc/self/oom_score_adj; prlimit --pid $$ --core=1:1; } 2> /dev/null; "
STARTED_SO = ("/bin/sh", "-c", f'{BEFORE}exec "$@"', "sh")
UNSAFE = "(--unsafe grades without any protection.)"


class GraderError(RuntimeError):
    """The grader failed, not the student: nobody's marks may depend on it."""


class SandboxMissing(GraderError):
    """There is no sandbox on this machine; the message says what to install."""


class NotStarted(GraderError):
    """A sandbox ended before it said a word: neighbours may have had the processes that it needs."""


def require() -> None:
    """Make sure that the sandbox works here.

    Raises:
        SandboxMissing: it does not; says what to install or change.
    """
    if shutil.which("bwrap") is None:
        raise SandboxMissing(
            "Grading runs strangers' code and needs bubblewrap, which is not installed: on Debian or Ubuntu "
            "run `apt install bubblewrap`, on Fedora `dnf install bubblewrap`; on macOS and Windows grade in "
            f"a Linux machine or container. {UNSAFE}"
        )
    if not calls.supported():
        raise SandboxMissing(f"Grading knows no list of system calls for a {platform.machine()}. {UNSAFE}")
    try:
        probe = subprocess.run(
            [*_base(), "/usr/bin/true"], capture_output=True, text=True, timeout=30, check=False
        )
    except subprocess.TimeoutExpired:
        raise SandboxMissing(
            "bubblewrap is installed but made no sandbox within 30 seconds: the machine may be too busy, "
            f"or the shell may ignore the signal SIGCHLD: start the grader from another. {UNSAFE}"
        ) from None
    if probe.returncode:
        raise SandboxMissing(
            f"bubblewrap is installed but cannot make a sandbox here ({probe.stderr.strip()}): allow "
            "unprivileged user namespaces (`sysctl kernel.unprivileged_userns_clone=1`, or an AppArmor "
            f"profile for bwrap), or run as root. {UNSAFE}"
        )


def command(folder: str, disk_bytes: int, filter_fd: int) -> list[str]:
    """The bubblewrap command: namespaces of its own, a read-only system, an empty home, no network.

    Start it with the environment that is to be seen inside: bubblewrap itself stays in there as process 1.

    Args:
        folder: what stands at `INSIDE`, read-only.
        disk_bytes: size of /tmp, and of shared memory.
        filter_fd: where bubblewrap reads the filter of system calls (`calls.py`).
    """
    walls = [*STARTED_SO, *_base(), "--seccomp", str(filter_fd)]
    for path in WRITABLE:
        walls += ["--size", str(disk_bytes), "--perms", "1777", "--tmpfs", path]
    for path in dict.fromkeys((os.path.realpath(sys.base_prefix), sys.base_prefix, sys.prefix)):
        if not path.startswith("/usr"):
            for parent in reversed(Path(path).parents[:-1]):  # else made for root's eyes only
                walls += ["--perms", "0755", "--dir", str(parent)]
            walls += ["--ro-bind", path, path]
    for name in ("course", "mini_attn"):  # where the project was installed by copying
        for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            if os.path.isdir(os.path.join(place, name)):
                walls += ["--tmpfs", os.path.join(place, name), "--remount-ro", os.path.join(place, name)]
    walls += ["--ro-bind", folder, INSIDE, "--chdir", "/tmp"]
    return [*walls, "--remount-ro", "/dev", "--remount-ro", "/"]  # without what is mounted below them


def _base() -> list[str]:
    """Namespaces, no rights, and the system's own programs and libraries."""
    walls = [
        shutil.which("bwrap") or "bwrap",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        *("--hostname", "sandbox"),
        "--unshare-cgroup-try",
    ]
    walls += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if os.geteuid() == 0:  # the runner drops to a user without any rights: limits do not bind root
        walls += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        walls += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    for path in SYSTEM:
        if os.path.islink(path):
            walls += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            walls += ["--ro-bind", path, path]
    walls += ["--proc", "/proc", "--dev", "/dev"]
    for path in PROC:
        if os.path.exists(path):
            walls += ["--ro-bind", "/dev/null", path]
    walls += ["--ro-bind", ZEROS, ZEROS]  # not as a device: nobody can open it
    # process 1 is bubblewrap, as the same user as the code if you are not root: its memory is out of reach
    return [*walls, "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
