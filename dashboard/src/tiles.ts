// The numbers that one looks at first.

import { byId, el, setFlag, setText } from './dom.ts';
import * as format from './format.ts';
import { spark, sparkCanvas, type Drawn } from './spark.ts';
import type { Store } from './store.ts';

class Tile {
  readonly #value = el('strong', {}, '–');
  readonly #unit = el('span', { class: 'unit' });
  readonly #note = el('span', { class: 'note' });
  readonly #canvas = sparkCanvas();
  readonly #root: HTMLElement;

  constructor(id: string, label: string, readonly lines: Drawn[]) {
    const figure = el('p', { class: 'figure' }, this.#value, this.#unit);
    this.#root = el('article', { class: 'tile', id, 'aria-label': label }, el('h2', {}, label), figure, this.#note, this.#canvas);
    byId('tiles').append(this.#root);
  }

  show(value: string, unit: string, note: string, alarming = false): void {
    setText(this.#value, value);
    setText(this.#unit, unit);
    setText(this.#note, note);
    setFlag(this.#root, 'alarming', alarming);
  }

  draw(): void {
    spark(this.#canvas, this.lines);
  }
}

export class Tiles {
  readonly #rate: Tile;
  readonly #latency: Tile;
  readonly #batch: Tile;
  readonly #waiting: Tile;
  readonly #streams: Tile;

  constructor(readonly store: Store) {
    this.#rate = new Tile('tile-rate', 'Answers', [{ line: store.rate, colour: '--accent', fill: true }]);
    this.#latency = new Tile('tile-latency', 'Latency', [
      { line: store.p99, colour: '--accent-2', fill: true },
      { line: store.p50, colour: '--accent' },
    ]);
    this.#batch = new Tile('tile-batch', 'Batch size', [{ line: store.batch, colour: '--accent', fill: true }]);
    this.#waiting = new Tile('tile-waiting', 'Waiting', [{ line: store.waiting, colour: '--accent', fill: true }]);
    this.#streams = new Tile('tile-streams', 'Streams', [{ line: store.streams, colour: '--accent', fill: true }]);
  }

  update(): void {
    const { store } = this;
    const sum = store.now();
    const ever = store.models.reduce((all, model) => all + (model.ever.good ?? 0), 0);
    this.#rate.show(format.rate(sum.good / store.seconds), 'per second', `${format.count(ever)} in all`);

    const [p50, p99] = [sum.total.quantile(0.5), sum.total.quantile(0.99)];
    const [value = '–', unit = ''] = format.time(p50).split(' ');
    this.#latency.show(value, unit, p99 === undefined ? 'median' : `median · p99 ${format.time(p99)}`);

    const padding = sum.padded > 0 ? 1 - sum.useful / sum.padded : 0;
    const batches = sum.fired.reduce((all, n) => all + n, 0) / store.seconds;
    const mean = sum.rows.mean();
    const note = `${format.rate(batches)} calls/s${padding > 0.005 ? ` · ${format.share(padding)} padding` : ''}`;
    this.#batch.show(mean === undefined ? '–' : mean.toFixed(mean < 10 ? 1 : 0), 'rows', note);

    const waiting = store.models.reduce((all, model) => all + (model.ever.waiting ?? 0), 0);
    const wait = sum.wait.quantile(0.99);
    const refused = sum.refused / store.seconds;
    const waitNote = refused > 0 ? `${format.rate(refused)} refused/s` : wait === undefined ? 'nobody waits' : `p99 wait ${format.time(wait)}`;
    this.#waiting.show(format.count(waiting), waiting === 1 ? 'request' : 'requests', waitNote, refused > 0);

    const speech = store.speech;
    const audio = store.audio.sum(10) / 10;
    this.#streams.show(
      format.count(speech?.open ?? 0),
      'open',
      `${speech?.speaking ?? 0} speaking · ${format.rate(audio)}× real time`,
      (speech?.behind_ms ?? 0) > 5000,
    );
  }

  draw(): void {
    for (const tile of [this.#rate, this.#latency, this.#batch, this.#waiting, this.#streams]) tile.draw();
  }
}
