// @deepgram/sdk 4: a file, and a stream.

import assert from "node:assert";

import deepgram from "deepgram-4";

import { CLIPS, HTTP, chunks } from "./common.mjs";

const { createClient, LiveTranscriptionEvents } = deepgram;
const client = createClient("any", {
  global: {
    websocket: { options: { url: `ws://${HTTP}` } },
    fetch: { options: { url: `http://${HTTP}` } },
  },
});

for (const clip of CLIPS) {
  const { result, error } = await client.listen.prerecorded.transcribeFile(clip.file(), { model: "nova-3" });
  assert.equal(error, null);
  clip.check(result.results.channels[0].alternatives[0].transcript, "a file");

  const live = client.listen.live({
    model: "nova-3",
    encoding: "linear16",
    sample_rate: 16000,
    interim_results: true,
    utterance_end_ms: 1000,
    vad_events: true,
  });
  const heard = { results: [], started: [], ended: [], metadata: [] };
  const closed = new Promise((resolve, reject) => {
    live.on(LiveTranscriptionEvents.Transcript, (told) => heard.results.push(told));
    live.on(LiveTranscriptionEvents.SpeechStarted, (told) => heard.started.push(told));
    live.on(LiveTranscriptionEvents.UtteranceEnd, (told) => heard.ended.push(told));
    live.on(LiveTranscriptionEvents.Metadata, (told) => heard.metadata.push(told));
    live.on(LiveTranscriptionEvents.Error, reject);
    live.on(LiveTranscriptionEvents.Close, (event) => resolve(event.code));
  });
  live.on(LiveTranscriptionEvents.Open, () => {
    live.keepAlive();
    for (const chunk of chunks(clip.samples())) live.send(chunk);
    live.finalize();
    live.requestClose();
  });
  assert.equal(await closed, 1000);
  const finals = heard.results.filter((told) => told.is_final);
  clip.check(finals.map((told) => told.channel.alternatives[0].transcript).join(" "), "a stream");
  assert(heard.started.length && heard.ended.length && heard.metadata.length === 1, JSON.stringify(heard));
}
