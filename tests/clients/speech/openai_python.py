"""openai for Python: a file in every form, as events, and realtime sessions."""

import asyncio
import base64

import openai
from openai import AsyncOpenAI, OpenAI

from common import CLIPS, FIRST, HTTP, Clip, chunks

client = OpenAI(base_url=f"http://{HTTP}/v1", api_key="any", max_retries=0)


def ask(clip: Clip = FIRST, **options):
    with open(clip.path, "rb") as file:
        return client.audio.transcriptions.create(model="whisper-1", file=file, **options)


def files(clip: Clip) -> None:
    short = ask(clip)
    clip.check(short.text, "json")
    assert short.usage.type == "duration" and abs(short.usage.seconds - clip.seconds()) < 0.1
    long = ask(clip, response_format="verbose_json", timestamp_granularities=["word", "segment"])
    assert long.text == short.text and long.segments and abs(float(long.duration) - clip.seconds()) < 0.1
    assert " ".join(word.word for word in long.words) == short.text
    assert ask(clip, response_format="text").strip() == short.text
    assert ask(clip, response_format="srt").startswith("1\n00:00:0")
    assert ask(clip, response_format="vtt").startswith("WEBVTT\n\n00:00:0")
    events = list(ask(clip, stream=True))
    assert "".join(e.delta for e in events if e.type == "transcript.text.delta") == short.text
    assert events[-1].type == "transcript.text.done" and events[-1].text == short.text


def refused() -> None:
    try:
        ask(response_format="diarized_json")
    except openai.BadRequestError as error:
        assert "verbose_json" in error.message and error.type == "invalid_request_error", error
    else:
        raise AssertionError("speakers were told apart")
    try:
        client.audio.transcriptions.create(model="whisper-1", file=("x.wav", b"no audio at all" * 99))
    except openai.BadRequestError:
        pass
    else:
        raise AssertionError("nonsense was heard")


def models() -> None:
    names = [model.id for model in client.models.list()]
    assert names, "no models"
    assert client.models.retrieve(names[0]).id == names[0]


async def talk(clip: Clip, turns) -> list:
    """Everything until the clip is transcribed."""
    input = {
        "format": {"type": "audio/pcm", "rate": 24000},
        "transcription": {"model": "whisper-1"},
        "turn_detection": turns,
    }
    async with AsyncOpenAI(base_url=f"http://{HTTP}/v1", api_key="any") as client:
        async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
            await connection.session.update(session={"type": "transcription", "audio": {"input": input}})
            for chunk in chunks(clip.samples(24000), 9600):
                await connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())
            await connection.input_audio_buffer.commit()
            # What is not known is answered in its turn, so everything else came before.
            await connection.send({"type": "response.cancel", "event_id": "last"})
            events = []
            while True:
                event = await asyncio.wait_for(connection.recv(), 60)
                if event.type == "error":
                    assert event.error.event_id == "last", event
                    return events
                events.append(event)


def said(events: list) -> str:
    return " ".join(e.transcript for e in events if e.type.endswith(".completed"))


async def realtime(clip: Clip) -> None:
    events = await talk(clip, {"type": "server_vad", "silence_duration_ms": 400})
    assert [e.type for e in events[:2]] == ["session.created", "session.updated"]
    clip.check(said(events), "turns")
    for item in {e.item_id for e in events if e.type.endswith("speech_started")}:
        own = [e for e in events if getattr(e, "item_id", None) == item]
        kinds = [e.type.rsplit(".", 1)[-1] for e in own if not e.type.endswith(".delta")]
        assert kinds == ["speech_started", "speech_stopped", "committed", "completed"], kinds
        assert "".join(e.delta for e in own if e.type.endswith(".delta")) == own[-1].transcript
    events = await talk(clip, None)
    clip.check(said(events), "a commit")
    assert sum(e.type.endswith(".completed") for e in events) == 1


for clip in CLIPS:
    files(clip)
    asyncio.run(realtime(clip))
refused()
models()
