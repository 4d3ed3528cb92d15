// One model closely: where its time goes, how large its batches are, why they leave, and what its
// batcher thinks.

import { byId, el, setText } from './dom.ts';
import * as format from './format.ts';
import { WORDS } from './reasons.ts';
import { Sum, type Lately, type Store } from './store.ts';
import { headers } from './token.ts';
import { REASONS } from './wire.ts';

/** How often the batcher is asked what it thinks. */
const ASK_MS = 2_000;
const QUANTILES = [0.5, 0.95, 0.99] as const;

interface Explained {
  policy?: string;
  queues?: { decision?: string; imagined?: boolean }[];
}

export class Detail {
  readonly #root = byId('detail');
  readonly #title = el('h2', { id: 'detail-title' });
  readonly #facts = el('p', { class: 'hint' });
  readonly #trouble = el('p', { class: 'trouble', hidden: true });
  readonly #cells: HTMLElement[][];
  readonly #span = el('p', { class: 'hint' });
  readonly #bars = el('div', { class: 'histogram', role: 'img' });
  readonly #stack = el('div', { class: 'stack', 'aria-hidden': 'true' });
  readonly #reasons: { row: HTMLElement; n: HTMLElement; part: HTMLElement }[];
  readonly #totals = el('p', { class: 'hint' });
  readonly #belief = el('p', { class: 'belief', hidden: true });
  #model: Lately | undefined;
  #askedAt = 0;

  constructor(readonly store: Store) {
    const rows = ['End to end', 'Waiting', 'In the model'].map((label) => {
      const cells = QUANTILES.map(() => el('td', { class: 'n' }));
      return { row: el('tr', {}, el('th', { scope: 'row' }, label), ...cells), cells };
    });
    this.#cells = rows.map((row) => row.cells);
    const head = el('tr', {}, el('td'), ...['p50', 'p95', 'p99'].map((name) => el('th', { scope: 'col', class: 'n' }, name)));
    const list = el('ul', { class: 'reasons' });
    this.#reasons = REASONS.map((reason) => {
      const n = el('span', { class: 'n' });
      const part = el('i', { class: `swatch ${reason}` });
      const row = el('li', { title: WORDS[reason].why }, el('i', { class: `swatch ${reason}`, 'aria-hidden': 'true' }), WORDS[reason].name, n);
      this.#stack.append(part);
      list.append(row);
      return { row, n, part };
    });
    this.#root.append(
      el('header', {}, this.#title, this.#facts),
      this.#trouble,
      el(
        'div',
        { class: 'facets' },
        el('section', {}, el('h3', {}, 'Time'), el('table', {}, el('thead', {}, head), el('tbody', {}, ...rows.map((row) => row.row))), this.#span),
        el('section', {}, el('h3', {}, 'Batch sizes'), this.#bars),
        el('section', {}, el('h3', {}, 'Why batches leave'), this.#stack, list),
      ),
      this.#belief,
      this.#totals,
    );
  }

  show(model: Lately | undefined): void {
    if (model?.key !== this.#model?.key) {
      this.#askedAt = 0;
      this.#belief.hidden = true;
    }
    this.#model = model;
    this.#root.hidden = model === undefined;
    this.update();
  }

  update(): void {
    const model = this.#model;
    if (!model) return;
    const { facts, ever } = model;
    setText(this.#title, facts.name);
    const instances = facts.instances === 1 ? 'one instance' : `${facts.instances} instances`;
    setText(this.#facts, `version ${facts.version} · ${facts.platform} · ${instances} · batches of up to ${facts.max_batch}`);
    this.#trouble.hidden = facts.trouble === null;
    setText(this.#trouble, facts.trouble ? `Not ready: ${facts.trouble}` : '');

    let sum = this.store.recently([model]);
    const isNew = sum.total.total > 0 || sum.rows.total > 0;
    if (!isNew) sum = new Sum().add(ever);
    setText(this.#span, isNew ? 'of the last 15 seconds' : sum.total.total > 0 ? 'since it was loaded' : 'nothing was asked yet');
    [sum.total, sum.wait, sum.run].forEach((tally, row) => {
      QUANTILES.forEach((share, column) => {
        const cell = this.#cells[row]?.[column];
        if (cell) setText(cell, format.time(tally.quantile(share)));
      });
    });
    this.#histogram(sum);
    this.#why(sum);
    const lost = (ever.refused ?? 0) + (ever.hopeless ?? 0) + (ever.late ?? 0);
    setText(
      this.#totals,
      [
        `Since it was loaded: ${format.count(ever.good ?? 0)} answered`,
        `${format.count(ever.failed ?? 0)} failed`,
        `${format.count(lost)} refused or too late`,
        `${format.count(ever.cancelled ?? 0)} left by their client`,
        `${ever.in_flight ?? 0} under way`,
      ].join(' · '),
    );
    void this.#ask(model);
  }

  #histogram(sum: Sum): void {
    const bins = sum.rows.sorted();
    const most = Math.max(1, ...bins.map(([, n]) => n));
    while (this.#bars.children.length > bins.length) this.#bars.lastChild?.remove();
    bins.forEach(([rows, n], at) => {
      let bar = this.#bars.children[at] as HTMLElement | undefined;
      if (!bar) {
        bar = el('span', {}, el('i'), el('small'));
        this.#bars.append(bar);
      }
      const [ink, label] = [bar.firstElementChild as HTMLElement, bar.lastElementChild];
      ink.style.height = `${Math.max(2, (n / most) * 100)}%`;
      bar.title = `${rows} ${rows === 1 ? 'row' : 'rows'}: ${n} batches`;
      if (label) setText(label, String(rows));
    });
    const mean = sum.rows.mean();
    this.#bars.setAttribute('aria-label', mean === undefined ? 'No batches' : `Batches of ${mean.toFixed(1)} rows on average; ${bins.map(([rows, n]) => `${n} of ${rows}`).join(', ')}`);
  }

  #why(sum: Sum): void {
    const all = sum.fired.reduce((total, n) => total + n, 0);
    this.#reasons.forEach(({ row, n, part }, at) => {
      const own = sum.fired[at] ?? 0;
      const share = all > 0 ? own / all : 0;
      part.style.flexGrow = String(share);
      setText(n, own > 0 ? `${format.share(share)}` : '–');
      row.classList.toggle('none', own === 0);
    });
  }

  /** What the batcher would do now. Where it may not be asked, nothing is shown. */
  async #ask(model: Lately): Promise<void> {
    const now = performance.now();
    if (now - this.#askedAt < ASK_MS || document.hidden) return;
    this.#askedAt = now;
    try {
      const { name, version } = model.facts;
      const url = `v1/models/${encodeURIComponent(name)}/explain?batches=0&version=${version}`;
      const answer = await fetch(url, { headers: headers() });
      if (!answer.ok || this.#model !== model) return;
      const { queues = [] } = (await answer.json()) as Explained;
      const words = queues.find((queue) => queue.decision)?.decision;
      this.#belief.hidden = !words;
      setText(this.#belief, words ? `The batcher: ${words}` : '');
    } catch {
      // The next look will tell.
    }
  }
}
