// Text to speech, where a voice is served. Sound is played as it comes.

import { el, setText } from '../dom.ts';
import * as format from '../format.ts';
import { headers } from '../token.ts';
import { Voice } from './voice.ts';

/** The rate of bare samples, by the contract of `/v1/audio/speech`. */
const RATE = 24_000;
/** Played this much later than it came, so that a hiccup on the way is not heard. */
const AHEAD_S = 0.08;

interface Served {
  name: string;
  model: string;
  description?: string;
}

export class Speak {
  readonly root = el('div', { class: 'panel' });
  readonly #text = el('textarea', { id: 'speak-text', rows: '3' });
  readonly #pick = el('select', { id: 'speak-voice' });
  readonly #send = el('button', { type: 'submit', class: 'first' }, 'Speak');
  readonly #status = el('p', { class: 'ride', role: 'status' });
  readonly #line = new Voice();
  #voices: Served[] = [];
  #stop: AbortController | undefined;

  constructor() {
    this.#text.value = 'Many riders, one line: the line is faster than any of them.';
    const form = el(
      'form',
      { class: 'ask' },
      el('div', { class: 'field' }, el('label', { for: 'speak-text' }, 'Text'), this.#text),
      el('div', { class: 'row' }, el('label', { for: 'speak-voice' }, 'Voice'), this.#pick, this.#send, this.#status),
    );
    this.root.append(
      el('header', {}, el('h2', {}, 'Speak'), el('p', { class: 'hint' }, 'played as it is made; calls are shared with every other listener')),
      form,
      this.#line.canvas,
    );
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (this.#stop) this.#stop.abort();
      else void this.#speak();
    });
  }

  /** Whether this server has a voice. */
  async look(): Promise<boolean> {
    try {
      const answer = await fetch('v1/voices', { headers: headers() });
      if (!answer.ok) return false;
      const { voices } = (await answer.json()) as { voices?: Served[] };
      this.#voices = voices ?? [];
    } catch {
      this.#voices = [];
    }
    this.#pick.replaceChildren(
      ...this.#voices.map(({ name, description }, at) =>
        el('option', { value: String(at) }, description ? `${name}, ${description}` : name)),
    );
    return this.#voices.length > 0;
  }

  async #speak(): Promise<void> {
    const voice = this.#voices[Number(this.#pick.value)];
    this.#stop = new AbortController();
    this.#line.clear();
    this.#line.active(0);
    setText(this.#send, 'Stop');
    setText(this.#status, 'Asking…');
    const player = new Player();
    try {
      const began = performance.now();
      const answer = await fetch('v1/audio/speech', {
        method: 'POST',
        signal: this.#stop.signal,
        headers: headers({ 'content-type': 'application/json' }),
        body: JSON.stringify({ model: voice?.model, voice: voice?.name, input: this.#text.value, response_format: 'pcm' }),
      });
      if (!answer.ok || !answer.body) {
        setText(this.#status, await why(answer));
        return;
      }
      let first: number | undefined;
      for await (const samples of sound(answer.body)) {
        first ??= performance.now() - began;
        player.play(samples);
        this.#line.heard(samples, RATE);
        setText(this.#status, `first sound after ${format.time(first * 1e6)} · ${player.seconds.toFixed(1)} s so far`);
      }
      const all = performance.now() - began;
      setText(this.#status, `first sound after ${format.time((first ?? all) * 1e6)} · ${player.seconds.toFixed(1)} s made in ${format.time(all * 1e6)}`);
      await player.end(this.#stop.signal);
    } catch {
      setText(this.#status, this.#stop.signal.aborted ? 'Stopped.' : 'The server does not answer.');
    } finally {
      this.#stop = undefined;
      setText(this.#send, 'Speak');
      await player.close();
    }
  }
}

/** Plays pieces one after the other. */
class Player {
  readonly #context = new AudioContext({ sampleRate: RATE });
  /** When the next piece begins. */
  #next = 0;
  seconds = 0;

  play(samples: Int16Array): void {
    const buffer = this.#context.createBuffer(1, samples.length, RATE);
    const plane = buffer.getChannelData(0);
    samples.forEach((sample, at) => (plane[at] = sample / 32768));
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.#context.destination);
    this.#next = Math.max(this.#next, this.#context.currentTime + AHEAD_S);
    source.start(this.#next);
    this.#next += buffer.duration;
    this.seconds += buffer.duration;
  }

  /** Resolves when everything was heard, or nobody wants to hear it any more. */
  end(stop: AbortSignal): Promise<void> {
    const left = Math.max(0, this.#next - this.#context.currentTime);
    return new Promise((done) => {
      setTimeout(done, left * 1000);
      stop.addEventListener('abort', () => done());
    });
  }

  close(): Promise<void> {
    return this.#context.close();
  }
}

/** Whole samples, as they come. */
async function* sound(body: ReadableStream<Uint8Array>): AsyncGenerator<Int16Array> {
  const reader = body.getReader();
  let half: number | undefined;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const bytes = half === undefined ? value.slice() : Uint8Array.of(half, ...value);
    half = bytes.length % 2 === 1 ? bytes.at(-1) : undefined;
    const whole = new Int16Array(bytes.buffer, 0, bytes.length >> 1);
    if (whole.length > 0) yield whole;
  }
}

async function why(answer: Response): Promise<string> {
  const body = (await answer.json().catch(() => undefined)) as { error?: string | { message?: string } } | undefined;
  const error = typeof body?.error === 'string' ? body.error : body?.error?.message;
  return error ?? `The server answered ${answer.status}.`;
}
