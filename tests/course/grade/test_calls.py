"""System calls from inside a sandbox: those that are closed, and honest ones that must not be."""

import errno
import os
import platform
import resource

import pytest

from course.grade import calls

START = "from course.exercise import exercise, check, todo, progress\nimport numpy as np, os, sys"


def square(body: str) -> str:
    """A cell that answers exercise 99.1 with a function of this body."""
    return "@exercise('99.1')\ndef square(x):\n" + "\n".join(f"    {line}" for line in body.splitlines())


KEYS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def system_call(*numbers):
    result = libc.syscall(*map(ctypes.c_long, numbers))
    return ctypes.get_errno() if result == -1 else 0
"""


def test_keyrings_and_all_that_the_filter_closes_are_closed(call):
    column, _ = calls.ARCHITECTURES[platform.machine()]
    closed = {name: numbers[column] for name, numbers in calls.CLOSED.items() if numbers[column] is not None}
    clone, clone3 = calls.CLONE[column], calls.CLONE3[column]
    ioctl, prctl, limit = calls.IOCTL[column], calls.PRCTL[column], calls.PRLIMIT[column]
    (socket, pair), pipes = [numbers[column] for numbers in calls.SOCKETS], "(ctypes.c_int * 2)()"
    body = f"""
errors = [system_call(number, 0, 0, 0, 0, 0) for number in {list(closed.values())}]
namespaces = [system_call({clone}, flag | 17, 0, 0, 0, 0) for flag in (0x10000000, 0x20000, 0x40000000)]
families = [system_call({socket}, family, 1, 0) for family in (1, 2, 10, 16, 38)]
pipes = ctypes.addressof({pipes})
families += [system_call({pair}, family, 1, 0, pipes) for family in (1, 2, 30)]
others = [system_call({clone3}, 0, 0), system_call(0x40000000 + {clone}, 17, 0)]
others += [system_call({calls.NEWER}), system_call({prctl}, 22, 2, 0), system_call({prctl}, 78, 1, 16, 0)]
others += [system_call({prctl}, 36, 1, 0, 0), system_call({ioctl}, os.openpty()[1], 0x5423, pipes)]
shell = os.open("/bin/sh", os.O_RDONLY)
others += [system_call({ioctl}, shell, 2**64 - 2**32 + code, pipes) for code in {calls.FILE_KEYS}]
others += [system_call({calls.SETRLIMIT[column]}, 4, pipes), system_call({limit}, 0, 4, pipes, 0)]
others += [system_call({prctl}, 3, 0, 0), system_call({limit}, 0, 7, 0, pipes)]
return [errors, namespaces, families, others]"""
    errors, namespaces, families, others = call(START, KEYS, square(body)).answers["99.1"][0].value
    assert dict(zip(closed, errors, strict=True)) == dict.fromkeys(closed, errno.EPERM)
    assert namespaces == [errno.EPERM] * 3
    assert families == [0, *[errno.EPERM] * 4, 0, *[errno.EPERM] * 2]
    assert others == [*[errno.ENOSYS] * 3, *[errno.EPERM] * 9, 0, 0]
    assert {"seccomp", "setxattr", "syslog"} <= closed.keys()


def test_no_crash_starts_a_program_of_the_machine(call):
    """One that collects cores is started at a limit of 0 as well, outside of all walls, but not at 1."""
    body = """
import resource
said = []
for new in ((0, 0), (1, 1), (0, 1)):
    try: resource.setrlimit(resource.RLIMIT_CORE, new)
    except (OSError, ValueError): said.append("refused")
with open("/proc/self/limits") as limits: said += next(line.split()[4:6] for line in limits if "core" in line)
return said"""
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    least = "0" if most == 0 and os.geteuid() else "1"
    assert call(START, square(body)).answers["99.1"][0].value == ["refused"] * 3 + [least] * 2


def test_no_socket_gets_a_filter_or_more_room(call):
    """Filters are asked for without a program, so that even a kernel without walls attaches none."""
    column, _ = calls.ARCHITECTURES[platform.machine()]
    body = f"""
import socket
def option(level, number):
    return system_call({calls.SETSOCKOPT[column]}, one.fileno(), level, number, 0, 0)
def room(): return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
one, other = socket.socketpair()
attach = [option(level, 2**32 * high + number) for level in (0, 1, 6, 263) for high in (0, 1)
          for number in (26, 50, 51, 52)]
