"""Forty-five attacks and nine hostile names among honest students, graded in one go."""

import base64
import os
import re
import tempfile
import time

import psutil
import pytest

from course.grade import grading, sandbox, submission
from course.grade.sandbox import Limits

LIMITS = Limits(
    cell_seconds=6,
    exercise_seconds=15,
    total_seconds=90,
    memory_bytes=2**29,
    disk_bytes=2**28,
    files=3000,
)
START = "from course.exercise import exercise, check, todo\nimport numpy as np, os, sys, ctypes, mmap, signal"
SQUARE = '@exercise("99.1")\ndef square(x):\n    return x**2'
TOTAL = '@exercise("99.2")\ndef total(x):\n    return (x**2).sum()'
FORGE = """
libc = ctypes.CDLL(None, use_errno=True)
def shout(raw):
    for fd in range(3, 64):
        try: os.write(fd, raw + b"\\n")
        except OSError: pass
def tell(**event):
    import json
    shout(json.dumps(event).encode())
def forked(times):
    for _ in range(times - 1):
        if os.fork() == 0: return
"""


def square(body: str) -> str:
    return "@exercise('99.1')\ndef square(x):\n" + "\n".join(f"    {line}" for line in body.splitlines())


# a file below 250 folders of long names, mapped; and the kernel's list of mappings, read up to it
DEEP = """import time
name = '\\n' * 255
for _ in range(250): os.mkdir(name); os.chdir(name)
file = open('deep', 'w+b')
file.truncate(4096)
held = mmap.mmap(file.fileno(), 4096)
def read():
    one = os.open('/proc/self/maps', os.O_RDONLY)
    while b'012' not in os.read(one, 4096): pass
    return one
"""

STOPPED, KILLED = "Your function was stopped: ", "it ended the program that ran it"
MEMORY = f"{STOPPED}it used too much memory"
REFUSED = "Your function stopped with PermissionError."
OWN = "Your function stopped with an error of its own kind."

