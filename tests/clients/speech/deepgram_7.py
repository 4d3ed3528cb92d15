"""deepgram-sdk 7: a file, a stream with everything that can be told, and refusals."""

import threading

from deepgram import DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from deepgram.listen.v1 import types
from websockets.exceptions import InvalidStatus

from common import CLIPS, FIRST, HTTP, Clip, chunks

here = DeepgramClientEnvironment(
    base=f"http://{HTTP}", production=f"ws://{HTTP}", agent=f"ws://{HTTP}", agent_rest=f"http://{HTTP}"
)
client = DeepgramClient(api_key="any", environment=here)


def whole(clip: Clip) -> None:
    answer = client.listen.v1.media.transcribe_file(request=clip.file(), model="nova-3", smart_format=True)
    type(answer).model_validate(answer.model_dump())
    assert abs(answer.metadata.duration - clip.seconds()) < 0.1, answer.metadata
    assert answer.metadata.channels == 1 and len(answer.metadata.sha256) == 64
    clip.check(answer.results.channels[0].alternatives[0].transcript, "a file")


def talk(send, **options) -> list:
    """Everything that comes until the server closes, each of the type that it says it is."""
    options = {"model": "nova-3", "encoding": "linear16", "sample_rate": "16000", **options}
    with client.listen.v1.connect(**options) as socket:
        sender = threading.Thread(target=send, args=(socket,))
        sender.start()
        messages = list(socket)
        sender.join()
    for message in messages:
        assert message.type == type(message).__name__.removeprefix("ListenV1"), message
        type(message).model_validate(message.model_dump())
    return messages


def streamed(clip: Clip) -> None:
    def send(socket):
        socket.send_keep_alive()
        for chunk in chunks(clip.samples()):
            socket.send_media(chunk)
        socket.send_close_stream()

    messages = talk(
        send, interim_results="true", utterance_end_ms="1000", vad_events="true", endpointing="300"
    )
    kinds = [message.type for message in messages]
    assert kinds[0] == "SpeechStarted" and kinds[-1] == "Metadata", kinds
    assert "UtteranceEnd" in kinds, kinds
    finals = [m for m in messages if m.type == "Results" and m.is_final]
    clip.check(" ".join(m.channel.alternatives[0].transcript for m in finals), "a stream")
    assert finals[-1].speech_final and not any(m.from_finalize for m in finals)
    assert abs(messages[-1].duration - clip.seconds() - 2.0) < 0.1
    starts = [m.start for m in finals]
    assert starts == sorted(starts)


def finalized() -> None:
    def send(socket):
        audio = FIRST.samples()
        half = 5 * 32000
        for chunk in chunks(audio[:half]):
            socket.send_media(chunk)
        socket.send_finalize()
        socket.send_configure(types.ListenV1Configure(keyterms=["country"]))
        for chunk in chunks(audio[half:]):
            socket.send_media(chunk)
        socket.send_finalize()
        socket.send_close_stream()

    messages = talk(send)
    assert sum(m.type == "Results" and bool(m.from_finalize) for m in messages) == 2, messages
    (failure,) = [m for m in messages if m.type == "ConfigureFailure"]
    assert failure.code == "CONFIGURE_KEYTERMS_NOT_SUPPORTED"


def channels() -> None:
    stereo = b"".join(chunk + b"\0\0" for chunk in chunks(FIRST.samples(), 2))

    def send(socket):
        for chunk in chunks(stereo):
            socket.send_media(chunk)
        socket.send_close_stream()

    messages = talk(send, channels="2", multichannel="true")
    finals = [m for m in messages if m.type == "Results"]
    assert all(m.channel_index == [0, 2] for m in finals), "the silent one says nothing"
    FIRST.check(" ".join(m.channel.alternatives[0].transcript for m in finals), "one channel of two")


def refused() -> None:
    for options, status in [({"model": "nobody"}, 404), ({"encoding": "speex"}, 400)]:
        try:
            talk(lambda socket: None, **options)
        except InvalidStatus as error:
            assert error.response.status_code == status, error
            assert error.response.headers["dg-error"], error
        else:
            raise AssertionError(options)
    try:
        client.listen.v1.media.transcribe_url(url="http://localhost/x.wav", model="nova-3")
    except ApiError as error:
        assert error.status_code == 400 and "fetches nothing" in str(error.body), error
    else:
        raise AssertionError("a URL was taken")


for clip in CLIPS:
    whole(clip)
    streamed(clip)
finalized()
channels()
refused()
