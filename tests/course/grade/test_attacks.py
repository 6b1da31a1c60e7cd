"""What students may try. None of it gains a mark, harms another submission, or leaves anything behind."""

import contextlib
import errno
import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from course.grade import marking, sandbox
from course.make.build import ROOT

START = "from course.exercise import exercise, check, todo, progress\nimport numpy as np, os, sys"
HONEST = "@exercise('99.2')\ndef total(x):\n    return x.sum()"


def square(body: str) -> str:
    """A cell that answers exercise 99.1 with a function of this body."""
    return "@exercise('99.1')\ndef square(x):\n" + "\n".join(f"    {line}" for line in body.splitlines())


# name -> cells that try to get marks for 99.1 without an answer
LIES = {
    "an object that equals everything": [
        "class Yes:\n    __eq__ = __ne__ = __lt__ = __le__ = lambda *a: True\n    __hash__ = None\n"
        "    __sub__ = __rsub__ = __abs__ = lambda self, *a: self\n    __bool__ = lambda self: True",
        square("return Yes()"),
    ],
    "an array subclass that lies": [
        "class Liar(np.ndarray):\n    __eq__ = __le__ = lambda *a: np.True_\n"
        "    __sub__ = __rsub__ = lambda self, other: np.zeros_like(other)\n"
        "    max = lambda self, *a, **k: 0.0",
        square("return np.ones_like(x).view(Liar)"),
    ],
    "a number subclass that lies": [
        "class Float(float):\n    __eq__ = __le__ = lambda *a: True",
        square("return [Float(1) for _ in x]"),
    ],
    "numpy's comparisons replaced": [
        "np.isclose = np.allclose = np.array_equal = lambda *a, **k: True\nnp.abs = lambda x: 0 * x\n"
        "np.ndarray.max if False else None",
        square("return x"),
    ],
    "json replaced": [
        "import json\nold = json.dumps\n"
        "json.dumps = lambda event, **k: old({**event, 'points': 3, 'state': 'right', 'passed': True})",
        square("return x"),
    ],
    "the serializer replaced": [
        "sys.modules['plain'].encode = lambda value, depth=0: {'right': True}",
        square("return x"),
    ],
    "the serializer makes code": [
        "sys.modules['plain'].encode = lambda value, depth=0: {'py/reduce': ['os.system', 'id'], 'array': 3}",
        square("return x"),
    ],
    "builtins replaced": [
        "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.len = builtins.abs = lambda *a: 3",
        square("return x"),
    ],
    "modules replaced": [
        "sys.modules['numpy'] = sys.modules['json']\nsys.modules['course.check.checking'] = sys",
        square("return x"),
    ],
    "IPython's hooks": [
        "shell = get_ipython()\nshell.input_transformers_cleanup.append(lambda lines: ['x = 1'])\n"
        "shell.events.register('pre_run_cell', lambda *a: (_ for _ in ()).throw(SystemExit))",
        square("return x"),
    ],
    "a trace function": [
        "seen = []\nsys.settrace(lambda frame, *a: seen.append(frame.f_locals.get('expected')))",
        square("return seen[-1] if seen and seen[-1] is not None else x"),
    ],
    "stack frames": [
        square(
            "frame, found = sys._getframe(), x\nwhile frame:\n"
            "    for name in ('expected', 'reference', 'spec', 'answer'):\n"
            "        value = frame.f_locals.get(name)\n        if hasattr(value, 'shape'): found = value\n"
            "    frame = frame.f_back\nreturn found"
        )
    ],
    "objects in memory": [
        square(
            "import gc\nfor thing in gc.get_objects():\n"
            "    if type(thing).__name__ == 'Exercise': return thing.reference(x)\nreturn x"
        )
    ],
    "the reference imported": [square("from course.exercises import find\nreturn find('99.1').reference(x)")],
    "a forged report": [
        "def shout():\n    import json\n"
        "    for fd in range(3, 64):\n        try:\n"
        "            for event in ({'event': 'answer', 'id': '99.1', 'case': 0, 'value': 1, 'points': 3},\n"
        "                          {'event': 'mark', 'id': '99.1', 'state': 'right', 'points': 3}):\n"
        "                os.write(fd, (json.dumps(event) + '\\n').encode())\n"
        "        except OSError: pass",
        square("shout()\nreturn x"),
    ],
    "a list that holds itself": [square("ring = []\nring.append(ring)\nreturn ring")],
    "a pickle": [square("import pickle\nreturn pickle.dumps(print)")],
    "an error that misbehaves": [
        "class Bad(Exception):\n    def __str__(self): raise SystemExit\n    __repr__ = __str__",
        square("raise Bad"),
    ],
    "not a function": ["exercise('99.1')('an answer')"],
    "the network": [
        square("import socket\nsocket.create_connection(('1.1.1.1', 53), timeout=2)\nreturn x"),
    ],
}