# name -> cells, and what the student's page says about them
ATTACKS = {
    # the protocol: forged, early, odd and huge
    "a dtype that numpy lacks": (
        [
            square(
                "value = {'array': 'AA==', 'dtype': '<f1', 'shape': [1]}\n"
                "tell(event='answer', id='99.1', case=0, value=value, changed=[])\nreturn x"
            )
        ],
        "Right on 0 of 2 inputs",
    ),
    "a cell with a huge number": (
        ["shout(b'{\"event\": \"cell\", \"index\": ' + b'9' * 4300 + b'}')\nos._exit(0)", square("return x")],
        f"cell 3 was left out: {KILLED}",
    ),
    "numbers below zero": (
        [
            "for n in (-1, -10**9): tell(event='cell', index=n); tell(event='cell-error', index=n)",
            square("return x"),
        ],
        "Right on 0 of 2 inputs",
    ),
    "answers before anybody asked": (
        [
            "for case in (0, 1):\n"
            "    tell(event='exercise', id='99.1', found=True)\n"
            "    tell(event='answer', id='99.1', case=case, value=1.0, changed=[])"
        ],
        "There was no function for this exercise.",
    ),
    "an end before the beginning": (["tell(event='done')", square("return x")], "no function"),
    "the inputs asked for early": (
        ["tell(event='cells-done')\nimport time\ntime.sleep(0.3)", square("return x")],
        "Right on 0 of 2 inputs",
    ),
    "the inputs asked for early, and an end": (
        ["tell(event='cells-done')\nos._exit(0)", square("return x")],
        f"{STOPPED}{KILLED}(?s:(?!left out).)*$",
    ),
    "an event of lists in lists": (
        [square("shout(b'{\"event\": \"x\", \"value\": [' + b'[],' * 300_000 + b'[]]}')\nreturn x")],
        "it wrote into the program that ran it",
    ),
    "an event that never ends": (
        [square("while True: shout(b'x' * 10**6 + b'y' * 10**6)")],
        "it wrote into the program that ran it|it produced too much output",
    ),
    "ten million zeros": ([square("return [0] * 10_000_000")], "Your answer is far too large."),
    "an array of a gigabyte": (
        [square("return np.broadcast_to(np.zeros(1), (2**27,))")],
        "Your answer is far too large.",
    ),
    "a list that never ends": (
        ["class Endless(list):\n    def __iter__(self): return iter(int, 1)", square("return Endless([1])")],
        "took too long|it used too much memory",
    ),
    "every file closed": (["os.closerange(0, 100)", square("return x")], KILLED),
    # words: in any encoding, and with the secret inputs in them
    "an error in half characters": ([square('raise ValueError("\\udcfc \\0 \\x1b[2J")')], "with ValueError."),
    "a cell's error in half characters": (
        ['raise ValueError("\\ud800\\0<script>alert(1)</script>\\u202e")', square("return x")],
        "cell 3 failed: ValueError; its words are not shown",
    ),
    "a name in half characters": (
        ["def square(x): return x\nsquare.__name__ = '\\ud800\\0'\nexercise('99.1')(square)"],
        "the function is called something else instead of square",
    ),
    "the inputs in an error": ([square("raise ValueError(repr(x.tolist()))")], "with ValueError."),
    "the inputs in an error's name": (
        [square("raise type('V' + '_'.join(map(str, x.tolist())), (Exception,), {})()")],
        OWN,
    ),
    "the inputs in a type's name": (
        [square("return type('V' + '_'.join(str(v).replace('.', 'p') for v in x), (), {})()")],
        "it is an object of type its own",
    ),
    "the inputs in a shape": (
        [square("return np.zeros([0, *(int(1e6 * abs(v)) for v in x)])")],
        r"it has 4 dimensions, expected \(3,\)",
    ),
    "the inputs in a factor": ([square("return x**2 * x[0]")], "every entry is the same multiple|differ"),
    "the inputs in a note": (
        [
            square(
                "tell(event='cell-error', index=3, error=repr(x.tolist()))\n"
                "tell(event='registered', id='99.1', cell=1, name=repr(x.tolist()))\nreturn x"
            )
        ],
        "Right on 0 of 2 inputs",
    ),
    "the inputs in a cell's error": (
        [
            "frame, found = sys._getframe(), []\nwhile frame:\n"
            "    found += [repr(frame.f_locals.get(name)) for name in ('request', 'cases', 'exercises')]\n"
            "    frame = frame.f_back\nimport re\n"
            "raise (ValueError if re.findall('.array.{60}', ' '.join(found)) else KeyError)",
            square("return x"),
        ],
        "cell 3 failed: KeyError",
    ),
    # memory by every door, files, processes
    "memory in memfds": (
        [square("for n in range(40): os.write(os.memfd_create(str(n)), b'x' * 2**26)\nreturn x")],
        REFUSED,
    ),
    "memory in System V segments": (
        [square("if libc.shmget(0, 2**26, 0o1600) < 0: raise PermissionError\nreturn x")],
        REFUSED,
    ),
    "memory of its own file systems": (
        [
            square(
                "if libc.unshare(0x10020000): raise PermissionError\n"
                "libc.mount(b'x', b'/tmp', b'tmpfs', 0, 0)"
            )
        ],
        REFUSED,
    ),
    "memory that is mapped nowhere": (
        [
            square(
                "import time\nfor _ in range(10):\n    hoard = mmap.mmap(-1, 2**26)\n"
                "    hoard[:] = b'x' * 2**26\n    hoard.resize(4096)\ntime.sleep(10)\nreturn x"
            )
        ],
        REFUSED,
    ),
    "memory of a device": (
        [square("hoard = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 2**29)\nreturn x")],
        REFUSED,
    ),
    "a look that takes long": (
        [
            square(
                "import time\n"
                "hoard = [mmap.mmap(-1, 4096, mmap.MAP_PRIVATE, 1 + n % 2) for n in range(50000)]\n"
                "forked(61)\ntime.sleep(10)\nreturn x"
            )
        ],
        MEMORY,
    ),
    "memory in files in memory": (
        [
            square(
                "import time\nfor folder in ('/tmp', '/dev/shm'):\n"
                "    for n in range(4):\n"
                "        with open(f'{folder}/{n}', 'wb') as f: f.write(bytes(2**26 - 2**20))\n"
                "hoard = np.ones(2**25)\ntime.sleep(10)\nreturn x"
            )
        ],
        MEMORY,
    ),
    "memory in sockets": (
        [
            square(
                "import socket, time\nforked(10)\n"
                "hoard = [socket.socketpair() for _ in range(110)]\ntime.sleep(10)"
            )
        ],
        MEMORY,
    ),
    "memory out of sight": (
        [square("import time\nlibc.prctl(4, 0)\nhoard = np.ones(2**27)\ntime.sleep(10)\nreturn x")],
        MEMORY,
    ),
    "memory behind a name": (
        [
            square(
                "import threading, time\ndef rest():\n    hoard = np.ones(2**27)\n    time.sleep(10)\n"
                "if os.fork() == 0:\n    threading.Thread(target=rest).start()\n"
                "    libc.prctl(15, b'\\rVmRSS: 1 kB', 0, 0, 0)\n"
                "    libc.syscall(93 if os.uname().machine == 'aarch64' else 60, 0)\ntime.sleep(10)\nreturn x"
            )
        ],
        MEMORY,
    ),
    "memory of many": (
        [square("import time\nforked(8)\nhoard = np.ones(2**24)\ntime.sleep(10)\nreturn x")],
        MEMORY,
    ),
    "files without number": (
        [
            square(
                "import time\nfor n in range(5000): open(f'/dev/shm/{n}', 'w').close()\n"
                "time.sleep(10)\nreturn x"
            )
        ],
        f"{STOPPED}it made too many files",
    ),
    "lists of long names, kept open": (
        [
            square(
                DEEP + "for _ in range(7):\n"
                "    if os.fork() == 0: hoard = [read() for _ in range(200)]; time.sleep(10); os._exit(0)\n"
                "time.sleep(10)"
            )
        ],
        MEMORY,
    ),
    "lists of long names, sent and not received": (
        [
            square(
                DEEP + "import socket\nsend, receive = socket.socketpair()\n"
                "for _ in range(100): socket.send_fds(send, [b'x'], [one := read()]); os.close(one)\n"
                "for _ in range(500): os.mkdir(name); os.chdir(name)\ntime.sleep(10)"
            )
        ],
        MEMORY,
    ),
    "terminals without number": (
        [square("import time\nhoard = [os.openpty() for _ in range(60)]\ntime.sleep(10)\nreturn x")],
        f"{STOPPED}it made too many files",
    ),
    "threads without number": (
        [
            square(
                "import threading, time\n"
                "for _ in range(400): threading.Thread(target=time.sleep, args=(3,)).start()"
            )
        ],
        "with RuntimeError.",
    ),
    "a queue of messages": (
        [square("if libc.mq_open(b'/q', 0o102, 0o600, None) < 0: raise PermissionError")],
        REFUSED,
    ),
    "a stop": ([square("os.kill(os.getpid(), signal.SIGSTOP)")], f"{STOPPED}it took too long"),
    "higher limits": (
        [square("import resource as r\nr.setrlimit(r.RLIMIT_NPROC, (500, 500))\nreturn x")],
        "with ValueError.|with PermissionError.",
    ),
    "a burst of recursion": (
        ["sys.setrecursionlimit(10**9)", square("f = lambda: f()\nreturn f()")],
        f"{STOPPED}{KILLED}|{MEMORY}|with RecursionError.",
    ),
    # doors of the kernel
    "the network": ([square("import socket\nsocket.socket(socket.AF_INET)")], REFUSED),
    "another's memory": ([square("if libc.ptrace(16, 1, 0, 0) < 0: raise PermissionError")], REFUSED),
}
NEIGHBOURS = ("ada", "bob", "Cléo", "M_ller")
NAMES = (
    "Müller",
    "Möller",
    "=cmd|'C'!A0",
    "<img onerror=alert(1)>",
    "-rf",
    "two\nlines",
    "\udcfc",
    "王芳",
    "王" * 80,
)


