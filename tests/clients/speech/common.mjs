// What the Node clients share: the clip, where the server is, and what must come of it.

import assert from "node:assert";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const HTTP = process.env.PACELINE_HTTP;
export const PATH = fileURLToPath(new URL("../../../crates/cli/assets/speech.wav", import.meta.url));
const SAID =
  "and so my fellow americans ask not what your country can do for you ask what you can do for your country".split(" ");

export const clip = () => readFileSync(PATH);

// Mono samples of 16 bits at a rate, and then a silence that ends the last utterance.
export function samples(rate = 16000) {
  const wav = clip();
  const data = wav.indexOf("data") + 8;
  const own = new Int16Array(wav.buffer.slice(wav.byteOffset + data, wav.byteOffset + data + 2 * Math.floor((wav.length - data) / 2)));
  const length = Math.floor((own.length * rate) / 16000);
  const out = new Int16Array(length + 2 * rate);
  for (let n = 0; n < length; n++) out[n] = own[Math.min(Math.round((n * 16000) / rate), own.length - 1)];
  return Buffer.from(out.buffer);
}

export function chunks(data, size = 3200) {
  const out = [];
  for (let at = 0; at < data.length; at += size) out.push(data.subarray(at, at + size));
  return out;
}

// Most words that were said are in the text, as often as they were said.
export function check(text, what) {
  const heard = text.toLowerCase().match(/[a-z']+/g) ?? [];
  const missed = SAID.filter((word) => {
    const at = heard.indexOf(word);
    if (at >= 0) heard.splice(at, 1);
    return at < 0;
  });
  assert(missed.length <= 4, `${what}: ${JSON.stringify(text)}`);
}
