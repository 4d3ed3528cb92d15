"""openai for Python: a file in every form, as events, and realtime sessions."""

import asyncio
import base64

import openai
from openai import AsyncOpenAI, OpenAI

from common import CLIP, HTTP, check, chunks, passed, samples

client = OpenAI(base_url=f"http://{HTTP}/v1", api_key="any", max_retries=0)


def ask(**options):
    with open(CLIP, "rb") as file:
        return client.audio.transcriptions.create(model="whisper-1", file=file, **options)


def files() -> None:
    short = ask()
    check(short.text, "json")
    assert short.usage.type == "duration" and abs(short.usage.seconds - 11.0) < 0.1
    long = ask(response_format="verbose_json", timestamp_granularities=["word", "segment"])
    assert long.text == short.text and long.segments and abs(float(long.duration) - 11.0) < 0.1
    assert " ".join(word.word for word in long.words) == short.text
    assert ask(response_format="text").strip() == short.text
    assert ask(response_format="srt").startswith("1\n00:00:0")
    assert ask(response_format="vtt").startswith("WEBVTT\n\n00:00:0")
    events = list(ask(stream=True))
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


async def talk(session: dict, commits: bool) -> list:
    """Everything until the clip is transcribed."""
    async with AsyncOpenAI(base_url=f"http://{HTTP}/v1", api_key="any") as realtime:
        async with realtime.realtime.connect(extra_query={"intent": "transcription"}) as connection:
            await connection.session.update(session=session)
            for chunk in chunks(samples(24000), 9600):
                await connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())
            if commits:
                await connection.input_audio_buffer.commit()
            events = []
            while True:
                event = await asyncio.wait_for(connection.recv(), 60)
                assert event.type != "error", event
                events.append(event)
                if sum(e.type.endswith("speech_started") for e in events) == sum(
                    e.type.endswith(".completed") for e in events
                ) and event.type.endswith(".completed"):
                    check_end = " ".join(e.transcript for e in events if e.type.endswith(".completed"))
                    if commits or len(check_end.split()) > 18:
                        return events
                if commits and event.type.endswith(".completed"):
                    return events


def said(events: list) -> str:
    return " ".join(e.transcript for e in events if e.type.endswith(".completed"))


async def realtime() -> None:
    base = {"format": {"type": "audio/pcm", "rate": 24000}, "transcription": {"model": "whisper-1"}}
    turns = {"type": "server_vad", "silence_duration_ms": 400}
    events = await talk({"type": "transcription", "audio": {"input": {**base, "turn_detection": turns}}}, False)
    assert [e.type for e in events[:2]] == ["session.created", "session.updated"]
    check(said(events), "turns")
    for item in {e.item_id for e in events if e.type.endswith(".completed")}:
        kinds = [e.type.rsplit(".", 1)[-1] for e in events if getattr(e, "item_id", None) == item]
        assert kinds[:3] == ["speech_started", "speech_stopped", "committed"] and kinds[-1] == "completed", kinds
        text = "".join(e.delta for e in events if e.type.endswith(".delta") and e.item_id == item)
        (whole,) = [e.transcript for e in events if e.type.endswith(".completed") and e.item_id == item]
        assert text == whole
    events = await talk({"type": "transcription", "audio": {"input": {**base, "turn_detection": None}}}, True)
    check(said(events), "a commit")
    assert sum(e.type.endswith(".completed") for e in events) == 1


files()
refused()
models()
asyncio.run(realtime())
passed("openai (Python)")
