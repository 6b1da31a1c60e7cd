"""What is counted of processes that use memory in unusual ways."""

import subprocess
import sys

import pytest

from course.grade import usage as counting
from course.grade.usage import FILE, MAPPING, SOCKET, usage

MB = 2**20
START = "import ctypes, mmap, os, socket, sys, time\nlibc = ctypes.CDLL(None)\n"
READY = "\nprint('ready', flush=True)\nsys.stdin.read()"


@pytest.fixture
def used():
    """Memory that a program uses beyond a Python that does nothing, counted quickly and exactly."""

    def measure(code):
        sizes = []
        for body in ("", code):
            # a process between, as bubblewrap is: what is looked at are the children
            program = f"{START}if os.fork(): os.wait(); os._exit(0)\n{body}{READY}"
            command = [sys.executable, "-c", program]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                sizes.append([usage(process.pid, exact)[0] for exact in (False, True)])
                process.stdin.close()
                process.wait()
        return [after - before for before, after in zip(*sizes, strict=True)]

    return measure


def test_what_is_shared_counts_once(used):
    body = (
        "hoard = bytearray(b'x') * 2**26\nfor _ in range(3):\n    if os.fork() == 0: break\ntime.sleep(0.5)"
    )
    upper, exact = used(body)
    assert upper > 240 * MB
    assert 60 * MB < exact < 100 * MB


@pytest.mark.parametrize(
    ("code", "size"),
    [
        ("hoard = b'x' * 2**26", 64 * MB),
        # a program whose first thread has ended
        (
            "import threading\ndef rest():\n    hoard = b'x' * 2**26\n    time.sleep(0.3)\n"
            "    print('ready', flush=True)\n    sys.stdin.read()\n    os._exit(0)\n"
            "threading.Thread(target=rest).start()\n"
            "libc.syscall(93 if os.uname().machine == 'aarch64' else 60, 0)",
            64 * MB,
        ),
        # a page of tables for each 2 MB that were merely read
        (
            "hoard = mmap.mmap(-1, 2**34, mmap.MAP_PRIVATE)\nfor at in range(0, 2**34, 2**21): hoard[at]",
            32 * MB,
        ),
        ("hoard = [socket.socketpair() for _ in range(50)]", 100 * (SOCKET + FILE)),
        (
            "hoard = [mmap.mmap(-1, 2**13, mmap.MAP_PRIVATE, 1 + n % 2) for n in range(20000)]",
            20000 * MAPPING,
        ),
    ],
)
def test_memory_by_every_door(code, size, used):
    for seen in used(code):
        assert 0.9 * size < seen < 1.1 * size + 30 * MB


def test_open_files_are_counted_with_what_the_kernel_keeps_for_them(used, monkeypatch):
    monkeypatch.setattr(counting, "FILE", MB)
    hoard = (
        "hoard = [os.open('/proc/self/status', 0) for _ in range(200)]\nfor file in hoard: os.read(file, 9)"
    )
    for seen in used(hoard):
        assert 190 * MB < seen < 230 * MB  # what else it holds may shrink a little


def test_no_look_takes_longer_for_more_mappings(used, monkeypatch):
    monkeypatch.setattr(counting, "LISTED", MB)
    hoard = "hoard = [mmap.mmap(-1, 2**13, mmap.MAP_PRIVATE, 1 + n % 2) for n in range(5000)]"
    workers = "for _ in range(9): os.fork() or sys.stdin.read() or os._exit(0)"
    assert max(used(hoard)) < sys.maxsize // 2
    assert min(used(f"{hoard}\n{workers}")) > sys.maxsize // 2


def test_a_process_that_has_ended_uses_nothing():
    assert usage(2**22 + 1) == (0, 0)
