"""deepgram-sdk 4: a file, and a stream."""

import json
import threading

from deepgram import (
    DeepgramClient,
    DeepgramClientOptions,
    LiveOptions,
    LiveTranscriptionEvents,
    PrerecordedOptions,
)

from common import CLIPS, HTTP, Clip, chunks

client = DeepgramClient("any", DeepgramClientOptions(url=f"http://{HTTP}"))


def whole(clip: Clip) -> None:
    answer = client.listen.rest.v("1").transcribe_file({"buffer": clip.file()}, PrerecordedOptions(model="nova-3"))
    clip.check(answer.results.channels[0].alternatives[0].transcript, "a file")
    assert abs(answer.metadata.duration - clip.seconds()) < 0.1


def streamed(clip: Clip) -> None:
    heard = {"results": [], "started": [], "ended": [], "metadata": [], "errors": []}
    done = threading.Event()

    def note(kind):
        def hear(_, **fields):
            (told,) = [value for name, value in fields.items() if name in ("result", "speech_started", "utterance_end", "metadata", "error")]
            heard[kind].append(told)
            if kind in ("metadata", "errors"):
                done.set()

        return hear

    socket = client.listen.websocket.v("1")
    for event, kind in [
        (LiveTranscriptionEvents.Transcript, "results"),
        (LiveTranscriptionEvents.SpeechStarted, "started"),
        (LiveTranscriptionEvents.UtteranceEnd, "ended"),
        (LiveTranscriptionEvents.Metadata, "metadata"),
        (LiveTranscriptionEvents.Error, "errors"),
    ]:
        socket.on(event, note(kind))
    options = LiveOptions(
        model="nova-3",
        encoding="linear16",
        sample_rate=16000,
        channels=1,
        interim_results=True,
        utterance_end_ms="1000",
        vad_events=True,
    )
    assert socket.start(options)
    for chunk in chunks(clip.samples()):
        assert socket.send(chunk)
    assert socket.finalize()
    # `finish` does not wait for what it asks for, so it is asked for by hand.
    assert socket.send(json.dumps({"type": "CloseStream"}))
    assert done.wait(60), heard
    socket.finish()

    assert not heard["errors"], heard["errors"]
    assert heard["started"] and heard["ended"], heard
    finals = [result for result in heard["results"] if result.is_final]
    clip.check(" ".join(result.channel.alternatives[0].transcript for result in finals), "a stream")
    assert sum(bool(result.from_finalize) for result in finals) == 1
    assert all(result.metadata.model_info.name for result in finals)
    assert abs(heard["metadata"][0].duration - clip.seconds() - 2.0) < 0.1


for clip in CLIPS:
    whole(clip)
    streamed(clip)
