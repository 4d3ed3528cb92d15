"""What the Python clients share: the clip, where the server is, and what must come of it."""

import array
import collections
import os
import pathlib
import re
import wave

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLIP = ROOT / "crates/cli/assets/speech.wav"
HTTP = os.environ["PACELINE_HTTP"]
SAID = (
    "and so my fellow americans ask not what your country can do for you "
    "ask what you can do for your country"
).split()


def clip() -> bytes:
    """The file itself."""
    return CLIP.read_bytes()


def samples(rate: int = 16000, silence: float = 2.0) -> bytes:
    """Its samples, mono, 16 bit, at a rate; then a silence that ends the last utterance."""
    with wave.open(str(CLIP)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        own = array.array("h", file.readframes(file.getnframes()))
    last = len(own) - 1
    at = (n * 16000 / rate for n in range(int(len(own) * rate / 16000)))
    out = array.array("h", (own[min(round(x), last)] for x in at))
    out.extend([0] * int(silence * rate))
    return out.tobytes()


def chunks(data: bytes, size: int = 3200) -> list:
    return [data[at : at + size] for at in range(0, len(data), size)]


def check(text: str, what: str) -> None:
    """Most words that were said are in the text, as often as they were said."""
    heard = collections.Counter(re.findall(r"[a-z']+", text.lower()))
    missed = collections.Counter(SAID) - heard
    assert missed.total() <= 4, f"{what}: {text!r}"
