// Asks a model: a form made from what the model says it takes.

import { el, setText } from '../dom.ts';
import * as format from '../format.ts';
import { WORDS } from '../reasons.ts';
import { headers } from '../token.ts';
import type { Reason } from '../wire.ts';
import { ownShape, type About, type Spec } from './about.ts';
import { showPicture } from './picture.ts';

/** Most characters of an answer that are shown. */
const MOST_SHOWN = 20_000;
/** Most numbers that an example is made of. */
const MOST_NUMBERS = 4096;

interface Ride {
  items: number;
  rows: number;
  fired: Reason;
  waited_us: number;
  took_us: number;
}

export class Infer {
  readonly root = el('div', { class: 'panel' });
  readonly #pick = el('select', { id: 'infer-model' });
  readonly #about = el('p', { class: 'hint' });
  readonly #fields = el('div', { class: 'fields' });
  readonly #times = el('input', { id: 'infer-times', type: 'number', min: '1', max: '256', value: '1', inputmode: 'numeric' });
  readonly #send = el('button', { type: 'submit', class: 'first' }, 'Send');
  readonly #ride = el('p', { class: 'ride', role: 'status' });
  readonly #preview = el('div', { class: 'preview' });
  readonly #answer = el('pre', { class: 'answer', tabindex: '0', 'aria-label': 'Answer' });
  #models: About[] = [];
  #adapted = new Set<string>();
  #file: File | undefined;

  constructor() {
    const form = el(
      'form',
      { class: 'ask' },
      el('div', { class: 'row' }, el('label', { for: 'infer-model' }, 'Model'), this.#pick, this.#about),
      this.#fields,
      el('div', { class: 'row' }, el('label', { for: 'infer-times' }, 'At once'), this.#times, this.#send, this.#ride),
    );
    this.root.append(
      el('header', {}, el('h2', {}, 'Ask a model'), el('p', { class: 'hint' }, 'several at once share model calls, as those of many clients do')),
      form,
      this.#preview,
      this.#answer,
    );
    this.#answer.hidden = true;
    this.#pick.addEventListener('change', () => this.#form());
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#ask();
    });
  }

  models(models: About[], adapted: Set<string>): void {
    const own = this.#pick.value;
    this.#models = models;
    this.#adapted = adapted;
    this.#pick.replaceChildren(...models.map((model) => el('option', { value: model.name }, model.name)));
    if (models.some((model) => model.name === own)) this.#pick.value = own;
    if (own !== this.#pick.value || this.#fields.childElementCount === 0) this.#form();
  }

  get #model(): About | undefined {
    return this.#models.find((model) => model.name === this.#pick.value);
  }

  #form(): void {
    const model = this.#model;
    this.#file = undefined;
    this.#preview.replaceChildren();
    this.#answer.hidden = true;
    setText(this.#ride, '');
    if (!model) return this.#fields.replaceChildren();
    setText(this.#about, `${model.platform} · gives ${model.outputs.map((output) => output.name).join(', ')}`);
    if (this.#adapted.has(model.name)) return this.#fields.replaceChildren(this.#fileField());
    this.#fields.replaceChildren(...model.inputs.map((spec, at) => this.#tensorField(model, spec, at)));
  }

  #fileField(): HTMLElement {
    const input = el('input', { type: 'file', id: 'infer-file' });
    const name = el('span', { class: 'quiet' }, 'or drop one here');
    const take = (file: File | undefined) => {
      this.#file = file;
      setText(name, file ? `${file.name || 'a file'}, ${format.bytes(file.size)}` : 'or drop one here');
      this.#preview.replaceChildren();
    };
    input.addEventListener('change', () => take(input.files?.[0]));
    const area = el('div', { class: 'drop' }, el('label', { for: 'infer-file', class: 'button' }, 'Choose a file'), input, name);
    area.addEventListener('dragover', (event) => {
      event.preventDefault();
      area.classList.add('over');
    });
    area.addEventListener('dragleave', () => area.classList.remove('over'));
    area.addEventListener('drop', (event) => {
      event.preventDefault();
      area.classList.remove('over');
      take(event.dataTransfer?.files[0]);
    });
    return area;
  }

  #tensorField(model: About, spec: Spec, at: number): HTMLElement {
    const shape = ownShape(model, spec);
    const id = `input-${at}`;
    const words = shape.length === 0 ? 'one value' : `[${shape.map((extent) => (extent < 0 ? 'any' : extent)).join(', ')}]`;
    const text = el('textarea', { id, rows: '3', spellcheck: 'false', 'data-name': spec.name });
    text.value = example(spec.datatype, shape);
    return el('div', { class: 'field' }, el('label', { for: id }, spec.name, el('small', {}, ` ${spec.datatype} ${words}`)), text);
  }