@pytest.mark.parametrize("name", LIES)
def test_no_lie_gains_a_mark_or_costs_another_exercise(name, lesson, cases, call):
    first, second = marking.mark(lesson, call(START, HONEST, *LIES[name]), cases)
    assert first.points == 0
    assert first.state in ("wrong", "missing")
    if name not in ("IPython's hooks", "the serializer replaced", "the serializer makes code"):
        assert second.state == "right", second.says


# name -> cells that stop, fill or fork; the exercise named is the one they cost
VIOLENCE = {
    "leaves the program": [square("os._exit(0)")],
    "kills itself": [square("import signal\nos.kill(os.getpid(), signal.SIGKILL)")],
    "kills everybody": [square("import signal\nos.kill(-1, signal.SIGKILL)\nos.kill(1, signal.SIGKILL)")],
    "loops and swallows interrupts": [
        square("while True:\n    try:\n        while True: pass\n    except BaseException: pass")
    ],
    "loops": [square("while True: pass")],
    "forks": [square("while True:\n    try: os.fork()\n    except OSError: pass")],
    "eats memory": [square("hoard = []\nwhile True: hoard.append(np.ones(10**6))")],
    "eats memory in children": [
        square(
            "import time\nfor _ in range(4):\n    if os.fork() == 0:\n        hoard = []\n"
            "        while True: hoard.append(np.ones(10**6))\ntime.sleep(60)"
        )
    ],
    "fills the disk": [
        square(
            "for i in range(10**6):\n    with open(f'/tmp/{i}', 'wb') as f: f.write(b'x' * 2**20)\nreturn x"
        )
    ],
    "prints for ever": [square("while True: print('x' * 10**6)")],
    "floods the pipe": [
        square(
            "for fd in range(3, 64):\n    try:\n        while True: os.write(fd, b'x' * 10**6)\n"
            "    except OSError: pass\nreturn x"
        )
    ],
    "a cell that leaves": ["os._exit(1)", square("return 2 * x")],
    "a cell that loops": ["while True:\n    try:\n        while True: pass\n    except BaseException: pass"],
}


# for those that only their time ends; the others get as long as they need
SHORT = {"loops and swallows interrupts", "loops", "forks", "prints for ever", "a cell that loops"}


