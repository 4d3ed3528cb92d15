#!/usr/bin/env python3
"""A client as the original streaming project had it, against a running server at PACELINE_HTTP: start, raw
PCM in small chunks, stop; one JSON event per text message. Uses only what that protocol has, but for the name
of the model that counts samples, and fails on the first message that such a client would not understand.
"""

import asyncio
import json
import os
import pathlib
import wave

import websockets

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KNOWN = {
    "segment": {"type", "start_time", "end_time", "is_final", "count", "text", "stable", "channel"},
    "active": {"type", "time", "channel"},
    "inactive": {"type", "time", "channel"},
}


def speech() -> bytes:
    """Raw samples: 16 kHz, mono, 16 bit."""
    with wave.open(str(ROOT / "crates/cli/assets/speech.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        return file.readframes(file.getnframes())


def start(interim: bool = False, **other) -> str:
    """The message that begins a round."""
    form = {"channels": 1, "sample_rate": 16000, "bit_depth": 16, "is_float": False}
    return json.dumps({"request": "start", "trace_id": None, "format": form, "interim_results": interim} | other)


COUNTS = {"model": "simulated-speech"}


def stop(disconnect: bool) -> str:
    return json.dumps({"request": "stop", "disconnect": disconnect})


async def listen(socket) -> list:
    """Every event until the server closes, each checked for being one that the original knows."""
    events = []
    async for message in socket:
        event = json.loads(message)
        assert event["type"] in KNOWN, event
        assert set(event) <= KNOWN[event["type"]], event
        events.append(event)
    return events


async def talk(path: str, messages: list) -> list:
    """Sends everything, and hears meanwhile."""
    url = f"ws://{os.environ['PACELINE_HTTP']}/api/v1/{path}"
    async with websockets.connect(url) as socket:
        hearing = asyncio.create_task(listen(socket))
        for message in messages:
            await socket.send(message)
        events = await asyncio.wait_for(hearing, 60)
        assert socket.close_code == 1000, socket.close_code
    return events


def chunks(data: bytes, size: int = 255) -> list:
    """An odd size, so that samples are split between messages."""
    return [data[at : at + size] for at in range(0, len(data), size)]


async def simple(audio: bytes) -> None:
    events = await talk("simple", [start(**COUNTS), *chunks(audio), stop(True)])
    assert all(event["type"] == "segment" and "is_final" not in event for event in events)
    assert sum(event["count"] for event in events) == len(audio) // 2
    ends = [0.0] + [event["end_time"] for event in events]
    assert all(event["start_time"] == end for event, end in zip(events, ends)), "times are contiguous"
    assert ends[-1] == len(audio) / 2 / 16000


async def segmented(audio: bytes) -> None:
    events = await talk("segmented", [start(), *chunks(audio), stop(True)])
    kinds = [event["type"] for event in events]
    assert kinds.count("active") == kinds.count("inactive") == kinds.count("segment") > 0, kinds
    for number, event in enumerate(events):
        if event["type"] == "segment":
            before = [other for other in events[:number] if other["type"] == "inactive"]
            assert event["is_final"] and before[-1]["time"] >= event["end_time"]
            assert event["text"] == event["stable"]
    text = " ".join(event["text"] for event in events if event["type"] == "segment")
    assert "fellow Americans" in text, text
    interim = await talk("segmented", [start(True), *chunks(audio), stop(True)])
    # Sent at this speed, interim results may give way to the final ones.
    final = [event for event in interim if event.get("is_final", True)]
    assert sorted(map(json.dumps, final)) == sorted(map(json.dumps, events)), "interim results change nothing"


async def rounds(audio: bytes) -> None:
    """Start, data, stop, more data under the same start, a start in mid-stream, stop."""
    half = chunks(audio[:64000])
    again = await talk(
        "simple", [start(**COUNTS), *half, stop(False), *half, start(**COUNTS), *half, stop(False), stop(True)]
    )
    assert sum(event["count"] for event in again) == 3 * 32000
    assert sum(event["start_time"] == 0.0 for event in again) == 3, "times begin anew in each round"


async def main() -> None:
    audio = speech()
    for case in (simple, segmented, rounds):
        await case(audio)
        print(f"{case.__name__}: passed")


if __name__ == "__main__":
    asyncio.run(main())
