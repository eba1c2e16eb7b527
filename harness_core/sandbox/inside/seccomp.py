"""The system calls that a candidate may make: an allow list, compiled to a seccomp filter.

The architecture is checked first, then (on x86-64) the x32 bit; a wrong one kills the process.
Whatever is not listed fails with EPERM: sockets, processes and threads, signals to others, ptrace,
mounts, namespaces, keys, io_uring, limits, owners and modes, links. `ioctl` answers ENOTTY, which
is what a file that is no terminal answers; `clone3` answers ENOSYS, as on an old kernel.
"""

import platform
import struct
from typing import Final, NamedTuple

_X86_64: Final = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7,
    "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13,
    "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "pwrite64": 18, "readv": 19,
    "writev": 20, "access": 21, "pipe": 22, "select": 23, "sched_yield": 24, "mremap": 25,
    "madvise": 28, "dup": 32, "dup2": 33, "pause": 34, "nanosleep": 35, "getitimer": 36,
    "alarm": 37, "setitimer": 38, "getpid": 39, "exit": 60, "uname": 63, "fcntl": 72, "flock": 73,
    "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77, "getdents": 78, "getcwd": 79,
    "chdir": 80, "fchdir": 81, "rename": 82, "mkdir": 83, "rmdir": 84, "unlink": 87,
    "readlink": 89, "umask": 95, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98,
    "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108,
    "getppid": 110, "getpgrp": 111, "getgroups": 115, "getpgid": 121, "getsid": 124,
    "rt_sigpending": 127, "sigaltstack": 131, "statfs": 137, "fstatfs": 138, "gettid": 186,
    "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "clock_gettime": 228,
    "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "openat": 257, "mkdirat": 258,
    "newfstatat": 262, "unlinkat": 263, "renameat": 264, "readlinkat": 267, "faccessat": 269,
    "pselect6": 270, "ppoll": 271, "set_robust_list": 273, "dup3": 292, "pipe2": 293,
    "renameat2": 316, "getrandom": 318, "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip

_AARCH64: Final = {
    "getcwd": 17, "dup": 23, "dup3": 24, "fcntl": 25, "flock": 32, "mkdirat": 34, "unlinkat": 35,
    "renameat": 38, "statfs": 43, "fstatfs": 44, "truncate": 45, "ftruncate": 46, "faccessat": 48,
    "chdir": 49, "fchdir": 50, "openat": 56, "close": 57, "pipe2": 59, "getdents64": 61,
    "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67,
    "pwrite64": 68, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80,
    "fsync": 82, "fdatasync": 83, "exit": 93, "exit_group": 94, "futex": 98,
    "set_robust_list": 99, "nanosleep": 101, "getitimer": 102, "setitimer": 103,
    "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115, "sched_getaffinity": 123,
    "sched_yield": 124, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
    "rt_sigpending": 136, "rt_sigreturn": 139, "times": 153, "getpgid": 155, "getsid": 156,
    "getgroups": 158, "uname": 160, "getrlimit": 163, "getrusage": 165, "umask": 166,
    "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175,
    "getgid": 176, "getegid": 177, "gettid": 178, "sysinfo": 179, "brk": 214, "munmap": 215,
    "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233, "renameat2": 276,
    "getrandom": 278, "statx": 291, "rseq": 293, "faccessat2": 439,
}  # fmt: skip


class _Machine(NamedTuple):
    audit_architecture: int
    allowed: dict[str, int]
    ioctl: int


_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, _X86_64, 16),
    "aarch64": _Machine(0xC00000B7, _AARCH64, 29),
}
_CLONE3: Final = 435
_X32_BIT: Final = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOTTY, _ENOSYS = 1, 25, 38
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4  # offsets in struct seccomp_data


def compile_filter(machine: str | None = None) -> bytes | None:
    """The filter as an array of `struct sock_filter`, or None for an unknown machine."""
    name = platform.machine() if machine is None else machine
    known = _MACHINES.get(name)
    if known is None:
        return None
    program = [
        _instruction(_LOAD, 0, 0, _ARCHITECTURE_AT),
        _instruction(_JUMP_EQUAL, 1, 0, known.audit_architecture),
        _instruction(_RETURN, 0, 0, _KILL),
        _instruction(_LOAD, 0, 0, _NUMBER_AT),
    ]
    if name == "x86_64":
        program += [
            _instruction(_JUMP_AT_LEAST, 0, 1, _X32_BIT),
            _instruction(_RETURN, 0, 0, _KILL),
        ]
    for number in sorted(known.allowed.values()):
        program += _answer(number, _ALLOW)
    program += _answer(known.ioctl, _FAIL | _ENOTTY)
    program += _answer(_CLONE3, _FAIL | _ENOSYS)
    program.append(_instruction(_RETURN, 0, 0, _FAIL | _EPERM))
    return b"".join(program)


def _answer(number: int, verdict: int) -> list[bytes]:
    return [_instruction(_JUMP_EQUAL, 0, 1, number), _instruction(_RETURN, 0, 0, verdict)]


def _instruction(code: int, if_true: int, if_false: int, operand: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
