// Text to speech, where a voice is served.

import { el, setText } from '../dom.ts';
import * as format from '../format.ts';
import { headers } from '../token.ts';

export class Speak {
  readonly root = el('div', { class: 'panel' });
  readonly #text = el('textarea', { id: 'speak-text', rows: '3' });
  readonly #voice = el('input', { id: 'speak-voice', placeholder: 'the server’s choice' });
  readonly #send = el('button', { type: 'submit', class: 'first' }, 'Speak');
  readonly #said = el('p', { class: 'ride', role: 'status' });
  readonly #audio = el('audio', { controls: true });
  #model = '';

  constructor() {
    this.#text.value = 'Many clients, one line: the line is faster than any of them.';
    const form = el(
      'form',
      { class: 'ask' },
      el('div', { class: 'field' }, el('label', { for: 'speak-text' }, 'Text'), this.#text),
      el('div', { class: 'row' }, el('label', { for: 'speak-voice' }, 'Voice'), this.#voice, this.#send, this.#said),
    );
    this.root.append(el('header', {}, el('h2', {}, 'Speak')), form, this.#audio);
    this.#audio.hidden = true;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#speak();
    });
  }

  /** Whether this server speaks: whether the route is there, by what it says of an empty question. */
  async look(): Promise<boolean> {
    try {
      const answer = await fetch('openapi.json');
      const { paths } = (await answer.json()) as { paths?: Record<string, unknown> };
      return paths !== undefined && '/v1/audio/speech' in paths;
    } catch {
      return false;
    }
  }

  async #speak(): Promise<void> {
    this.#send.disabled = true;
    setText(this.#said, 'Asking…');
    const began = performance.now();
    try {
      const answer = await fetch('v1/audio/speech', {
        method: 'POST',
        headers: headers({ 'content-type': 'application/json' }),
        body: JSON.stringify({
          model: this.#model || undefined,
          input: this.#text.value,
          voice: this.#voice.value || undefined,
          response_format: 'wav',
        }),
      });
      if (!answer.ok) {
        const body = (await answer.json().catch(() => undefined)) as { error?: string | { message?: string } } | undefined;
        const why = typeof body?.error === 'string' ? body.error : body?.error?.message;
        setText(this.#said, why ?? `The server answered ${answer.status}.`);
        return;
      }
      const first = performance.now() - began;
      const sound = await answer.blob();
      URL.revokeObjectURL(this.#audio.src);
      this.#audio.src = URL.createObjectURL(sound);
      this.#audio.hidden = false;
      setText(this.#said, `first sound after ${format.time(first * 1e6)} · all after ${format.time((performance.now() - began) * 1e6)}`);
      await this.#audio.play().catch(() => undefined);
    } catch {
      setText(this.#said, 'The server does not answer.');
    } finally {
      this.#send.disabled = false;
    }
  }
}
