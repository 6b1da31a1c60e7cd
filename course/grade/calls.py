"""The system calls that a sandbox does without, as a program for the kernel (seccomp, "classic BPF").

Closed are: keyrings, which all processes of a user share, and keys of encrypted disks; memory that belongs to
no process, so that nobody can count it (memfd, System V, rules of landlock, watches of epoll, attributes of
files, policies of memory, pages that sendfile leaves in sockets, a process's own table of futexes, and
mappings without a file that a fork shares: their pages outlive them where only a part is unmapped); threads
with a table of files of their own, and huge pages, of which a part would keep the whole; filters like this
one, for which the kernel has room once for all; filters of sockets, because some kernels hang for good where
thousands are freed at once; the kernel's log, where a crash leaves a line that all could read, and another
limit for what a crash leaves; what says or changes which pages of files the machine has in memory, which
outlive a sandbox; namespaces and mounts; every socket but those between the sandbox's own
processes; and doors into the kernel that no exercise needs (io_uring, bpf, ptrace, ...), all that are newer
than this list included. The caller gets an ordinary error; Python, asyncio included, takes poll where there
is no epoll.
Locks of files do nothing and say that they succeeded: a lock of a file that all sandboxes see, such as Python
itself, would be a signal from one to another. Nor does a socket get more room than the machine gives to each,
as programs that ask for more have to expect.
"""

from __future__ import annotations

import platform
import struct

# system call -> its number on x86_64 and on aarch64 (None: it has no such call)
CLOSED = {
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "quotactl": (179, 60),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "personality": (135, 92),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "epoll_create": (213, None),
    "epoll_create1": (291, 20),
    "vmsplice": (278, 75),
    "splice": (275, 76),
    "tee": (276, 77),
    "sendfile": (40, 71),  # to a socket, which then holds whole pages for a byte; programs fall back on write
    "fadvise64": (221, 223),
    "cachestat": (451, 451),
    "mincore": (27, 232),
    "preadv2": (327, 286),  # it reads only what is in memory, if asked to
    "mbind": (237, 235),  # a policy of a file in memory stays with it, where nobody counts it
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "io_setup": (206, 0),
    "seccomp": (317, 277),
    "syslog": (103, 116),
}
CLONE, CLONE3, SOCKETS = (56, 220), (435, 435), ((41, 198), (53, 199))  # SOCKETS: socket and socketpair
NEWER = 470  # all processors share these numbers; x32, a second set of numbers for the same calls, is above
FLOCK, FCNTL, IOCTL, MMAP = (73, 32), (72, 25), (16, 29), (9, 222)
PRCTL, SETSOCKOPT, CLOSE_RANGE = (157, 167), (54, 208), (436, 436)
SETRLIMIT, PRLIMIT = (160, 164), (302, 261)
RLIMIT_CORE = 4  # as `walls.py` sets it
TIOCSETD = 0x5423  # other programs of the kernel's behind a terminal
FILE_KEYS = (0xC0506617, 0xC0406618, 0xC080661A)  # FS_IOC_*_ENCRYPTION_KEY: add, remove, ask for
PR_SET_SECCOMP, PR_FUTEX_HASH = 22, 78
PR_SET_CHILD_SUBREAPER = 36  # it would hide who descends from whom, which `usage.py` counts by
SO_SNDBUF = 7
PROGRAMS = (26, 50, 51, 52)  # SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF and _REUSEPORT_EBPF, at whatever level
LOCKS = (5, 6, 7, 36, 37, 38)  # F_GETLK, F_SETLK, F_SETLKW, and the same as F_OFD_*
SIGNALS = (1024, 1025, 1026, 1035, 1036, 1037, 1038)  # F_*LEASE, F_NOTIFY, F_*_RW_HINT, of a file for all
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: user, mount, process, network, IPC, UTS and cgroup
CLONE_PARENT = 0x8000  # it would hide who was forked from whom as well
CLONE_THREAD, CLONE_FILES = 0x10000, 0x400  # a thread with files of its own: `usage.py` sees those of one
CLOSE_RANGE_UNSHARE = 2  # which makes such a thread
PR_SET_THP_DISABLE = 41  # as the runner sets it: a huge page stays whole where all but a part is unmapped
AF_UNIX = 1
MAP_SHARED, MAP_ANONYMOUS = 0x01, 0x20
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above; the kernel's name