before = room()
for size in (2**10, 2**20): one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
return [attach, option(1, 44), option(1, 27), room() - before]"""
    attach, *others = call(START, KEYS, square(body)).answers["99.1"][0].value
    assert attach == [errno.EPERM] * 32
    assert others == [errno.EINVAL, errno.EINVAL, 0]  # the kernel itself refuses a value of no size
    assert {425, 426, 427} <= {number for number, _ in calls.CLOSED.values()}  # nor by io_uring


def test_locks_signal_nothing_and_stop_nobody(call):
    body = """
import fcntl, sqlite3, struct
seen, lock = [], struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
shared = [open(sys.executable, "rb") for _ in range(2)]
own = [open("/tmp/lock", "wb") for _ in range(2)]
for one, other in zip(shared, own):
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.fcntl(other, fcntl.F_OFD_SETLK, lock)
for command in (fcntl.F_SETLEASE, fcntl.F_NOTIFY, 1036):
    try: seen.append(fcntl.fcntl(shared[0], command, 0))
    except OSError as error: seen.append(error.errno)
with sqlite3.connect("/tmp/a.db") as book:
    book.execute("create table t (a)")
    book.execute("insert into t values (3)")
return seen + list(sqlite3.connect("/tmp/a.db").execute("select a from t").fetchone())"""
    answer = call(START, square(body)).answers["99.1"][0]
    assert (answer.value, answer.error) == ([errno.EPERM] * 3 + [3], None)


def test_all_that_tells_of_mounts_or_makes_them_is_closed():
    # numbers that all processors share: open_tree to mount_setattr, statmount, listmount, open_tree_attr
    assert {*range(428, 434), 442, 457, 458, 467} <= {number for number, _ in calls.CLOSED.values()}


def test_memory_without_a_name_is_not_shared(call):
    column, _ = calls.ARCHITECTURES[platform.machine()]
    body = f"""
def mapped(flags): return system_call({calls.MMAP[column]}, 0, 2**20, 3, flags, -1, 0)
errors = [mapped(flags) for flags in (0x21, 0x23, 0x40021, 0x8021, 0x22, 0x4022)]
for flags in (os.O_RDONLY, os.O_RDWR):
    try: errors.append(os.open("/dev/zero", flags))
    except OSError as error: errors.append(error.errno)
return errors"""
    answer = call(START, KEYS, square(body)).answers["99.1"][0]
    assert answer.value == [*[errno.EPERM] * 4, 0, 0, *[errno.EACCES] * 2]


def test_memory_that_nobody_could_count_is_closed():
    closed = {*calls.CLOSED.values()}
    assert {(number, number) for number in (444, 445, 446)} <= closed  # landlock's rules
    assert {(213, None), (291, 20)} <= closed  # epoll's watches
    assert (40, 71) in closed  # sendfile, as it fills sockets
    assert {(237, 235), (238, 237), (450, 450)} <= closed  # policies of memory


def test_no_thread_has_files_of_its_own_and_no_fork_another_parent(call):
    """What is asked for is impossible besides, so that even a kernel without walls makes no thread."""
    column, _ = calls.ARCHITECTURES[platform.machine()]
    body = f"""
errors = [system_call({calls.CLONE[column]}, flags, 0, 0, 0, 0) for flags in (0x10000, 0x10400, 0x18400)]
return errors + [system_call(436, 4000, 5000, flags) for flags in (0, 2, 4, 6, 2**32 + 2, 8)]"""
    errors = call(START, KEYS, square(body)).answers["99.1"][0].value
    assert errors == [1, errno.EINVAL, 1, 0, 1, 0, 1, 1, errno.EINVAL]  # 1: EPERM


def test_no_page_is_huge(call):
    """Nor can that be undone, or undone for a part of the memory (a flag since Linux 6.18)."""
    column, _ = calls.ARCHITECTURES[platform.machine()]
    body = f"""
said = [libc.prctl(42, 0, 0, 0, 0)]
asked = ((1, 0), (0, 0), (1, 2), (0, 2), (2**32, 0), (1, 2**32 + 2))
errors = [system_call({calls.PRCTL[column]}, 41, *numbers, 0, 0) for numbers in asked]
said.append(libc.prctl(42, 0, 0, 0, 0))
if os.fork() == 0: os._exit(libc.prctl(42, 0, 0, 0, 0))
return [*errors, *said, os.waitstatus_to_exitcode(os.wait()[1])]"""
    assert call(START, KEYS, square(body)).answers["99.1"][0].value == [0, *[errno.EPERM] * 5, 1, 1, 1]


def test_files_are_copied_and_threads_and_programs_started(call, cases):
    body = """
