"""The models every Python peer serves: `echo`, and `sim`, which sleeps as long as a batch would take.

The curve is 50 ms for a batch of one, 70 for 8, 150 for 32, 280 for 64, linear between.
"""

import os
import time

MODEL = os.environ.get("MODEL", "echo")
WAIT_MS = float(os.environ.get("WAIT_MS", "50"))
MAXB = int(os.environ.get("MAXB", "32"))
PORT = int(os.environ.get("PORT", "9100"))

_POINTS = [(1, 0.050), (8, 0.070), (32, 0.150), (64, 0.280)]
_LOG = os.environ.get("BATCHLOG")
_sizes = {}
_written = [time.time()]


def batch_seconds(size):
    if size <= 1:
        return _POINTS[0][1]
    for (low, low_s), (high, high_s) in zip(_POINTS, _POINTS[1:]):
        if size <= high:
            return low_s + (high_s - low_s) * (size - low) / (high - low)
    return 0.280 * size / 64


def sim(size):
    """Sleeps for a batch of this size, and notes the size."""
    time.sleep(batch_seconds(size))
    if not _LOG:
        return
    _sizes[size] = _sizes.get(size, 0) + 1
    # Once a second is enough, and keeps the note out of the measurement.
    if time.time() - _written[0] > 1.0:
        _written[0] = time.time()
        with open(_LOG, "w") as log:
            log.write(repr(_sizes))
