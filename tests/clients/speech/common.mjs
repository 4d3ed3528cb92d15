// What the Node clients share: the clips, where the server is, and what must come of them.

import assert from "node:assert";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const HTTP = process.env.PACELINE_HTTP;
const clips = JSON.parse(readFileSync(new URL("./clips.json", import.meta.url), "utf8"));

class Clip {
  constructor(path, said) {
    this.path = fileURLToPath(new URL(`../../../${path}`, import.meta.url));
    this.said = said.split(" ");
  }

  file() {
    return readFileSync(this.path);
  }

  own() {
    const wav = this.file();
    const data = wav.byteOffset + wav.indexOf("data") + 8;
    const end = wav.byteOffset + wav.length;
    return new Int16Array(wav.buffer.slice(data, data + 2 * Math.floor((end - data) / 2)));
  }

  seconds() {
    return this.own().length / 16000;
  }

  // Mono samples of 16 bits at a rate, and then a silence that ends the last utterance.
  samples(rate = 16000) {
    const own = this.own();
    const length = Math.floor((own.length * rate) / 16000);
    const out = new Int16Array(length + 2 * rate);
    for (let n = 0; n < length; n++) out[n] = own[Math.min(Math.round((n * 16000) / rate), own.length - 1)];
    return Buffer.from(out.buffer);
  }

  // Most words that were said are in the text, as often as they were said.
  check(text, what) {
    const heard = text.toLowerCase().match(/[a-z']+/g) ?? [];
    const missed = this.said.filter((word) => {
      const at = heard.indexOf(word);
      if (at >= 0) heard.splice(at, 1);
      return at < 0;
    });
    assert(missed.length <= Math.max(4, this.said.length / 5), `${this.path}, ${what}: ${JSON.stringify(text)}`);
  }
}

export const CLIPS = Object.entries(clips).map(([path, said]) => new Clip(path, said));

export function chunks(data, size = 3200) {
  const out = [];
  for (let at = 0; at < data.length; at += size) out.push(data.subarray(at, at + size));
  return out;
}

// At most one word in six of what a voice said is heard as something else.
export function understood(said, text, what) {
  const words = said.toLowerCase().match(/[a-z']+/g);
  const heard = text.toLowerCase().match(/[a-z']+/g) ?? [];
  const missed = words.filter((word) => !heard.includes(word));
  assert(missed.length * 6 <= words.length, `${what}: ${JSON.stringify(said)} was heard as ${JSON.stringify(text)}`);
}