import shutil, socket, subprocess, threading
x.tofile("/tmp/x")
shutil.copyfile("/tmp/x", "/tmp/copy")
one, other = socket.socketpair()
with open("/tmp/copy", "rb") as file: one.sendfile(file)
received = np.frombuffer(other.recv(1000))
threads = [threading.Thread(target=np.square, args=(received,), kwargs={"out": received.copy()})]
threads[0].start()
threads[0].join()
subprocess.run(["cp", "/tmp/copy", "/tmp/again"], check=True)
subprocess.run(["true"], check=True, pass_fds=[one.fileno()], start_new_session=True)
return np.fromfile("/tmp/again") * received"""
    answers = call(START, square(body)).answers["99.1"]
    for answer, (x,) in zip(answers, cases["99.1"], strict=True):
        assert (answer.value, answer.error) == (pytest.approx(x**2), None)


HONEST = {
    "asyncio": """
import asyncio
async def work(value):
    await asyncio.sleep(0.01)
    return value**2
async def all_of_them():
    return await asyncio.gather(*map(work, x))
return np.array(asyncio.run(all_of_them()))""",
    "multiprocessing": """
import multiprocessing as mp
context = mp.get_context("fork")
with context.Manager() as manager:
    numbers, count, results = context.Array("d", len(x)), context.Value("i", 0), manager.dict()
    def work(k):
        numbers[k] = x[k] ** 2
        results[k] = True
        with count.get_lock(): count.value += 1
    workers = [context.Process(target=work, args=(k,)) for k in range(len(x))]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    assert count.value == len(results) == len(x)
return np.array(numbers[:])""",
    "shared memory": """
from multiprocessing.shared_memory import SharedMemory
block = SharedMemory(create=True, size=x.nbytes)
try:
    if os.fork() == 0:
        np.frombuffer(block.buf, count=len(x))[:] = x**2
        os._exit(0)
    os.wait()
    return np.frombuffer(block.buf, count=len(x)).copy()
finally:
    block.unlink()""",
    "joblib": """
from joblib import Parallel, delayed
shared = np.tile(x, 2**20)  # large enough for a file in memory
work = delayed(lambda a, k: float(a[k]) ** 2)
parts = Parallel(2, max_nbytes=2**20)(work(shared, k) for k in range(len(x)))
return np.array(parts)""",
    "programs": """
import subprocess, time
os.mkfifo("/tmp/pipe")
other = os.fork()
if other == 0:
    time.sleep(2)
    held = os.open("/tmp/pipe", os.O_RDWR)  # from now on nobody waits
    time.sleep(60)
hoard = np.ones(2**25)  # half of the limit, and a child that has begun no program shares it
wait = (os.POSIX_SPAWN_OPEN, 0, "/tmp/pipe", os.O_RDONLY, 0)
os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}, file_actions=[wait]), 0)
for _ in range(20): subprocess.run(["true"], check=True)
os.kill(other, 9)
os.unlink("/tmp/pipe")
return x**2""",
    "torch": """
import torch, torch.multiprocessing as mp
shared = torch.tensor(x).share_memory_()
worker = mp.get_context("fork").Process(target=lambda: shared.pow_(2))
worker.start()
worker.join()
return shared.numpy()""",
    "torch's loader": """
import torch
from torch.utils.data import DataLoader
batches = DataLoader([torch.tensor(value) ** 2 for value in x], batch_size=2, num_workers=2)
return np.concatenate([batch.numpy() for batch in batches])""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_what_processes_share_by_honest_means_stays_open(name, call, cases):
    answers = call(START, square(HONEST[name].lstrip())).answers["99.1"]
    assert [answer.error for answer in answers] == [None, None]
    for answer, (x,) in zip(answers, cases["99.1"], strict=True):
        assert answer.value == pytest.approx(x**2)


def test_files_on_their_way_are_counted_and_whoever_lacks_them_is_known(call):
    body = """
import socket
pairs = [socket.socketpair() for _ in range(9)]
while True:
    for one, _ in pairs: socket.send_fds(one, [b"x"], [0] * 50)"""
    report = call(START, square(body.lstrip()))
    assert [answer.error for answer in report.answers["99.1"]] == [
        f"OSError: [Errno {errno.ETOOMANYREFS}] {os.strerror(errno.ETOOMANYREFS)}"
    ] * 2
    assert report.disturbed
