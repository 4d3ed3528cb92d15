"""The vocoder without a server: what a call takes by its batch, and full batches back to back.

Prints a line of JSON for each part. `loop` does what any server must: batches come from the host's
memory and results go there. `loop_compute_only` leaves both out.
"""

import json
import sys
import time

import torch
from vocoder import DEVICE, FRAMES, MELS, SAMPLES, Speaker


def wait():
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def seconds_each(call, seconds):
    """Mean time of a call, after a few to warm up."""
    for _ in range(3):
        call()
    wait()
    start, count = time.perf_counter(), 0
    while True:
        call()
        count += 1
        # Asked now and then only: waiting for the device after each call would slow it down.
        if count % 4 == 0:
            wait()
            if seconds <= time.perf_counter() - start:
                return (time.perf_counter() - start) / count


def main():
    seconds, sizes, full = float(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
    speaker = Speaker()
    name = torch.cuda.get_device_name() if DEVICE != "cpu" else "CPU"
    weights = sum(weight.numel() for weight in speaker.net.parameters())
    about = f"{name}, torch {torch.__version__}, {weights / 1e6:.1f} M weights, {FRAMES} frames to {SAMPLES} samples"
    print(json.dumps({"machine": about}), flush=True)

    def calls(batch):
        on_host = torch.rand(batch, MELS, FRAMES)
        on_device = on_host.to(DEVICE)
        return (
            lambda: speaker.speak(on_host.to(DEVICE)).cpu(),
            lambda: speaker.speak(on_device),
        )

    curve = []
    for batch in map(int, sizes):
        whole, compute = (seconds_each(call, min(1, seconds / 4)) for call in calls(batch))
        ms, compute_ms = round(whole * 1e3, 3), round(compute * 1e3, 3)
        curve.append({"batch": batch, "ms": ms, "compute_ms": compute_ms})
    print(json.dumps({"curve": curve}), flush=True)
    for part, call in zip(("loop", "loop_compute_only"), calls(full)):
        # A clock that other processes have too.
        start = time.monotonic()
        each = seconds_each(call, 2 * seconds)
        loop = {"batch": full, "per_second": round(full / each, 1)}
        print(json.dumps({part: loop | {"between": [start, time.monotonic()]}}), flush=True)


if __name__ == "__main__":
    main()
