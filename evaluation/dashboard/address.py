"""The address that the dashboard listens on. No Gradio here: a port in use is said at once."""

from __future__ import annotations

import errno
import ipaddress
import socket

from cloudrl.errors import UserError


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises UserError when the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)  # now a second dashboard finds the port taken
        return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"port {port} of {host} is in use: say --port with another number") from None
        raise UserError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    except OverflowError:
        raise UserError(f"--port {port}: ports are 0 to 65535") from None


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def url(listener: socket.socket, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
