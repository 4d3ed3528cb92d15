// All models, a row each. Rows are kept and only what changed in them is written.

import { byId, el, Keyed, setFlag, setText } from './dom.ts';
import * as format from './format.ts';
import { spark, sparkCanvas } from './spark.ts';
import type { Lately, Store } from './store.ts';

/** Most rows at once; who has more models finds them by name. */
const MOST = 100;

interface Row extends HTMLElement {
  parts?: { name: HTMLButtonElement; state: HTMLElement; canvas: HTMLCanvasElement; cells: HTMLElement[]; model: Lately };
}

export class Models {
  readonly #rows = new Keyed<string, Row>(byId('models'));
  readonly #find = byId<HTMLInputElement>('models-find');
  readonly #seen = new Set<Element>();
  readonly #watch: IntersectionObserver;
  chosen: string | undefined;

  constructor(readonly store: Store, readonly choose: (key: string) => void) {
    this.#find.addEventListener('input', () => this.update());
    // Lines of rows that nobody sees are not drawn.
    this.#watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) this.#seen.add(entry.target);
        else this.#seen.delete(entry.target);
      }
    });
  }

  update(): void {
    const { models } = this.store;
    const wanted = this.#find.value.trim().toLowerCase();
    const found = wanted ? models.filter((model) => model.facts.name.toLowerCase().includes(wanted)) : models;
    this.#find.hidden = models.length <= 8;
    const unwell = models.filter((model) => model.facts.trouble !== null).length;
    const hidden = Math.max(0, found.length - MOST);
    setText(
      byId('models-hint'),
      [
        `${models.length} served`,
        unwell > 0 ? `${unwell} not ready` : '',
        hidden > 0 ? `${hidden} more: find them by name` : '',
      ].filter(Boolean).join(' · '),
    );
    this.#rows.update(
      found.slice(0, MOST),
      (model) => model.key,
      (model) => this.#make(model),
      (row, model) => this.#write(row, model),
    );
  }

  draw(): void {
    for (const row of this.#seen) {
      const parts = (row as Row).parts;
      if (parts) spark(parts.canvas, [{ line: parts.model.rate, colour: '--accent', fill: true }]);
    }
  }

  #make(model: Lately): Row {
    const name = el('button', { type: 'button', class: 'name' });
    const label = el('span', { class: 'label' }, model.facts.name);
    const about = `v${model.facts.version} · ${model.facts.platform}`;
    const state = el('span', { class: 'state' });
    name.append(label, el('small', {}, about));
    name.addEventListener('click', () => this.choose(model.key));
    const canvas = sparkCanvas();
    const cells = ['n rate', 'n p50', 'n', 'n wide', 'n wide'].map((kind) => el('span', { class: kind, role: 'cell' }));
    const row: Row = el('div', { class: 'model', role: 'row' });
    row.append(
      el('span', { class: 'who', role: 'cell' }, state, name),
      el('span', { class: 'wide', role: 'cell' }, canvas),
      ...cells,
    );
    row.parts = { name, state, canvas, cells, model };
    this.#watch.observe(row);
    return row;
  }

  #write(row: Row, model: Lately): void {
    const parts = row.parts;
    if (!parts) return;
    parts.model = model;
    const sum = this.store.now([model]);
    const { facts, ever } = model;
    const refused = sum.refused > 0;
    const state = facts.trouble !== null ? 'bad' : refused || sum.failed > 0 ? 'warn' : sum.good > 0 ? 'busy' : 'idle';
    const words = { bad: `not ready: ${facts.trouble}`, warn: 'refuses or fails requests', busy: 'answers', idle: 'idle' };
    if (parts.state.dataset['is'] !== state) parts.state.dataset['is'] = state;
    parts.state.title = words[state];
    setText(parts.state, words[state]);
    const mean = sum.rows.mean();
    const values = [
      format.rate(sum.good / this.store.seconds),
      format.time(sum.total.quantile(0.5)),
      format.time(sum.total.quantile(0.99)),
      mean === undefined ? '–' : mean.toFixed(1),
      format.count(ever.waiting ?? 0),
    ];
    parts.cells.forEach((cell, at) => setText(cell, values[at] ?? ''));
    const chosen = model.key === this.chosen;
    setFlag(row, 'chosen', chosen);
    parts.name.setAttribute('aria-pressed', String(chosen));
  }
}
