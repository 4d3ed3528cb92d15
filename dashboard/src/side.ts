// Streams, cameras and faults: numbers for all of them, and a few one by one.

import { byId, el, Keyed, setFlag, setText } from './dom.ts';
import * as format from './format.ts';
import { spark, sparkCanvas } from './spark.ts';
import type { Store } from './store.ts';
import type { Fault, Round } from './wire.ts';

/** Label and number, in a row. */
class Figures {
  readonly #cells: HTMLElement[];

  constructor(parent: HTMLElement, labels: string[]) {
    const list = el('dl', { class: 'figures' });
    this.#cells = labels.map((label) => {
      const value = el('dd', {}, '–');
      list.append(el('div', {}, el('dt', {}, label), value));
      return value;
    });
    parent.append(list);
  }

  show(values: string[]): void {
    this.#cells.forEach((cell, at) => setText(cell, values[at] ?? ''));
  }
}

export class Streams {
  readonly #root = byId('streams');
  readonly #figures = new Figures(this.#root, ['open', 'speaking', 'audio', 'behind']);
  readonly #canvas = sparkCanvas();
  readonly #rows: Keyed<number, HTMLElement>;

  constructor(readonly store: Store) {
    const list = el('ol', { class: 'rounds', 'aria-label': 'Streams that are furthest behind, then the oldest' });
    this.#root.append(this.#canvas, list);
    this.#rows = new Keyed(list);
  }

  update(): void {
    const { speech, audio } = this.store;
    if (!speech) return;
    const perSecond = audio.sum(4) / 4;
    this.#figures.show([
      format.count(speech.open),
      format.count(speech.speaking),
      `${format.rate(perSecond)} s/s`,
      speech.behind_ms === 0 ? 'none' : format.time(speech.behind_ms * 1e6),
    ]);
    const more = speech.rounds - speech.top.length;
    setText(byId('streams-hint'), more > 0 ? `the first ${speech.top.length} of ${speech.rounds}` : `${format.count(speech.segments)} results so far`);
    this.#rows.update(
      speech.top,
      (round) => round.number,
      () => el('li', {}, el('i', { class: 'voice', 'aria-hidden': 'true' }), el('span', { class: 'what' }), el('span', { class: 'n' })),
      (row, round) => this.#write(row, round),
    );
  }

  #write(row: HTMLElement, round: Round): void {
    const [, what, n] = [...row.children];
    setFlag(row, 'speaking', round.speaking);
    if (what) setText(what, [round.model, round.kind === 'simple' ? 'all of it' : '', round.speaking ? 'speaking' : '', round.failed ? `${round.failed} failed` : ''].filter(Boolean).join(' · '));
    const behind = round.behind_ms > 0 ? `${format.time(round.behind_ms * 1e6)} behind · ` : '';
    if (n) setText(n, `${behind}${format.minutes(round.heard_ms / 1000)}`);
    setFlag(row, 'late', round.behind_ms > 5000);
  }

  draw(): void {
    spark(this.#canvas, [{ line: this.store.audio, colour: '--accent', fill: true }]);
  }
}

export class Cameras {
  readonly #panel = byId('cameras-panel');
  readonly #root = byId('cameras');
  readonly #figures = new Figures(this.#root, ['frames/s', 'cameras', 'in memory', 'dropped']);
  readonly #canvas = sparkCanvas();
  readonly #note = el('p', { class: 'hint' });
  readonly #problem = el('p', { class: 'trouble', hidden: true });

  constructor(readonly store: Store) {
    this.#root.append(this.#canvas, this.#problem, this.#note);
  }

  update(): void {
    const { cameras, frames } = this.store;
    this.#panel.hidden = !cameras;
    if (!cameras) return;
    const perSecond = frames.sum(4) / 4;
    const { counts } = cameras;
    this.#figures.show([
      format.rate(perSecond),
      format.count(cameras.taken),
      format.count(cameras.held_frames),
      format.count(counts.dropped),
    ]);
    const link = cameras.is_up ? 'Redis answers' : 'Redis does not answer';
    setText(byId('cameras-hint'), `${link} · ${cameras.shards} shards here · ${cameras.nodes} ${cameras.nodes === 1 ? 'node' : 'nodes'}`);
    this.#problem.hidden = cameras.problem === null;
    setText(this.#problem, cameras.problem ?? '');
    const more = cameras.n_paused - cameras.paused.length;
    const paused = cameras.n_paused > 0 ? `paused: ${cameras.paused.join(', ')}${more > 0 ? ` and ${more} more` : ''} · ` : '';
    setText(
      this.#note,
      `${paused}${format.count(counts.committed)} answered · ${format.count(counts.dead)} dead letters · ${format.count(counts.lost)} lost · ${format.bytes(cameras.held_bytes)} held`,
    );
  }

  draw(): void {
    if (this.store.cameras) spark(this.#canvas, [{ line: this.store.frames, colour: '--accent', fill: true }]);
  }
}

export class Faults {
  readonly #rows = new Keyed<number, HTMLElement>(byId('faults'));

  constructor(readonly store: Store) {}

  update(): void {
    const newest = [...this.store.faults].sort((a, b) => b.last_ms - a.last_ms || b.number - a.number).slice(0, 12);
    setText(byId('faults-hint'), newest.length === 0 ? 'none' : 'newest first');
    this.#rows.update(
      newest,
      (fault) => fault.number,
      () => el('li', {}, el('time'), el('span')),
      (row, fault) => this.#write(row, fault),
    );
  }

  #write(row: HTMLElement, fault: Fault): void {
    const [time, what] = [...row.children];
    if (time) setText(time, format.clock(fault.last_ms));
    const who = fault.model ? `${fault.model}: ` : '';
    const isCounted = fault.kind !== 'trouble' && fault.kind !== 'cameras';
    if (what) setText(what, `${who}${isCounted ? `${format.count(fault.count)} ` : ''}${fault.text}`);
    setFlag(row, 'now', this.store.nowMs - fault.last_ms < 5000);
  }
}
