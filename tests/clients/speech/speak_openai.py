"""openai for Python speaks: whole, streamed in every form, and refused with a sentence."""

import io

import openai

from common import HTTP, understood

TEXT = "Please send me the report before the end of the week."
client = openai.OpenAI(api_key="any", base_url=f"http://{HTTP}/v1", max_retries=0)
BEGINS = {"wav": b"RIFF", "flac": b"fLaC", "opus": b"OggS", "pcm": b""}

for form, begins in BEGINS.items():
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT, response_format=form
    ) as response:
        pieces = list(response.iter_bytes(4096))
    sound = b"".join(pieces)
    assert sound.startswith(begins) and len(pieces) > 1, form
    # Opus leaves out what ears do not miss; this recogniser may.
    if form in ("wav", "flac"):
        file = io.BytesIO(sound)
        file.name = f"speech.{form}"
        heard = client.audio.transcriptions.create(model="whisper-1", file=file)
        understood(TEXT, heard.text, form)

for wrong, sentence in [({"voice": "nobody"}, "there are"), ({"response_format": "mp3"}, "wav")]:
    try:
        client.audio.speech.create(**{"model": "tts-1", "voice": "alloy", "input": TEXT, **wrong})
    except openai.APIStatusError as error:
        assert error.status_code in (400, 404) and sentence in str(error), error
    else:
        raise AssertionError(wrong)
