// @deepgram/sdk 5 speaks: a conversation by WebSocket, which the recogniser understands.

import assert from "node:assert";

import { DeepgramClient } from "deepgram-5";

import { HTTP, understood } from "./common.mjs";

const TEXT = "The children were playing football behind the old church.";
const client = new DeepgramClient({ apiKey: "any", baseUrl: `http://${HTTP}` });

const socket = await client.speak.v1.connect({ model: "aura-2-thalia-en", encoding: "linear16", sample_rate: 16000 });
const told = [];
const sound = [];
const closed = new Promise((resolve, reject) => {
  socket.on("message", (message) => (message.type && !(message instanceof Blob) ? told : sound).push(message));
  socket.on("error", reject);
  socket.on("close", (event) => resolve(event.code));
});
socket.connect();
await socket.waitForOpen();
socket.sendText({ type: "Speak", text: TEXT });
socket.sendFlush({ type: "Flush" });
socket.sendClose({ type: "Close" });
assert.equal(await closed, 1000, "it would connect again otherwise");
assert.deepEqual(told.map((message) => message.type), ["Metadata", "Flushed"]);

const samples = Buffer.concat(await Promise.all(sound.map(async (part) => Buffer.from(await new Blob([part]).arrayBuffer()))));
assert(samples.length > 2 * 16000 * 2, samples.length);
const header = Buffer.from("52494646ffffffff57415645666d74201000000001000100803e0000007d00000200100064617461ffffffff", "hex");
const answer = await client.listen.v1.media.transcribeFile(Buffer.concat([header, samples]), { model: "nova-3" });
understood(TEXT, answer.results.channels[0].alternatives[0].transcript, "a conversation");
socket.close();