  #body(): BodyInit | undefined {
    if (this.#file) return this.#file;
    const inputs: Record<string, unknown> = {};
    for (const text of this.#fields.querySelectorAll('textarea')) {
      const name = text.dataset['name'] ?? '';
      try {
        inputs[name] = JSON.parse(text.value);
        text.setAttribute('aria-invalid', 'false');
      } catch (error) {
        text.setAttribute('aria-invalid', 'true');
        text.focus();
        setText(this.#ride, `${name}: this is not JSON (${(error as Error).message})`);
        return undefined;
      }
    }
    return JSON.stringify(inputs);
  }

  async #ask(): Promise<void> {
    const model = this.#model;
    if (!model) return;
    if (this.#adapted.has(model.name) && !this.#file) {
      setText(this.#ride, 'Choose a file first.');
      return;
    }
    const body = this.#body();
    if (body === undefined) return;
    const times = Math.min(256, Math.max(1, Math.floor(Number(this.#times.value)) || 1));
    this.#send.disabled = true;
    setText(this.#ride, 'Asking…');
    const began = performance.now();
    const url = `v1/models/${encodeURIComponent(model.name)}/infer?ride=on`;
    const one = async () => {
      const answer = await fetch(url, { method: 'POST', body, headers: headers() });
      const text = await answer.text();
      return { isGood: answer.ok, text };
    };
    try {
      const all = await Promise.all(Array.from({ length: times }, one));
      this.#show(all, performance.now() - began);
    } catch {
      setText(this.#ride, 'The server does not answer.');
    } finally {
      this.#send.disabled = false;
    }
  }

  #show(all: { isGood: boolean; text: string }[], ms: number): void {
    const last = all.at(-1);
    if (!last) return;
    let value: unknown = last.text;
    try {
      value = JSON.parse(last.text);
    } catch {
      // A model that streams answers with events, which are shown as they are.
    }
    const failed = all.filter((one) => !one.isGood).length;
    const ride = isRecord(value) ? (value['ride'] as Ride | undefined) : undefined;
    const words = [format.time(ms * 1e6)];
    if (all.length > 1) words.unshift(`${all.length - failed} of ${all.length} answered`);
    if (ride) {
      words.push(
        ride.items === 1 ? 'alone in its call' : `one of ${ride.items} in its call`,
        `left ${WORDS[ride.fired]?.name ?? ride.fired}`,
        `waited ${format.time(ride.waited_us * 1000)}`,
        `took ${format.time(ride.took_us * 1000)}`,
      );
    }
    setText(this.#ride, failed === all.length ? 'Refused:' : words.join(' · '));
    const text = typeof value === 'string' ? value : JSON.stringify(value, shorten, 2);
    setText(this.#answer, text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text);
    this.#answer.classList.toggle('bad', !last.isGood);
    this.#answer.hidden = false;
    if (this.#file) void showPicture(this.#preview, this.#file, value);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Long rows of numbers on one line. */
function shorten(_key: string, value: unknown): unknown {
  if (!Array.isArray(value) || !value.every((one) => typeof one === 'number')) return value;
  const first = value.slice(0, 16).join(', ');
  return `[${first}${value.length > 16 ? `, … ${value.length} in all` : ''}]`;
}

/** Something that the model takes. */
function example(datatype: string, shape: number[]): string {
  const leaf = datatype === 'BYTES' ? '"hello"' : datatype === 'BOOL' ? 'true' : datatype.startsWith('FP') ? '0.5' : '1';
  const extents = shape.map((extent) => (extent < 0 ? 3 : extent));
  if (extents.reduce((all, extent) => all * extent, 1) > MOST_NUMBERS) return '';
  return extents.reduceRight((inner, extent) => `[${Array.from({ length: extent }, () => inner).join(', ')}]`, leaf);
}
