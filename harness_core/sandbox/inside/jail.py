"""The jail of one candidate process, by ctypes: capabilities, landlock, rlimits, seccomp.

`Jail` is prepared once in the fork server (the landlock rules and the filter are built there) and
entered by each child with a handful of system calls. `enter` says which layers took; unless all of
`LAYERS` did, the caller must leave without running anything.
"""

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from harness_core.sandbox.inside.seccomp import compile_filter

_SET_PDEATHSIG, _SET_DUMPABLE, _SET_SECCOMP, _CAPBSET_DROP, _SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION_3: Final = 0x20080522
_N_CAPABILITIES: Final = 64
_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION_FLAG, _LANDLOCK_PATH_BENEATH = 1, 1

# Rights of landlock, bit by bit as in linux/landlock.h.
_WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 2, 1 << 3, 16, 32
_MAKE_DIR, _MAKE_REG, _TRUNCATE = 1 << 7, 1 << 8, 1 << 14
_READ: Final = _READ_FILE | _READ_DIR
_FILE: Final = _READ_FILE | _WRITE_FILE
_SCRATCH: Final = (
    _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
)
# (first ABI version, number of file-system rights known to it)
_FILE_RIGHTS: Final = ((5, 16), (3, 15), (2, 14), (1, 13))
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_ALL_NETWORK, _ALL_SCOPES = 3, 3  # bind and connect; abstract sockets and signals

_libc = ctypes.CDLL(None, use_errno=True)
if hasattr(_libc, "prctl"):  # Linux only
    _libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


class Limits(NamedTuple):
    """Resource limits of one candidate process."""

    cpu_s: int
    memory_bytes: int
    file_bytes: int
    n_files: int
    n_processes: int | None = None
    """Of the whole box; None where others would count too, or something else counts."""


def apply_limits(limits: Limits) -> bool:
    """Set the rlimits; works without isolation too. The CPU limit kills one second later."""
    pairs = [
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.n_files, limits.n_files),
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
    ]
    if limits.n_processes is not None:
        pairs.append((resource.RLIMIT_NPROC, limits.n_processes, limits.n_processes))
    try:
        for name, soft, hard in pairs:
            resource.setrlimit(name, (soft, hard))
    except (OSError, ValueError):
        return False
    return True


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies."""
    if not hasattr(_libc, "prctl"):
        return
    _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)


class Jail:
    """What a candidate may do: read `readable`, write below `scratch`, compute."""

    def __init__(self, *, readable: Sequence[str], scratch: str, devices: Sequence[str]) -> None:
        self._inherited: tuple[str, ...] = ()
        self._rules = _landlock_rules(readable=readable, scratch=scratch, devices=devices)
        code = compile_filter()
        self._filter_code = None if code is None else ctypes.create_string_buffer(code, len(code))
        length = 0 if code is None else len(code) // 8
        address = 0 if self._filter_code is None else ctypes.addressof(self._filter_code)
        # struct sock_fprog: unsigned short length, then a pointer at its natural alignment.
        self._filter = ctypes.create_string_buffer(struct.pack("@HP", length, address))

    def shed_privileges(self) -> None:
        """Give up what children would inherit; done once, in the fork server."""
        if _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and _drop_capabilities():
            self._inherited = ("capabilities",)

    def enter(self, limits: Limits) -> tuple[str, ...]:
        """Lock this process up; return the names of the layers that took."""
        die_with_parent()
        took = [*self._inherited]
        if apply_limits(limits):
            took.append("rlimits")
        if self._rules is not None and _libc.syscall(_LANDLOCK_RESTRICT, self._rules, 0) == 0:
            took.append("landlock")
            os.close(self._rules)
        if (
            self._filter_code is not None
            and _libc.prctl(
                _SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(self._filter), 0, 0
            )
            == 0
        ):
            took.append("seccomp")
        return tuple(took)


LAYERS: Final = ("capabilities", "landlock", "rlimits", "seccomp")
"""All layers of a jail, sorted; a candidate runs only when every one of them took."""


def _drop_capabilities() -> bool:
    for capability in range(_N_CAPABILITIES):
        _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those already gone
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0))
    nothing = ctypes.create_string_buffer(struct.pack("=6I", 0, 0, 0, 0, 0, 0))
    return bool(_libc.capset(header, nothing) == 0)


def _landlock_rules(*, readable: Sequence[str], scratch: str, devices: Sequence[str]) -> int | None:
    version = _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _LANDLOCK_VERSION_FLAG)
    if version < 1:
        return None
    n_rights = next(count for since, count in _FILE_RIGHTS if version >= since)
    handled = (1 << n_rights) - 1
    attributes = struct.pack("=Q", handled)
    if version >= _NETWORK_SINCE:
        attributes += struct.pack("=Q", _ALL_NETWORK)
    if version >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", _ALL_SCOPES)
    rules = int(_libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0))
    if rules < 0:
        return None
    granted = [
        *((path, _READ) for path in readable),
        *((path, _FILE) for path in devices),
        (scratch, _SCRATCH),
    ]
    for path, rights in granted:
        # A path that is not there grants nothing, which is the safe side.
        with suppress(OSError):
            _grant(rules, path, rights & handled)
    return rules


def _grant(rules: int, path: str, rights: int) -> None:
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, beneath)
        if _libc.syscall(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_PATH_BENEATH, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), "landlock_add_rule", path)
    finally:
        os.close(beneath)
