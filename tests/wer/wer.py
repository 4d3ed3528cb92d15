"""Word error rates of the recogniser, and whether an utterance's words are the same alone, batched and streamed.

usage: wer.py [--quick] [--json] [BINARY]
"""

import argparse
import asyncio
import json
import pathlib
import re
import sys
import wave

import numpy

from server import Server
from synth import RATE, Voice, noisy, quantised

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The clips that are in the repository, and what is said in them.
CLIPS = {
    "crates/audio/tests/golden/jfk.wav": "and so my fellow americans ask not what your country can do for you "
    "ask what you can do for your country",
    "crates/asr/tests/golden/beckett.wav": "ever tried ever failed no matter try again fail again fail better",
    "crates/asr/tests/golden/two_cities.wav": "it was the best of times it was the worst of times it was the age of "
    "wisdom it was the age of foolishness it was the epoch of belief it was the epoch of incredulity it was the "
    "season of light it was the season of darkness it was the spring of hope it was the winter of despair we had "
    "everything before us we had nothing before us we were all going direct to heaven we were all going direct the "
    "other way in short the",
}
SENTENCES = [
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue background.",
    "It is easy to tell the depth of a well.",
    "These days a chicken leg is a rare dish.",
    "Rice is often served in round bowls.",
    "The juice of lemons makes fine punch.",
    "The box was thrown beside the parked truck.",
    "Four hours of steady work faced us.",
    "A large size in stockings is hard to sell.",
    "The boy was there when the sun rose.",
    "A rod is used to catch pink salmon.",
    "The source of the huge river is the clear spring.",
    "Kick the ball straight and follow through.",
    "Help the woman get back to her feet.",
    "A pot of tea helps to pass the evening.",
    "Smoky fires lack flame and heat.",
]
SPEEDS = [130, 170, 220]
# Decibels of speech over noise.
NOISES = [None, 20, 10]
AT_ONCE = 16


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z0-9' ]", " ", text.lower()).split()


def errors(expected: list[str], said: list[str]) -> int:
    """Words to change, leave out or put in: the edit distance."""
    row = list(range(len(said) + 1))
    for i, word in enumerate(expected, 1):
        left, row[0] = row[0], i
        for j, other in enumerate(said, 1):
            left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, left + (word != other))
    return row[-1]


def clips(quick: bool) -> dict[str, list[tuple[numpy.ndarray, str]]]:
    """Groups of samples with what is said in them."""
    groups: dict[str, list] = {"clips": []}
    for path, text in CLIPS.items():
        with wave.open(str(ROOT / path)) as file:
            groups["clips"].append((numpy.frombuffer(file.readframes(file.getnframes()), "<i2"), text))
    voice = Voice()
    for speed in SPEEDS[1:2] if quick else SPEEDS:
        said = [(voice.say(text, speed), text) for text in SENTENCES[: 4 if quick else None]]
        for noise in NOISES[:2] if quick else NOISES:
            name = f"espeak-ng, {speed} words a minute, " + ("no noise" if noise is None else f"{noise} dB")
            groups[name] = [
                (quantised(noisy(samples, noise, number)), text) for number, (samples, text) in enumerate(said)
            ]
    return groups


async def measure(server: Server, group: list) -> dict:
    audio = [samples for samples, _ in group]
    alone = [server.infer(samples) for samples in audio]
    batched = await server.infer_all(audio, AT_ONCE)
    streams = [server.stream(samples, seed) for seed, samples in enumerate(audio)]
    streamed = await asyncio.gather(*streams)
    # An utterance that was found in a stream, asked for again by itself.
    again = []
    for samples, segments in zip(audio, streamed):
        for segment in segments:
            span = [round(segment[field] * RATE) for field in ("start_time", "end_time")]
            again.append((segment["text"], samples[slice(*span)]))
    apart = await server.infer_all([samples for _, samples in again], 1)
    texts = {
        "alone": alone,
        "batched": batched,
        "streamed": [" ".join(segment["text"] for segment in segments) for segments in streamed],
    }
    expected = [words(text) for _, text in group]
    n_words = sum(map(len, expected))
    rate = lambda said: sum(errors(e, words(s)) for e, s in zip(expected, said)) / n_words
    return {
        "words": n_words,
        "wer": {way: rate(said) for way, said in texts.items()},
        "utterances": len(again),
        "differ": sum(a != b for a, b in zip(alone, batched))
        + sum(text != said for (text, _), said in zip(again, apart)),
    }


async def interim(server: Server, group: list) -> dict:
    """Whether anything that was stable was taken back, at the pace of speech."""
    result = {"utterances": 0, "interims": 0, "stable_words": 0, "final_words": 0, "taken_back": 0}
    for segments in await asyncio.gather(*(server.stream(samples, 1, True) for samples, _ in group)):
        stable = ""
        for segment in segments:
            if segment["is_final"]:
                result["utterances"] += 1
                result["stable_words"] += len(words(stable))
                result["final_words"] += len(words(segment["text"]))
                result["taken_back"] += not segment["text"].startswith(stable)
                stable = ""
            else:
                result["interims"] += 1
                result["taken_back"] += not segment["stable"].startswith(stable)
                stable = segment["stable"]
    return result


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a part of it, in half a minute")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/paceline"))
    args = parser.parse_args()
    groups = clips(args.quick)
    with Server(args.binary, str(ROOT / "models")) as server:
        results = {name: await measure(server, group) for name, group in groups.items()}
        stable = await interim(server, groups["clips"] + groups[list(groups)[1]][:6])
    if args.json:
        print(json.dumps({"groups": results, "interim": stable}, indent=1))
    else:
        print(f"{'':<46}{'words':>6}{'alone':>9}{'batched':>9}{'streamed':>10}{'utterances':>12}{'differ':>8}")
        for name, result in results.items():
            rates = "".join(f"{rate:>{width}.1%}" for rate, width in zip(result["wer"].values(), (9, 9, 10)))
            print(f"{name:<46}{result['words']:>6}{rates}{result['utterances']:>12}{result['differ']:>8}")
        print(f"interim results at the pace of speech: {stable}")
    failed = sum(result["differ"] for result in results.values()) + stable["taken_back"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
