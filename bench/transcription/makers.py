"""The same model by its makers' own library, moonshine-voice, over the same speech: seconds of audio a second.

usage: bench/transcription/run [SECONDS] (default: 120). One process for each core, each with a file, as fast as it goes.
"""

import multiprocessing
import os
import pathlib
import sys
import time
import wave

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def speech(seconds: int) -> list[float]:
    with wave.open(str(ROOT / "crates/cli/assets/speech.wav")) as file:
        data = file.readframes(file.getnframes())
    samples = [int.from_bytes(data[at : at + 2], "little", signed=True) / 32768 for at in range(0, len(data), 2)]
    return (samples * (seconds * 16000 // len(samples) + 1))[: seconds * 16000]


def transcribe(seconds: int, ready, go, answers) -> None:
    import moonshine_voice
    from moonshine_voice.transcriber import Transcriber

    folder = pathlib.Path(moonshine_voice.__file__).parent / "assets/tiny-en"
    transcriber = Transcriber(str(folder), moonshine_voice.ModelArch.TINY)
    transcriber.transcribe_without_streaming(speech(12), 16000)
    audio = speech(seconds)
    ready.put(True)
    go.wait()
    began = time.monotonic()
    lines = transcriber.transcribe_without_streaming(audio, 16000).lines
    answers.put((time.monotonic() - began, " ".join(line.text for line in lines)))


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    for processes in (1, os.cpu_count()):
        ready, answers, go = multiprocessing.Queue(), multiprocessing.Queue(), multiprocessing.Event()
        workers = [
            multiprocessing.Process(target=transcribe, args=(seconds, ready, go, answers)) for _ in range(processes)
        ]
        for worker in workers:
            worker.start()
        for _ in workers:
            ready.get()
        go.set()
        took = [answers.get() for _ in workers]
        speed = seconds * processes / max(took for took, _ in took)
        print(f"{processes} files at once: {speed:.1f} s of audio a second; it begins: {took[0][1][:60]!r}")


if __name__ == "__main__":
    main()
