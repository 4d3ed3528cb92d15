// @deepgram/sdk 5: a file, and a stream.

import assert from "node:assert";

import { DeepgramClient } from "deepgram-5";

import { CLIPS, HTTP, chunks } from "./common.mjs";

const client = new DeepgramClient({ apiKey: "any", baseUrl: `http://${HTTP}` });

for (const clip of CLIPS) {
  const answer = await client.listen.v1.media.transcribeFile(clip.file(), { model: "nova-3", smart_format: true });
  clip.check(answer.results.channels[0].alternatives[0].transcript, "a file");
  assert(Math.abs(answer.metadata.duration - clip.seconds()) < 0.1);

  const socket = await client.listen.v1.connect({
    model: "nova-3",
    encoding: "linear16",
    sample_rate: 16000,
    interim_results: "true",
    utterance_end_ms: 1000,
    vad_events: "true",
  });
  const messages = [];
  let closes = 0;
  const closed = new Promise((resolve, reject) => {
    socket.on("message", (message) => messages.push(message));
    socket.on("error", reject);
    socket.on("close", (event) => {
      closes += 1;
      resolve(event.code);
    });
  });
  socket.connect();
  await socket.waitForOpen();
  socket.sendKeepAlive({ type: "KeepAlive" });
  for (const chunk of chunks(clip.samples())) socket.sendMedia(chunk);
  socket.sendFinalize({ type: "Finalize" });
  socket.sendCloseStream({ type: "CloseStream" });
  assert.equal(await closed, 1000, "it would connect again otherwise");

  const kinds = messages.map((message) => message.type);
  assert.equal(kinds[0], "SpeechStarted");
  assert.equal(kinds.at(-1), "Metadata");
  assert(kinds.includes("UtteranceEnd"), kinds);
  const finals = messages.filter((message) => message.type === "Results" && message.is_final);
  clip.check(finals.map((message) => message.channel.alternatives[0].transcript).join(" "), "a stream");
  assert.equal(finals.filter((message) => message.from_finalize).length, 1);
  assert.equal(closes, 1);
  socket.close();
}
