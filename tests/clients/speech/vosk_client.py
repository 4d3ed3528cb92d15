"""A client as vosk's own examples are: one reply is waited for after each message."""

import asyncio
import json
import os

import websockets

from common import CLIPS, Clip, chunks


async def talk(clip: Clip) -> None:
    texts = []
    async with websockets.connect(f"ws://{os.environ['PACELINE_VOSK']}") as socket:
        await socket.send('{ "config" : { "sample_rate" : 16000, "words" : true } }')
        for chunk in chunks(clip.samples(), 8000):
            await socket.send(chunk)
            reply = json.loads(await asyncio.wait_for(socket.recv(), 60))
            assert ("partial" in reply) != ("text" in reply), reply
            texts.append(reply)
        await socket.send('{"eof" : 1}')
        texts.append(json.loads(await asyncio.wait_for(socket.recv(), 60)))
        try:
            await socket.recv()
        except websockets.ConnectionClosedOK:
            pass
    finals = [reply for reply in texts if "text" in reply]
    clip.check(" ".join(reply["text"] for reply in finals), "a stream")
    listed = [word for reply in finals for word in reply.get("result", [])]
    assert listed and all({"word", "start", "end", "conf"} <= set(word) for word in listed)


for clip in CLIPS:
    asyncio.run(talk(clip))
