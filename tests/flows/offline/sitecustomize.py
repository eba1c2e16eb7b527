"""Put on PYTHONPATH, this refuses every socket that leaves the machine, in all Python children.

Attempts are appended to the file that `HARNESS_TEST_NETWORK_LOG` names, so that a refusal that
somebody swallowed is still seen.
"""

import ipaddress
import os
import socket
import traceback

_LOCAL_NAMES = {"localhost", "", None, b"localhost"}


def _is_loopback(host):
    if host in _LOCAL_NAMES:
        return True
    name = host.decode() if isinstance(host, bytes) else str(host)
    try:
        return ipaddress.ip_address(name).is_loopback or name == "0.0.0.0"  # a bind
    except ValueError:
        return name == socket.gethostname()


def _refuse(kind, host):
    with open(os.environ["HARNESS_TEST_NETWORK_LOG"], "a") as log:
        log.write(f"{kind} {host!r}\n")
        log.write("".join(traceback.format_stack(limit=8)))
    raise OSError(f"the network is off in this test: {kind} {host!r}")


def _guard_address(name):
    original = getattr(socket.socket, name)

    def guarded(self, address, *args):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            _refuse(name, address[0])
        return original(self, address, *args)

    setattr(socket.socket, name, guarded)


def _guard_lookup():
    original = socket.getaddrinfo

    def guarded(host, *args, **kwargs):
        if not _is_loopback(host):
            _refuse("getaddrinfo", host)
        return original(host, *args, **kwargs)

    socket.getaddrinfo = guarded


if os.environ.get("HARNESS_TEST_NETWORK_LOG"):
    for _name in ("connect", "connect_ex"):
        _guard_address(_name)
    _guard_lookup()