EPERM, ENOSYS = 1, 38
ALLOW, ERROR = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO, to which the error is added
NUMBER, ARCHITECTURE = 0, 4  # where `struct seccomp_data` has them
FIRST, SECOND, THIRD, FOURTH = 16, 24, 32, 40  # the lower halves of arguments
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # load a word; jump if; return


def supported() -> bool:
    """Whether there is a filter for this machine's processor."""
    return platform.machine() in ARCHITECTURES


def program() -> bytes:
    """The filter for this machine, as bubblewrap's --seccomp reads it: an array of `struct sock_filter`."""
    column, architecture = ARCHITECTURES[platform.machine()]
    steps = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture),  # jumps: how many steps to leave out if true, and if not
        (RETURN, 0, 0, ERROR + ENOSYS),  # a program for another processor numbers its calls otherwise
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, NEWER),
        (RETURN, 0, 0, ERROR + ENOSYS),
        (EQUAL, 0, 1, CLONE3[column]),  # its flags are out of sight; without it the C library takes clone
        (RETURN, 0, 0, ERROR + ENOSYS),
    ]
    for numbers in CLOSED.values():
        if numbers[column] is not None:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ERROR + EPERM)]
    steps += [
        (EQUAL, 0, 6, CLONE[column]),
        (LOAD, 0, 0, FIRST),
        (ANY_BIT, 2, 0, NEW_NAMESPACES | CLONE_PARENT),
        (ANY_BIT, 0, 2, CLONE_THREAD),
        (ANY_BIT, 1, 0, CLONE_FILES),
        (RETURN, 0, 0, ERROR + EPERM),
        (RETURN, 0, 0, ALLOW),
        (EQUAL, 0, 4, CLOSE_RANGE[column]),
        (LOAD, 0, 0, THIRD),
        (ANY_BIT, 0, 1, CLOSE_RANGE_UNSHARE),
        (RETURN, 0, 0, ERROR + EPERM),
        (RETURN, 0, 0, ALLOW),
        (EQUAL, 0, 1, FLOCK[column]),
        (RETURN, 0, 0, ERROR),  # no error: done
        (EQUAL, 0, 5, MMAP[column]),
        (LOAD, 0, 0, FOURTH),
        (ANY_BIT, 0, 2, MAP_ANONYMOUS),
        (ANY_BIT, 0, 1, MAP_SHARED),
        (RETURN, 0, 0, ERROR + EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    steps += [
        (EQUAL, 0, 9, PRCTL[column]),  # other calls of it follow below
        (LOAD, 0, 0, FIRST),
        (EQUAL, 0, 6, PR_SET_THP_DISABLE),
        (LOAD, 0, 0, SECOND),
        (EQUAL, 0, 3, 1),
        (LOAD, 0, 0, THIRD),
        (EQUAL, 0, 1, 0),  # else for a part of the memory only
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, ERROR + EPERM),
        (LOAD, 0, 0, NUMBER),
    ]
    for numbers in SOCKETS:
        steps += [
            (EQUAL, 0, 4, numbers[column]),
            (LOAD, 0, 0, FIRST),
            (EQUAL, 1, 0, AF_UNIX),
            (RETURN, 0, 0, ERROR + EPERM),
            (RETURN, 0, 0, ALLOW),
        ]
    refused = ERROR + EPERM
    states = (PR_SET_SECCOMP, PR_FUTEX_HASH, PR_SET_CHILD_SUBREAPER)
    steps += _by(FIRST, PRCTL[column], dict.fromkeys(states, refused))
    steps += _by(FIRST, SETRLIMIT[column], {RLIMIT_CORE: refused})
    steps += _by(SECOND, PRLIMIT[column], {RLIMIT_CORE: refused})
    steps += _by(SECOND, IOCTL[column], dict.fromkeys((TIOCSETD, *FILE_KEYS), refused))
    steps += _by(SECOND, FCNTL[column], dict.fromkeys(LOCKS, ERROR) | dict.fromkeys(SIGNALS, refused))
    steps += _by(THIRD, SETSOCKOPT[column], {SO_SNDBUF: ERROR} | dict.fromkeys(PROGRAMS, refused))
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _by(place: int, number: int, answers: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """Steps for a call whose answer depends on an argument; it is allowed where that is none of these."""
    steps = [(EQUAL, 0, 2 * len(answers) + 2, number), (LOAD, 0, 0, place)]
    for value, answer in answers.items():
        steps += [(EQUAL, 0, 1, value), (RETURN, 0, 0, answer)]
    return [*steps, (RETURN, 0, 0, ALLOW)]
