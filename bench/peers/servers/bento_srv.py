"""BentoML. It has no longest wait, only a bound on latency, so it adapts as it likes."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from typing import List
import bentoml
import curve


@bentoml.service(
    workers=1,
    threads=1,
    traffic={"timeout": 60},
    logging={"access": {"enabled": False}},
    metrics={"enabled": os.environ.get("BENTO_METRICS", "1") == "1"},
)
class M:
    @bentoml.api(
        batchable=True,
        max_batch_size=curve.MAXB,
        max_latency_ms=int(os.environ.get("MAX_LAT_MS", "10000")),
    )
    def infer(self, input: List[str]) -> List[int]:
        if curve.MODEL != "echo":
            curve.sim(len(input))
        return [len(x) for x in input]
