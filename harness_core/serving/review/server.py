"""Runs the review pages on the loopback interface until they are interrupted."""

import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from harness_core.errors import ParameterError
from harness_core.serving.decision_log import DecisionLog
from harness_core.serving.review.app import make_app
from harness_core.serving.review.blind_study import Study
from harness_core.serving.review.desk import Desk, ReviewLog

_HOST: Final = "127.0.0.1"
_STOP_WITHIN_S: Final = 3


def serve(*, log_folder: Path | None, study_folder: Path | None, reviewer: str, port: int) -> None:
    """Serve review of a log, a blind study, or both; returns when interrupted.

    Args:
        log_folder: of the decision log; None to leave review out.
        study_folder: of a prepared study; None to leave judging out.
        reviewer: whose name reviews carry.
        port: 0 for a free one; the address is written to stderr.

    Raises:
        ParameterError: the port is taken.
        NoDataError: there is no study.
        DecisionLogError: the log cannot be written to.
    """
    study = None if study_folder is None else Study(study_folder)
    start = "/" if log_folder is not None else "/blind"
    with _socket(port) as listening, _desk(log_folder) as desk:
        app = make_app(desk=desk, study=study, reviewer=reviewer)
        url = f"http://{_HOST}:{listening.getsockname()[1]}{start}"
        sys.stderr.write(f"Review at {url} as {reviewer}; Control-C ends it.\n")
        sys.stderr.flush()
        run(app, listening)


def run(app: ASGIApp, listening: socket.socket) -> None:
    """Serve an application on a socket until interrupted."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_WITHIN_S,
        lifespan="off",
    )
    # An interrupt is how the server is meant to end; it is raised once everything is closed.
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def _desk(log_folder: Path | None) -> Iterator[Desk | None]:
    if log_folder is None:
        yield None
        return
    if not log_folder.is_dir():
        raise ParameterError(f"--log: {log_folder} is no folder; the proxy makes one when it logs")
    with DecisionLog(log_folder) as log:
        yield Desk(ReviewLog.of_folder(log_folder, log))


@contextmanager
def _socket(port: int) -> Iterator[socket.socket]:
    with closing(socket.socket()) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
        except OSError as error:
            raise ParameterError(f"--port {port}: {error.strerror}; 0 takes a free one") from error
        listening.listen()
        yield listening