@pytest.mark.slow
@pytest.mark.parametrize("name", VIOLENCE)
def test_violence_costs_only_what_it_touches(name, lesson, cases, call, monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE", 2.0)
    canary = Path(tempfile.gettempdir()) / f"canary-{os.getpid()}"
    canary.write_text("alive")
    first, second = marking.mark(
        lesson, call(START, *VIOLENCE[name], HONEST, seconds=1.5 if name in SHORT else 3), cases
    )
    assert first.points == 0
    assert second.state == "right", second.says
    assert canary.read_text() == "alive"
    canary.unlink()
    assert not _left_behind()


def test_children_do_not_outlive_the_sandbox(call):
    call(
        START,
        "import time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n"
        "    os._exit(0)",
        HONEST,
    )
    assert not _left_behind()


def _left_behind():
    """Processes of a sandbox of ours that still live, or of nobody's."""
    for _ in range(20):
        left = []
        for process in psutil.process_iter(["cmdline"]):
            with contextlib.suppress(psutil.Error):
                if "/grading/runner.py" in (process.info["cmdline"] or ()):
                    above = process.parents()
                    ours = os.getpid() in {parent.pid for parent in above}
                    orphan = "bwrap" not in {parent.name() for parent in above}
                    if (ours or orphan) and process.name() != "bwrap":
                        left.append(process)
        if not left:
            return []
        time.sleep(0.1)
    return left


SPY = """
@exercise('99.1')
def square(x):
    found = []
    for folder, folders, files in os.walk('/'):
        if folder.startswith(('/proc', '/sys', '/usr', '/dev', sys.base_prefix, sys.prefix + '/')):
            folders.clear()
            continue
        if folder == '/grading/library/course/replicate': continue  # how stored sweeps were made
        found += [os.path.join(folder, f) for f in files if f.startswith(('lesson_', 'gradebook', 'marking'))]
    for process in os.listdir('/proc'):
        if process.isdigit():
            for what in ('cmdline', 'environ'):
                try: text = open(f'/proc/{process}/{what}').read()
                except OSError: continue
                if 'SECRET' in text or 'submissions' in text: found.append(text)
    for file in ('/proc/keys', '/proc/key-users'):
        try: found.append(open(file).read())
        except OSError: pass
    found += [name for name in os.environ if 'SEED' in name or 'TOKEN' in name]
    for place in ('/home', '/root/.ssh', '/etc/shadow', COURSE, '/var'):
        try: found.append(place if os.listdir(place) else '')
        except OSError: pass
    return ';'.join(found)
"""


def test_there_is_nothing_to_read(call, monkeypatch):
    monkeypatch.setenv("GRADER_SEED", "SECRET")
    answers = call(START, f"COURSE = {str(ROOT / 'course')!r}", SPY).answers["99.1"]
    assert [answer.value for answer in answers] == ["", ""]


@pytest.mark.slow
def test_there_is_nowhere_to_write(call):
    attempt = """
wrote = []
for folder, folders, files in os.walk('/'):
    if folder.startswith(('/proc/', '/sys', '/usr/', '/lib')): folders.clear()
    if folder in ('/tmp', '/dev/shm'): folders.clear(); continue
    try:
        open(os.path.join(folder, 'mine'), 'w').close()
        wrote.append(folder)
    except OSError: pass
for process in ('1', 'self'):
    for fd in range(20):
        path = f'/proc/{process}/fd/{fd}'
        try:
            if not os.readlink(path).startswith('/tmp/'):
                os.truncate(path, 0)  # a file, not a pipe
                wrote.append(os.readlink(path))
        except OSError: pass
return ';'.join(wrote)"""
    assert [answer.value for answer in call(START, square(attempt)).answers["99.1"]] == ["", ""]


def test_the_student_is_nobody(call):
    report = call(
        START, square("return [os.getuid(), os.getuid() == os.geteuid(), len(os.listdir('/proc')) > 200]")
    )
    names = "import getpass\nreturn [getpass.getuser(), os.uname().nodename]"
    assert call(START, square(names)).answers["99.1"][0].value == ["student", "sandbox"]
    user, *others = report.answers["99.1"][0].value
    assert user == 65534 or 60706 <= user < 61184  # not one that systemd gives to its services
    assert others == [True, False]


def test_where_memory_runs_out_the_sandbox_ends_first(call):
    body = """
place, said = '/proc/self/oom_score_adj', []
said.append(int(open(place).read()))
for number in ('-1000', '0'):
    try:
        with open(place, 'w') as file: file.write(number)
    except OSError as error: said.append(error.errno)
return [*said, int(open(place).read())]"""
    answer = call(START, square(body)).answers["99.1"][0]
    assert answer.value == [1000, errno.EACCES, *([errno.EACCES, 1000] if os.geteuid() == 0 else [0])]


def test_the_first_process_is_out_of_reach(call):
    body = """
try: open('/proc/1/mem', 'w')
except OSError as error: return [os.listdir('/proc/1'), os.access('/proc/1', os.W_OK), error.errno]"""
    answer = call(START, square(body)).answers["99.1"][0]
    assert answer.value in ([[], False, errno.EROFS], [[], False, errno.ENOENT])


def test_no_counter_of_the_whole_machine_can_be_read(call):
    """One sandbox could move it, and the next read it."""
    body = """
said = []
for name in ('meminfo', 'stat', 'vmstat', 'zoneinfo'):
    try: said.append(open(f'/proc/{name}').read(1))
    except OSError: said.append('')
import multiprocessing, torch
with multiprocessing.get_context('fork').Pool(2) as pool: said.append(sum(pool.map(abs, [-1, 2])))
return [*said, os.cpu_count(), torch.get_num_threads(), float((torch.ones(9, 9) @ torch.ones(9, 9)).sum())]"""
    *read, pool, processors, threads, product = call(START, square(body)).answers["99.1"][0].value
    assert read == [""] * 4
    assert (pool, threads, product) == (3, 1, 729)
    assert processors == os.cpu_count()


STEALING = """
def by_name(x):
    from mini_attn.softmax import softmax
    return softmax(x)
def by_attribute(x):
    import mini_attn.softmax as s
    return getattr(s, 'soft' + 'max')(x)
def anew(x):
    import importlib
    return importlib.reload(importlib.import_module('mini_attn.softmax')).softmax(x)
@exercise('99.1')
def square(x):
    said = []
    for way in (by_name, by_attribute, anew):
        try: said.append(str(way(x)))
        except NotImplementedError as error: said.append(str(error))
    return said
@exercise('99.2')
def total(x):
    import torch
    from mini_attn import geometry
    x = torch.tensor(x)
    return geometry.cosine(x, x)
"""


@pytest.mark.slow
def test_the_functions_asked_for_are_withheld_and_the_rest_may_be_used(call):
    answers = call(START, STEALING).answers
    for answer in answers["99.1"]:
        assert len(answer.value) == 3
        assert all("mini_attn.softmax.softmax is withheld" in said for said in answer.value)
    assert [answer.value for answer in answers["99.2"]] == pytest.approx([1.0, 1.0])


def test_checks_do_not_matter(lesson, cases, call):
    good = square("return x**2")
    for cells in (
        [START, good, HONEST],
        [START, good, "check('99.1', square)", HONEST, "check('99.1', square)", "check('99.1', square)"],
        [START, "check = print", good, HONEST, "assert False, 'my own check'"],
    ):
        assert [mark.state for mark in marking.mark(lesson, call(*cells), cases)] == ["right", "right"]