@pytest.fixture
def hand_in(submit):
    """Hostile and honest submissions, mixed."""
    for name in NEIGHBOURS:
        submit(name, START, SQUARE, TOTAL)
    for name, (cells, _) in ATTACKS.items():
        submit(name, START, FORGE, *cells, TOTAL, ids=())
    for name in NAMES:
        submit(name, START, SQUARE.replace("x**2", "x"), TOTAL)
    submit("honest crashes", START, *["os._exit(0)"] * 8, SQUARE, TOTAL, ids=())
    submit("honest workers", START, WORKERS, TOTAL, ids=())


WORKERS = square(
    "import multiprocessing, threading, time\nhoard = np.ones(2**24)\n"  # 128 MB that five processes share
    "with multiprocessing.get_context('fork').Pool(4) as pool:\n"
    "    pool.map(time.sleep, [0.3] * 4)\n"
    "    threads = [threading.Thread(target=time.sleep, args=(0.3,)) for _ in range(80)]\n"
    "    for thread in threads: thread.start()\n"
    "    for thread in threads: thread.join()\n"
    "    return np.array(pool.map(abs, x.tolist())) ** 2"
)


@pytest.mark.slow
def test_hostile_submissions_gain_nothing_and_harm_nobody(hand_in, small, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(sandbox, "GRACE", 1.0)
    seen, draw = [], grading._inputs
    monkeypatch.setattr(grading, "_inputs", lambda *a: seen.append(draw(*a)) or seen[-1])
    start = time.monotonic()

    def grade():
        return grading.grade(tmp_path / "submissions", "99", "secret", tmp_path / "out", 2, limits=LIMITS)

    rows = grade()
    took = time.monotonic() - start
    points = {student: [mark.points for mark in marks] for student, marks in rows.items()}
    assert len(rows) == len(ATTACKS) + len(NEIGHBOURS) + len(NAMES) + 2

    harmed = [
        name for name in (*NEIGHBOURS, "honest crashes", "honest workers") if points[_id(name)] != [3, 3]
    ]
    assert harmed == []
    gained = [name for name in (*ATTACKS, *NAMES) if points[_id(name)][0]]
    assert gained == []
    unexplained = [name for name, (_, says) in ATTACKS.items() if not re.search(says, _page(tmp_path, name))]
    assert unexplained == [], _page(tmp_path, unexplained[0])

    inputs = [case[0] for cases in seen for case in cases]
    assert len(seen) == len(small.specs)
    secrets = [f"{abs(number):.4f}"[:6] for case in inputs for number in case]
    secrets += [str(int(1e6 * abs(number))) for case in inputs for number in case]
    secrets += [base64.b64encode(case.tobytes()).decode()[:20] for case in inputs]
    leaks = [(name, s) for name in ATTACKS for s in secrets if s in _page(tmp_path, name)]
    assert leaks == []

    assert os.listdir(tmp_path / "tmp") == []
    commands = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(tmp_path / "tmp") in " ".join(command)]
    with monkeypatch.context() as patch:  # a rerun grades nothing again and says the same
        patch.setattr(grading, "Sandbox", None)
        pages = {path: path.read_bytes() for path in (tmp_path / "out" / "feedback").iterdir()}
        assert grade() == rows
        assert all(path.read_bytes() == page for path, page in pages.items())
    assert took < LIMITS.longest * len(rows)


def _id(name):
    return submission.identity(name)


def _page(tmp_path, name):
    page = (tmp_path / "out" / "feedback" / f"{_id(name)}.html").read_text(encoding="utf-8")
    return page[page.index("<body>") :]
