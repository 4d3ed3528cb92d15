"""Mosec, with its own JSON."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from typing import List
from mosec import Server, Worker
import curve


class Echo(Worker):  # default JSON (de)serialisation
    def forward(self, data: List[dict]) -> List[dict]:
        return [{"length": len(d["input"])} for d in data]


class Sim(Worker):
    def forward(self, data: List[dict]) -> List[dict]:
        curve.sim(len(data))
        return [{"length": len(d["input"])} for d in data]


class Same(Worker):
    """Raw bytes in and out. Between, a view, and a copy at the end, as of an array."""

    def deserialize(self, data: bytes) -> memoryview:
        return memoryview(data)

    def serialize(self, data: memoryview) -> bytes:
        return bytes(data)

    def forward(self, data: List[memoryview]) -> List[memoryview]:
        return data


if __name__ == "__main__":
    s = Server()
    s.append_worker(
        {"echo": Echo, "sim": Sim, "bytes": Same}[curve.MODEL],
        num=1,
        max_batch_size=curve.MAXB,
        max_wait_time=max(1, int(curve.WAIT_MS)),
    )
    s.run()
