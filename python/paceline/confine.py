"""What the worker does to itself before it runs a line of the model's code."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import struct
import sys
import sysconfig

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _prctl(name: str, option: int, value: int) -> None:
    _checked(name, _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def die_with_parent(control: socket.socket) -> None:
    """Leaves no orphan: the process, and those it forks, end when the server does."""

    def attach() -> None:
        _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal.SIGKILL)

    def in_child() -> None:
        # A copy of the socket would hide this process's death from the server.
        control.close()
        attach()

    attach()
    os.register_at_fork(after_in_child=in_child)
    # The server may have gone before the line above.
    poll = select.poll()
    poll.register(control, select.POLLHUP)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):
        os._exit(0)


def dump_no_core() -> None:
    """Lets a crash be seen at once: whoever waits for an answer would wait for the dump as well."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def limit_memory(n_bytes: int) -> None:
    """Lets the process allocate so much and no more; beyond it, ``MemoryError``.

    Counted is private memory, because device drivers reserve addresses without end, and those are
    free.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))


# Landlock, from linux/landlock.h.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# All rights of a file, as opposed to those of a folder: execute, write, read, truncate, ioctl.
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
# How many file rights each version of the interface knows.
_N_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_TCP = 3
_SIGNALS_AND_SOCKETS = 3


def sandbox(folder: str) -> None:
    """Takes away what a model does not need.

    Reading is left for the model's folder, Python and the system's libraries; writing for devices;
    TCP and signals to others are refused where the kernel can. Raises where there is no Landlock:
    a sandbox that is not there must not look like one.
    """
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)
    version = _libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        raise OSError("sandbox = true needs Landlock, which this kernel does not have or allow")
    handled = (1 << _N_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack(
        "<QQQ", handled, _TCP if 4 <= version else 0, _SIGNALS_AND_SOCKETS if 6 <= version else 0
    )
    size = 24 if 6 <= version else 16 if 4 <= version else 8
    ruleset = _checked("landlock_create_ruleset", _libc.syscall(_CREATE_RULESET, attributes, size, 0))
    try:
        for path in _needed(folder):
            _allow(ruleset, path, _READ & handled)
        for path in ("/dev", "/proc/self"):
            _allow(ruleset, path, (_READ | _WRITE_FILE | 1 << 15) & handled)
        _checked("landlock_restrict_self", _libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _needed(folder: str) -> set[str]:
    python = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    imports = {path for path in sys.path if path}
    system = {"/usr", "/lib", "/lib64", "/opt", "/sys/devices", "/etc/ld.so.cache", "/etc/localtime"}
    return {folder} | python | imports | system


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _FILE_RIGHTS
        rule = struct.pack("<Qi", rights, fd)
        _checked(
            "landlock_add_rule", _libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
        )
    finally:
        os.close(fd)
