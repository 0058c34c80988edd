"""`taskmachine dev`: serve tools on this machine, and again after each change of their code.

The server is a child process.  A change stops it, and its tasks go back to the store, where the
next one continues them.
"""

import argparse
import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from taskmachine.adapters.cli.main import run_command
from taskmachine.adapters.server.foreground import (
    add_log_options,
    add_tools_option,
    announce,
    configure,
)
from taskmachine.adapters.server.serving import run_server
from taskmachine.adapters.tools.loading import folder_of
from taskmachine.adapters.transports.settings import Settings
from taskmachine.statemachine import ConfigurationError

__all__ = ["add_to"]

FLAGS: Final = ("http", "store", "tools")
PASSED: Final = (*FLAGS, "config", "debug", "log_format", "log_level")
"""The options that the child process needs."""

HOST: Final = "127.0.0.1"
PORTS: Final = range(8000, 8100)
"""The ports to try, in this order."""

STOP_S: Final = 10.0
"""How long the server may take to stop before it is killed."""


def add_to(commands: Any, _: Callable[[], Any]) -> None:
    """Add the command to a parser."""
    does = "serve tools on this machine and reload them when a Python file changes"
    dev = commands.add_parser("dev", help=does, description=f"S{does[1:]}.")
    add_tools_option(dev)
    dev.add_argument(
        "--http",
        metavar="HOST:PORT",
        help=f"listen on this address; default: the first free port from {HOST}:{PORTS[0]}",
    )
    dev.add_argument(
        "--store", metavar="URL", help="store for tasks; default: sqlite:taskmachine.db"
    )
    dev.add_argument("--config", metavar="FILE", help="read settings from a TOML file")
    dev.add_argument(
        "--no-browser", action="store_true", help="do not open the console in the browser"
    )
    add_log_options(dev)
    dev.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        from watchfiles import PythonFilter, watch
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"dev needs the package {error.name}: pip install 'taskmachine[dev]'"
        ) from None
    settings = _configured(options)
    if settings.http is None:
        options.http = _free_address()
    folder = folder_of(settings.tools)
    is_open = multiprocessing.get_context("spawn").Event()
    if options.no_browser:
        is_open.set()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    announce(f"reloading after each change of a Python file in {folder}; Ctrl-C stops")
    server = _start(options, is_open)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            for changes in watch(folder, watch_filter=PythonFilter()):
                changed = ", ".join(sorted({Path(path).name for _, path in changes}))
                announce(f"reloading after a change of {changed}")
                _stop(server)
                server = _start(options, is_open)
    finally:
        _stop(server)
    return 0


def _configured(options: argparse.Namespace) -> Settings:
    return configure(options, {name: getattr(options, name) for name in FLAGS})


def _free_address() -> str:
    for port in PORTS:
        try:
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        return f"{HOST}:{port}"
    raise ConfigurationError(
        f"ports {PORTS[0]} to {PORTS[-1]} are in use: choose another with --http {HOST}:PORT"
    )


def _start(options: argparse.Namespace, is_open: Any) -> BaseProcess:
    passed = argparse.Namespace(**{name: getattr(options, name) for name in PASSED})
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(passed, is_open))
    # Inherited by the child: Ctrl-C also reaches it, perhaps before it can handle signals.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    server.start()
    signal.signal(signal.SIGINT, handler)
    return server


def _stop(server: BaseProcess) -> None:
    server.terminate()
    server.join(STOP_S)
    server.kill()
    server.join()


# --- the child process -----------------------------------------------------------------------


def _serve(options: argparse.Namespace, is_open: Any) -> None:
    """Serve until the parent stops this process or has ended itself."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    options.run = partial(_serve_once, is_open=is_open)
    status = run_command(options)
    if status:
        announce("waiting for the next change")
    sys.exit(status)


def _serve_once(options: argparse.Namespace, is_open: Any) -> int:
    # Tools that wait for an answer would use up any grace period.
    run_server(_configured(options), console=partial(_open_once, is_open), grace_s=0)
    return 0


def _open_once(is_open: Any, url: str) -> None:
    if not is_open.is_set():
        is_open.set()
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "the server is a child process"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
