"""The same model by its makers' own library, moonshine-voice, over the same speech as `paceline bench`.

usage: bench/transcription/makers.py files [SECONDS] | streams [FIRST]
files: seconds of audio a second, on one process and on one for each core, as fast as it goes (default: 120 s each).
streams: how many real-time streams have their words within a second of the end of speech (p95), doubling from FIRST
(default: 2), shared out over one process for each core. The library transcribes whatever is being said every half
second and completes lines only then, so the server's figure beside it is the one with interim results.
"""

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time
import wave

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLIP = ROOT / "crates/cli/assets/speech.wav"
RATE = 16000
PAUSE = 4
# Of the server's segments, after their last frame of speech.
PAD = 0.3
# As `paceline bench stream` has it.
CHUNK = RATE // 10
IN_TIME = 1.0


def speech() -> list[float]:
    with wave.open(str(CLIP)) as file:
        data = file.readframes(file.getnframes())
    return [int.from_bytes(data[at : at + 2], "little", signed=True) / 32768 for at in range(0, len(data), 2)]


def transcriber():
    import moonshine_voice
    from moonshine_voice.transcriber import Transcriber

    folder = pathlib.Path(moonshine_voice.__file__).parent / "assets/tiny-en"
    made = Transcriber(str(folder), moonshine_voice.ModelArch.TINY)
    made.transcribe_without_streaming(speech(), RATE)
    return made


def together(n_processes: int, work, shares: list) -> list:
    """What each process answers; their work begins at one moment, once all are ready for it."""
    ready, answers, go = multiprocessing.Queue(), multiprocessing.Queue(), multiprocessing.Event()
    processes = [multiprocessing.Process(target=work, args=(share, ready, go, answers)) for share in shares]
    for process in processes[:n_processes]:
        process.start()
    for _ in processes[:n_processes]:
        ready.get()
    go.set()
    return [answers.get() for _ in processes[:n_processes]]


def file(seconds: int, ready, go, answers) -> None:
    made = transcriber()
    clip = speech()
    audio = (clip * (seconds * RATE // len(clip) + 1))[: seconds * RATE]
    ready.put(True)
    go.wait()
    began = time.monotonic()
    lines = made.transcribe_without_streaming(audio, RATE).lines
    answers.put((time.monotonic() - began, " ".join(line.text for line in lines)))


def files(seconds: int) -> None:
    for n_processes in sorted({1, os.cpu_count()}):
        took = together(n_processes, file, [seconds] * n_processes)
        speed = seconds * n_processes / max(seconds for seconds, _ in took)
        print(f"{n_processes} files at once: {speed:.1f} s of audio a second; it begins: {took[0][1][:60]!r}")


def ends() -> list[float]:
    """Seconds at which utterances of the clip end, as the server hears them."""
    command = [ROOT / "target/release/paceline", "transcribe", CLIP, "--format", "json"]
    told = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return [segment["end"] - PAD for segment in json.loads(told.stdout)["segments"]]


def play(share: tuple, ready, go, answers) -> None:
    """Plays streams in real time, one thread for all of them, as the library's examples do; latencies in seconds."""
    offsets, tape, ended = share
    made = transcriber()
    chunks = [tape[at : at + CHUNK] for at in range(0, len(tape), CHUNK)]
    streams, late = [], []
    ready.put(True)
    go.wait()
    began = time.monotonic()

    def listener(offset):
        def hear(event):
            if type(event).__name__ == "LineCompleted" and event.line.text:
                line = event.line.start_time + event.line.duration
                # It pads lines and ends some where the server hears no pause: then its own word counts.
                spoken = min(ended, key=lambda end: abs(end - line))
                spoken = spoken if abs(spoken - line) < 0.4 else line
                late.append(time.monotonic() - began - offset - spoken)

        return hear

    for offset in offsets:
        stream = made.create_stream()
        stream.add_listener(listener(offset))
        stream.start()
        streams.append(stream)
    due = sorted(
        (offset + (number + 1) * CHUNK / RATE, at, number)
        for at, offset in enumerate(offsets)
        for number in range(len(chunks))
    )
    for when, at, number in due:
        time.sleep(max(0.0, began + when - time.monotonic()))
        streams[at].add_audio(chunks[number], RATE)
        if began + when + 5 * IN_TIME < time.monotonic():
            break
    answers.put((late, number + 1 == len(chunks)))


def holds(n_streams: int, tape: list[float], ended: list[float]) -> bool:
    n_cores = os.cpu_count()
    offsets = [len(tape) / RATE * at / n_streams for at in range(n_streams)]
    shares = [(offsets[core::n_cores], tape, ended) for core in range(min(n_cores, n_streams))]
    answers = together(len(shares), play, shares)
    late = sorted(late for lates, _ in answers for late in lates)
    p95 = late[min(int(len(late) * 0.95), len(late) - 1)] if late else float("inf")
    is_held = p95 < IN_TIME and all(is_whole for _, is_whole in answers)
    print(f"{n_streams} streams: {len(late)} lines, p95 {p95 * 1000:.0f} ms, {'held' if is_held else 'not held'}", flush=True)
    return is_held


def streams(first: int) -> None:
    ended = ends()
    tape = speech() + [0.0] * (PAUSE * RATE)
    good, bad, next = 0, None, first
    while bad is None or good + max(good // 16, 1) < bad:
        if holds(next, tape, ended):
            good = next
        else:
            bad = next
        next = good * 2 if bad is None else max((good + bad) // 2, 1)
        if bad == 1:
            break
    print(f"{good} streams had their words within a second of the end of speech (p95).")


if __name__ == "__main__":
    what, number = sys.argv[1], sys.argv[2:]
    {"files": files, "streams": streams}[what](int(number[0]) if number else {"files": 120, "streams": 2}[what])
