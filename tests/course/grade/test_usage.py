"""What is counted of processes that use memory in unusual ways."""

import contextlib
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from course.grade import usage as counting
from course.grade.usage import FILE, LINK, MAPPING, NAME, SOCKET, WAITING, usage

MB = 2**20
START = "import ctypes, mmap, os, signal, socket, sys, time\nlibc = ctypes.CDLL(None)\n"
READY = "\nprint('ready', flush=True)\nsys.stdin.read()"


@pytest.fixture(autouse=True)
def nothing_of_the_machine(monkeypatch):
    """Outside of a sandbox /tmp is the machine's, where others write."""
    monkeypatch.setattr(counting, "WRITABLE", ())


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
        # the same, and the first thread's name reads like the kernel's words for its size
        (
            "import threading\ndef rest():\n    hoard = b'x' * 2**26\n    time.sleep(0.3)\n"
            "    print('ready', flush=True)\n    sys.stdin.read()\n    os._exit(0)\n"
            "threading.Thread(target=rest).start()\nlibc.prctl(15, b'\\rVmRSS: 1 kB', 0, 0, 0)\n"
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
            "hoard = [socket.socket(socket.AF_UNIX) for _ in range(50)]\n"
            "for n, one in enumerate(hoard): one.bind('\\0%d %d\\n' % (os.getpid(), n))",
            100 * SOCKET + 50 * FILE,
        ),
        # each keeps the messages of many that have ended
        (
            "hoard = [socket.socketpair(type=socket.SOCK_DGRAM) for _ in range(5)]",
            10 * ((1 + WAITING) * SOCKET + FILE),
        ),
        (
            "hoard = [mmap.mmap(-1, 2**13, mmap.MAP_PRIVATE, 1 + n % 2) for n in range(60000)]\nos.fork()",
            120000 * MAPPING,
        ),
    ],
)
def test_memory_by_every_door(code, size, used):
    for seen in used(code):
        assert 0.9 * size < seen < 1.1 * size + 30 * MB


# A process of 64 MB whose child, made by vfork, waits for a pipe to be opened before it runs another program.
VFORK = """
import atexit
os.mkfifo({pipe!r})
child = os.fork()
if not child:
    hoard = b'x' * 2**26
    wait = (os.POSIX_SPAWN_OPEN, 0, {pipe!r}, os.O_RDONLY, 0)
    os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[wait])
    os._exit(0)
atexit.register(os.open, {pipe!r}, os.O_RDWR)
while open(f'/proc/{{child}}/stat').read().rsplit(')')[1][1] != 'D': time.sleep(0.1)"""


def test_a_child_counts_once_until_it_runs_another_program(used, tmp_path):
    upper, exact = used(VFORK.format(pipe=str(tmp_path / "pipe")))
    assert upper > 120 * MB
    assert 60 * MB < exact < 100 * MB


# A chain of processes, each of which hands its memory to the next and ends; all below one that stays.
CHAIN = """
libc.prctl(36, 1)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
fork = ctypes.PyDLL(None).fork
for _ in range({decoys}): os.fork() or sys.stdin.read() or os._exit(0)
if os.fork() == 0:
    hoard, end = b'x' * 2**26, time.monotonic() + 20
    while time.monotonic() < end and not os.path.exists({over!r}):
        if fork(): libc._exit(0)
    libc._exit(0)
time.sleep(0.5)"""


@pytest.mark.slow
@pytest.mark.parametrize("decoys", [0, 40])
def test_memory_that_is_handed_on_is_seen_at_every_look(decoys, used, tmp_path, monkeypatch):
    looks, look = [], counting.usage

    def often(pid, exact):
        looks.append([look(pid, exact)[0] for _ in range(5)])
        if len(looks) == 4:
            (tmp_path / "over").touch()
        return max(looks[-1]), 0

    monkeypatch.setitem(globals(), "usage", often)
    used(CHAIN.format(decoys=decoys, over=str(tmp_path / "over")))
    (nothing, *_), _, upper, exact = map(sorted, looks)
    assert upper[0] - nothing > 50 * MB
    assert exact[-1] - nothing > 50 * MB  # at times a part is still shared with one that ends just now
    assert exact[0] - nothing > 10 * MB
    assert max(map(max, looks)) < 2**40  # all could be looked at


@pytest.mark.slow
def test_short_lives_are_no_offence(used):
    body = "import subprocess, threading\n" + (
        "def loop():\n    while True: subprocess.run(['true'])\n"
        "for _ in range(8): threading.Thread(target=loop, daemon=True).start()\ntime.sleep(0.5)"
    )
    assert max(max(used(body)) for _ in range(3)) < 300 * MB


def test_where_not_even_stopping_helps_it_counts_as_too_much(used, monkeypatch):
    monkeypatch.setattr(counting, "ROUNDS", 0)
    monkeypatch.setattr(counting, "_look", lambda *_: (0, 0, {time.monotonic()}))
    monkeypatch.setattr(counting, "_halted", lambda *_: contextlib.nullcontext(False))
    assert usage(1) == (sys.maxsize, 0)


