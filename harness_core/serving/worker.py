"""The inside of the scoring process: opens models and decides, until the proxy is gone."""

import logging
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import orjson

from harness_core.serving.conversation import Question
from harness_core.serving.deciding import Answered, Failure, Wish, decided
from harness_core.serving.frames import Frame, encode, receive
from harness_core.serving.heap import give_back, use_one_heap
from harness_core.serving.selector import Located, OpenFolder, OpenModel

_LOG = logging.getLogger("harness")


def take_socket() -> socket.socket:
    """The socket to the proxy, which is our standard input; programs that we run get none."""
    # The proxy decides when we end: it may still have answers to give after a Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return sock


class Worker:
    """Answers the frames of one proxy."""

    def __init__(self, sock: socket.socket, open_folder: OpenFolder) -> None:
        self._sock = sock
        self._open_folder = open_folder
        self._model: OpenModel | None = None
        self._deciding = threading.Lock()
        self._sending = threading.Lock()

    def run(self) -> None:
        """Decide one after the other; models are opened aside."""
        use_one_heap()
        while (frame := receive(self._sock)) is not None:
            if frame.head["do"] == "open":
                threading.Thread(target=self._open, args=(frame.head,), daemon=True).start()
            else:
                self._send(self._decide(frame))
        if self._model is not None:
            self._model.close()

    def _decide(self, frame: Frame) -> Frame:
        number, asked = frame.head["id"], orjson.loads(frame.content)
        question = Question(state=asked["state"], candidates=tuple(asked["candidates"]))
        with self._deciding:
            model = self._model
            found: Answered | Failure = "no_model"
            if model is not None:
                found = decided(model, Wish(question, asked["goal"], frame.head["price"]))
        if not isinstance(found, Answered):
            return Frame({"id": number, "failure": found})
        head = {"id": number, "wants_more": found.wants_more}
        return Frame(head, found.decision.model_dump_json().encode())

    def _open(self, head: dict[str, Any]) -> None:
        number = head["id"]
        try:
            model = self._open_folder(Located(head["version"], Path(head["folder"])))
        except BaseException as error:  # noqa: BLE001  # the one in use goes on deciding
            said = str(error) or type(error).__name__
            self._send(Frame({"id": number, "failure": said}))
            return
        with self._deciding:
            old, self._model = self._model, model
        self._send(Frame({"id": number, "k_max": model.k_max}))
        if old is not None:
            old.close()
            del old
            give_back()

    def _send(self, frame: Frame) -> None:
        try:
            with self._sending:
                self._sock.sendall(encode(frame))
        except ConnectionError:
            _LOG.debug("scoring: the proxy is gone")
