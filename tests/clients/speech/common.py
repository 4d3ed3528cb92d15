"""What the Python clients share: the clips, where the server is, and what must come of them."""

import array
import collections
import dataclasses
import json
import os
import pathlib
import re
import wave

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HTTP = os.environ["PACELINE_HTTP"]


@dataclasses.dataclass(frozen=True)
class Clip:
    path: pathlib.Path
    said: list

    def file(self) -> bytes:
        """The file itself."""
        return self.path.read_bytes()

    def own(self) -> array.array:
        with wave.open(str(self.path)) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
            return array.array("h", file.readframes(file.getnframes()))

    def seconds(self) -> float:
        return len(self.own()) / 16000

    def samples(self, rate: int = 16000, silence: float = 2.0) -> bytes:
        """Its samples, mono, 16 bit, at a rate; then a silence that ends the last utterance."""
        own = self.own()
        last = len(own) - 1
        at = (n * 16000 / rate for n in range(int(len(own) * rate / 16000)))
        out = array.array("h", (own[min(round(x), last)] for x in at))
        out.extend([0] * int(silence * rate))
        return out.tobytes()

    def check(self, text: str, what: str) -> None:
        """Most words that were said are in the text, as often as they were said."""
        heard = collections.Counter(re.findall(r"[a-z']+", text.lower()))
        missed = collections.Counter(self.said) - heard
        assert missed.total() <= max(4, len(self.said) // 5), f"{self.path.name}, {what}: {text!r}"


CLIPS = [Clip(ROOT / path, said.split()) for path, said in json.loads((HERE / "clips.json").read_text()).items()]
# For what is asked of one clip only.
FIRST = CLIPS[0]


def chunks(data: bytes, size: int = 3200) -> list:
    return [data[at : at + size] for at in range(0, len(data), size)]


def understood(said: str, heard: str, what: str) -> None:
    """At most one word in six of what a voice said is heard as something else."""
    words, got = (collections.Counter(re.findall(r"[a-z']+", text.lower())) for text in (said, heard))
    missed = (words - got).total()
    assert missed * 6 <= words.total(), f"{what}: {said!r} was heard as {heard!r}"
