"""The worker process: loads one model and runs the calls that the server sends.

Started by the server through ``boot.py``, with the control socket as its standard input. It ends
when the socket does.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from . import confine, frames
from .batch import Batch, Results
from .frames import Control, Gone, Message, Requests, Room, Segment
from .model import Declared, ItemError, create


class Worker:
    """One model and its end of the socket."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._room = Room(control)
        self._model: Any = None
        self._declared: Declared | None = None
        self._segment: Segment | None = None
        self._requests: Requests | None = None

    def load(self, place: str, folder: str) -> bool:
        """Loads the model and says so; ``False`` if it cannot be."""
        self._take_first_segments()
        try:
            self._model = create(place, folder)
            load = getattr(self._model, "load", None)
            if load is not None:
                load()
            self._declared = Declared(self._model)
        except Exception as error:
            traceback.print_exc()
            self._room.send_text(frames.LOAD_FAILED, describe(error))
            return False
        self._requests = Requests(self._segment, self._declared.inputs)
        gc.collect()
        gc.freeze()
        self._room.clear()
        declared = self._declared.to_json()
        self._room.put(declared)
        self._control.send(frames.READY, 0, len(declared))
        return True

    def _take_first_segments(self) -> None:
        for _ in range(2):
            self._take_segment(self._control.receive())

    def _take_segment(self, message: Message) -> None:
        if message.fd is None:
            raise RuntimeError("a segment came without its descriptor")
        segment = Segment(message.fd, message.length)
        if message.kind == frames.RESULTS:
            self._room.use(segment)
        else:
            self._segment = segment
            if self._declared is not None:
                self._requests = Requests(segment, self._declared.inputs)

    def run(self) -> None:
        """Answers until the server leaves."""
        while True:
            message = self._control.receive()
            if message.kind == frames.CALL:
                self._call(message)
            elif message.kind == frames.PING:
                self._control.send(frames.PONG, message.call)
            else:
                self._take_segment(message)

    def _call(self, message: Message) -> None:
        room = self._room
        room.clear()
        room.call = message.call
        try:
            outputs = self._declared.outputs
            arrays = self._requests.read(message.length)
            batch = Batch(arrays, message.extra, self._declared.inputs, outputs, room)
            result = self._model.infer(batch)
            if self._declared.streams:
                self._stream(result, message.extra)
                room.clear()
                room.send_results(frames.RESULT, Results(room, {}, 0))
            else:
                results = Results(room, outputs, message.extra).write(result)
                room.send_results(frames.RESULT, results)
        except Gone:
            raise
        except Exception as error:
            if not isinstance(error, ItemError):
                traceback.print_exc()
            room.send_text(frames.ERROR, describe(error))

    def _stream(self, results: Iterator[Any], rows: int) -> None:
        """Hands over each result as it is there, and goes on when the server has taken it."""
        try:
            for result in results:
                written = Results(self._room, self._declared.outputs, rows).write(result)
                self._room.send_results(frames.PARTIAL, written)
                message = self._control.receive()
                if message.kind != frames.NEXT:
                    raise RuntimeError(f"message {message.kind} came in the middle of a stream")
                if message.extra:
                    # Nobody listens any more.
                    return
                self._room.clear()
        finally:
            results.close()


def describe(error: BaseException) -> str:
    """An error in one line: an item's own words, or what Python says last."""
    if isinstance(error, ItemError):
        return str(error) or "the model refused the item"
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def main() -> None:
    """What a worker does."""
    parser = argparse.ArgumentParser(prog="paceline.worker", description=__doc__)
    parser.add_argument("--class", dest="place", required=True, help="module:Class")
    parser.add_argument("--folder", required=True, help="where the module is looked for first")
    parser.add_argument("--memory-limit", type=int, help="bytes that the process may allocate")
    parser.add_argument("--sandbox", action="store_true", help="read nothing but what is needed, write nothing")
    options = parser.parse_args()

    connection = socket.socket(fileno=os.dup(0))
    # The model's code finds an empty standard input, not the control socket.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    confine.die_with_parent(connection)
    confine.dump_no_core()
    os.chdir(options.folder)
    worker = Worker(Control(connection))
    try:
        if options.memory_limit is not None:
            confine.limit_memory(options.memory_limit)
        if options.sandbox:
            confine.sandbox(options.folder)
        if not worker.load(options.place, options.folder):
            sys.exit(1)
        worker.run()
    except Gone:
        # Python's own clean-up may wait for threads of the model; nobody waits for this process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