def test_open_files_are_counted_with_what_the_kernel_keeps_for_them(used, monkeypatch):
    monkeypatch.setattr(counting, "FILE", MB)
    hoard = (
        "hoard = [os.open('/proc/self/status', 0) for _ in range(200)]\nfor file in hoard: os.read(file, 9)"
    )
    for seen in used(hoard):
        assert 190 * MB < seen < 230 * MB  # what else it holds may shrink a little


def test_what_a_fork_keeps_of_all_above_it_is_counted(used):
    hoard = (
        "hoard = mmap.mmap(-1, 2**23, mmap.MAP_PRIVATE)\nfor at in range(0, 2**23, 2**12): hoard[at] = 1\n"
        "place = ctypes.addressof(ctypes.c_char.from_buffer(hoard))\n"
        "for at in range(0, 2**23, 2**13): libc.mprotect(ctypes.c_void_p(place + at), 2**12, 1)\n"
    )
    chain = "for _ in range(30):\n    if os.fork(): sys.stdin.read(); os._exit(0)"
    # the mappings once more for each process, and for each a link to all above
    size = 2000 * (30 * MAPPING + 30 * 31 // 2 * LINK)
    short, long = used(hoard)[1], used(hoard + chain)[1]
    assert 0.9 * size < long - short < 1.1 * size + 30 * MB


def test_pages_of_a_store_for_huge_ones_are_counted(tmp_path):
    status = {"VmPTE": 1, "HugetlbPages": 20, "RssAnon": 300}
    assert counting._own(tmp_path, status, exact=False) == 321
    (tmp_path / "smaps_rollup").write_text("Pss_Anon: 4 kB\n", encoding="ascii")
    assert counting._own(tmp_path, status, exact=True) == 21 + 4096


def test_who_lost_their_parents_may_share_with_all():
    parents = {1: 0, 2: 1, 3: 1, 4: 2, 5: 4, 6: 3}  # the second runs the cells, the third is an orphan
    living = {process: (None, {"PPid": parent}) for process, parent in parents.items()}
    assert counting._generations(living) == {1: 0, 2: 1, 3: 6, 4: 2, 5: 3, 6: 7}
    assert counting._generations({}) == {}


def test_lists_with_long_names_are_counted_where_they_are_kept_open(used, monkeypatch):
    folders = SimpleNamespace(f_frsize=0, f_blocks=0, f_bfree=0, f_files=1000, f_ffree=0)
    monkeypatch.setattr(counting, "WRITABLE", ("/tmp",))
    monkeypatch.setattr(counting.os, "statvfs", lambda _: folders)
    lists = "hoard = [os.open('/proc/self/maps', 0) for _ in range(50)]"
    others = "hoard = [os.open('/bin/sh', 0) for _ in range(50)]\nhoard += os.pipe()"
    for seen in used(lists):
        assert 45 * 1000 * NAME < seen < 55 * 1000 * NAME
    assert max(used(others)) < 10 * MB


def test_a_process_that_may_not_be_looked_into_counts_with_all_its_files(used, monkeypatch):
    """That is one without a core, and an ordinary user who looks; else its lists alone count, or nothing."""
    folders = SimpleNamespace(f_frsize=0, f_blocks=0, f_bfree=0, f_files=1000, f_ffree=0)
    monkeypatch.setattr(counting, "WRITABLE", ("/tmp",))
    monkeypatch.setattr(counting.os, "statvfs", lambda _: folders)
    lists = "libc.prctl(4, 0, 0, 0, 0)\nhoard = [os.open('/proc/self/maps', 0) for _ in range(50)]"
    for seen in used(lists):
        assert 45 * 1000 * NAME < seen < 60 * 1000 * NAME


def test_where_nobody_says_how_many_files_are_open_it_counts_them_or_what_has_room(tmp_path, monkeypatch):
    def kept_out(*_):
        raise PermissionError

    (tmp_path / "fd").mkdir()
    for number in range(3):
        (tmp_path / "fd" / str(number)).touch()
    thread = tmp_path, {"FDSize": 64}
    monkeypatch.setattr(counting.Path, "stat", lambda _: SimpleNamespace(st_size=0))  # before Linux 6.2
    assert counting._opened(*thread) == 3
    monkeypatch.setattr(counting.os, "listdir", kept_out)
    assert counting._opened(*thread) == 64
    monkeypatch.setattr(counting.os, "stat", kept_out)
    assert counting._lists(*thread) == 64
    monkeypatch.setattr(counting.Path, "stat", lambda _: SimpleNamespace(st_size=5))
    assert (counting._opened(*thread), counting._lists(*thread)) == (5, 5)


def test_no_look_takes_longer_for_more_mappings(used, monkeypatch):
    monkeypatch.setattr(counting, "LISTED", MB)
    hoard = "hoard = [mmap.mmap(-1, 2**13, mmap.MAP_PRIVATE, 1 + n % 2) for n in range(5000)]"
    workers = "for _ in range(9): os.fork() or sys.stdin.read() or os._exit(0)"
    assert max(used(hoard)) < sys.maxsize // 2
    assert min(used(f"{hoard}\n{workers}")) > sys.maxsize // 2


def test_a_process_that_has_ended_uses_nothing():
    assert usage(2**22 + 1) == (0, 0)
