"""wyoming, as Home Assistant uses it: what there is, and every clip on one connection, at two rates."""

import asyncio
import os

from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info

from common import CLIPS, chunks

HOST, PORT = os.environ["PACELINE_WYOMING"].rsplit(":", 1)


async def main() -> None:
    async with AsyncTcpClient(HOST, int(PORT)) as client:
        await client.write_event(Describe().event())
        info = Info.from_event(await client.read_event())
        (program,) = info.asr
        assert program.models[0].languages == ["en"] and program.supports_transcript_streaming
        for clip, rate in [(clip, rate) for clip in CLIPS for rate in (16000, 22050)]:
            await client.write_event(Transcribe(language="en").event())
            form = {"rate": rate, "width": 2, "channels": 1}
            await client.write_event(AudioStart(**form).event())
            for chunk in chunks(clip.samples(rate), 2048):
                await client.write_event(AudioChunk(audio=chunk, **form).event())
            await client.write_event(AudioStop().event())
            pieces = []
            while True:
                event = await asyncio.wait_for(client.read_event(), 60)
                assert event is not None and event.type != "error", event
                if TranscriptChunk.is_type(event.type):
                    pieces.append(TranscriptChunk.from_event(event).text)
                if Transcript.is_type(event.type):
                    text = Transcript.from_event(event).text
                if event.type == "transcript-stop":
                    break
            clip.check(text, f"{rate} Hz")
            assert "".join(pieces) == text, pieces


asyncio.run(main())
