// Follows `/v1/live`. By fetch and not by EventSource, which cannot send a token.

import { headers } from './token.ts';
import type { Snapshot, Tick } from './wire.ts';

export type Link =
  | { is: 'connecting' }
  | { is: 'live' }
  | { is: 'stopping' }
  | { is: 'lost'; retryAt: number; why: string }
  | { is: 'refused'; status: number; why: string };

export interface Heard {
  snapshot(all: Snapshot): void;
  tick(tick: Tick): void;
  link(link: Link): void;
}

/** Longest between two tries. */
const LONGEST_MS = 10_000;
/** Nothing was heard for so long: the line is dead, whatever it says. */
const SILENCE_MS = 8_000;

export class Feed {
  #stop = new AbortController();
  #wake: (() => void) | undefined;

  constructor(readonly heard: Heard) {}

  /** For ever. */
  async run(): Promise<never> {
    let wait = 500;
    for (;;) {
      this.heard.link({ is: 'connecting' });
      const ended = await this.#follow(() => (wait = 500));
      if (ended.is === 'refused' && (ended.status === 401 || ended.status === 403)) {
        this.heard.link(ended);
        await this.#pause(undefined);
        continue;
      }
      const why = ended.is === 'refused' ? ended.why : 'The server does not answer';
      this.heard.link({ is: 'lost', retryAt: Date.now() + wait, why });
      await this.#pause(wait);
      wait = Math.min(wait * 2, LONGEST_MS);
    }
  }

  /** Tries at once, with the token that is there now. */
  again(): void {
    this.#stop.abort();
    this.#wake?.();
  }

  #pause(ms: number | undefined): Promise<void> {
    return new Promise((done) => {
      const timer = ms === undefined ? undefined : setTimeout(done, ms);
      this.#wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  async #follow(begun: () => void): Promise<{ is: 'ended' } | { is: 'refused'; status: number; why: string }> {
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    let silence = setTimeout(() => this.#stop.abort(), SILENCE_MS);
    try {
      const answer = await fetch('v1/live', { headers: headers(), signal, cache: 'no-store' });
      if (!answer.ok || !answer.body) {
        const body: unknown = await answer.json().catch(() => undefined);
        const why = (body as { error?: string } | undefined)?.error ?? `The server answered ${answer.status}`;
        return { is: 'refused', status: answer.status, why };
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return { is: 'ended' };
        clearTimeout(silence);
        silence = setTimeout(() => this.#stop.abort(), SILENCE_MS);
        text += value;
        const events = text.split('\n\n');
        text = events.pop() ?? '';
        for (const event of events) {
          if (this.#hear(event) === 'snapshot') begun();
        }
      }
    } catch {
      return { is: 'ended' };
    } finally {
      clearTimeout(silence);
    }
  }

  #hear(event: string): string {
    let [name, data] = ['message', ''];
    for (const line of event.split('\n')) {
      if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) data += line.slice(6);
    }
    if (name === 'snapshot') {
      this.heard.snapshot(JSON.parse(data) as Snapshot);
      this.heard.link({ is: 'live' });
    } else if (name === 'tick') {
      this.heard.tick(JSON.parse(data) as Tick);
    } else if (name === 'bye') {
      this.heard.link({ is: 'stopping' });
    }
    return name;
  }
}
