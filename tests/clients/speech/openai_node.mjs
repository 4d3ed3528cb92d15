// openai for Node: a file in every form, as events, and over TLS a realtime session.

import assert from "node:assert";
import { createReadStream } from "node:fs";

import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

import { CLIPS, HTTP, chunks } from "./common.mjs";

const client = new OpenAI({ apiKey: "any", baseURL: `http://${HTTP}/v1`, maxRetries: 0 });
const ask = (clip, options) =>
  client.audio.transcriptions.create({ file: createReadStream(clip.path), model: "whisper-1", ...options });

for (const clip of CLIPS) {
  const { text } = await ask(clip, {});
  clip.check(text, "json");
  const long = await ask(clip, { response_format: "verbose_json", timestamp_granularities: ["word"] });
  assert.equal(long.words.map((word) => word.word).join(" "), text);
  assert.equal((await ask(clip, { response_format: "text" })).trim(), text);
  assert((await ask(clip, { response_format: "srt" })).startsWith("1\n00:00:0"));
  assert((await ask(clip, { response_format: "vtt" })).startsWith("WEBVTT\n\n00:00:0"));
  let deltas = "";
  for await (const event of await ask(clip, { stream: true })) {
    if (event.type === "transcript.text.delta") deltas += event.delta;
    if (event.type === "transcript.text.done") assert.equal(event.text, text);
  }
  assert.equal(deltas, text);
  assert((await client.models.list()).data.length > 0);
  await assert.rejects(ask(clip, { response_format: "diarized_json" }), OpenAI.BadRequestError);

  // It insists on TLS here. The certificate is known through NODE_EXTRA_CA_CERTS.
  const secure = new OpenAI({ apiKey: "any", baseURL: `https://${process.env.PACELINE_TLS}/v1` });
  const realtime = new OpenAIRealtimeWS({ intent: "transcription" }, secure);
  const input = {
    format: { type: "audio/pcm", rate: 24000 },
    transcription: { model: "whisper-1" },
    turn_detection: null,
  };
  realtime.socket.on("open", () => {
    realtime.send({ type: "session.update", session: { type: "transcription", audio: { input } } });
    for (const chunk of chunks(clip.samples(24000), 9600))
      realtime.send({ type: "input_audio_buffer.append", audio: chunk.toString("base64") });
    realtime.send({ type: "input_audio_buffer.commit" });
  });
  const kinds = [];
  const said = await new Promise((resolve, reject) => {
    realtime.on("error", reject);
    realtime.on("event", (event) => kinds.push(event.type));
    realtime.on("conversation.item.input_audio_transcription.completed", (event) => resolve(event.transcript));
  });
  realtime.close();
  clip.check(said, "a commit");
  assert.deepEqual(kinds.slice(0, 3), ["session.created", "session.updated", "input_audio_buffer.committed"]);
}
