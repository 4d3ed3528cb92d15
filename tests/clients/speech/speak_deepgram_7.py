"""deepgram-sdk 7 speaks: a text whole and a conversation by WebSocket; the recogniser understands both."""

import array
import threading

from deepgram import DeepgramClient
from deepgram.environment import DeepgramClientEnvironment
from deepgram.speak.v1.types import SpeakV1Text
from websockets.exceptions import InvalidStatus

from common import HTTP, understood

here = DeepgramClientEnvironment(
    base=f"http://{HTTP}", production=f"ws://{HTTP}", agent=f"ws://{HTTP}", agent_rest=f"http://{HTTP}"
)
client = DeepgramClient(api_key="any", environment=here)
PIECES = ["The weather was cold and clear ", "on the morning of the race."]
TEXT = "".join(PIECES)


def understand(file: bytes, what: str) -> None:
    answer = client.listen.v1.media.transcribe_file(request=file, model="nova-3")
    understood(TEXT, answer.results.channels[0].alternatives[0].transcript, what)


def whole() -> None:
    wav = b"".join(client.speak.v1.audio.generate(text=TEXT, model="aura-2-thalia-en", encoding="linear16"))
    assert wav[:4] == b"RIFF", wav[:16]
    understand(wav, "a text")
    opus = b"".join(client.speak.v1.audio.generate(text=TEXT, model="aura-2-thalia-en", encoding="opus"))
    assert opus[:4] == b"OggS", opus[:16]


def conversation() -> None:
    with client.speak.v1.connect(model="aura-2-thalia-en", encoding="linear16", sample_rate="16000") as socket:
        heard = []
        listener = threading.Thread(target=lambda: heard.extend(socket))
        listener.start()
        for piece in PIECES:
            socket.send_text(SpeakV1Text(text=piece))
        socket.send_flush()
        socket.send_close()
        listener.join()
    sound = b"".join(message for message in heard if isinstance(message, bytes))
    told = [message for message in heard if not isinstance(message, bytes)]
    assert [message.type for message in told] == ["Metadata", "Flushed"], told
    assert told[1].sequence_id == 0, told
    assert heard[0].type == "Metadata" and heard[-1].type == "Flushed"
    samples = array.array("h", sound)
    assert 2 * 16000 < len(samples) < 8 * 16000, len(samples)
    header = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\1\0\x80>\0\0\0}\0\0\2\0\x10\0data\xff\xff\xff\xff"
    understand(header + sound, "a conversation")


def refused() -> None:
    try:
        with client.speak.v1.connect(model="nobody"):
            raise AssertionError("nobody spoke")
    except InvalidStatus as error:
        assert error.response.status_code == 404, error


whole()
conversation()
refused()
