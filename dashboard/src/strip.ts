// The live strip: every batch a bar, the newest at the right.

import { byId, colour, el, setText, sized } from './dom.ts';
import * as format from './format.ts';
import { inkOf, WORDS } from './reasons.ts';
import type { Shown, Store } from './store.ts';
import { REASONS } from './wire.ts';

const STEP = 8;
const BAR = 6;
/** How long a new bar takes to slide in. */
const SLIDE_MS = 350;

export class Strip {
  readonly #canvas = byId<HTMLCanvasElement>('strip');
  readonly #readout = byId('strip-readout');
  readonly #pick = byId<HTMLSelectElement>('strip-model');
  readonly #still = matchMedia('(prefers-reduced-motion: reduce)');
  readonly #counts: HTMLElement[];
  readonly #more = el('li');
  #bars: Shown[] = [];
  #chosen: Shown | undefined;
  #newest: Shown | undefined;
  #slide = 0;
  #slideBegan = 0;
  #frame = 0;

  constructor(readonly store: Store) {
    const legend = byId('legend');
    this.#counts = REASONS.map((reason) => {
      const n = el('b', {}, '0');
      const swatch = el('i', { class: `swatch ${reason}`, 'aria-hidden': 'true' });
      legend.append(el('li', { title: WORDS[reason].why }, swatch, WORDS[reason].name, ' ', n));
      return n;
    });
    legend.append(this.#more);
    this.#canvas.addEventListener('pointermove', (event) => this.#point(event.offsetX));
    this.#canvas.addEventListener('pointerleave', () => this.#choose(undefined));
    this.#canvas.addEventListener('keydown', (event) => this.#key(event));
    this.#canvas.addEventListener('blur', () => this.#choose(undefined));
    this.#pick.addEventListener('change', () => this.update());
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
  }

  /** The names to choose from. */
  models(names: string[]): void {
    const own = this.#pick.value;
    this.#pick.replaceChildren(el('option', { value: '' }, 'all models'), ...names.map((name) => el('option', { value: name }, name)));
    this.#pick.value = names.includes(own) ? own : '';
  }

  update(): void {
    const of = this.#pick.value;
    this.#bars = of ? this.store.batches.filter((batch) => batch.model === of) : this.store.batches;
    const models = of ? this.store.models.filter((model) => model.facts.name === of) : this.store.models;
    const { fired } = this.store.recently(models);
    this.#counts.forEach((element, at) => {
      setText(element, format.count(fired[at] ?? 0));
      element.parentElement?.classList.toggle('none', !fired[at]);
    });
    const unseen = this.store.unseen.sum(30);
    setText(this.#more, unseen > 0 ? `${format.count(unseen)} of them not drawn` : '');
    const newest = this.#bars.at(-1);
    if (newest && newest !== this.#newest) {
      const at = this.#newest ? this.#bars.lastIndexOf(this.#newest) : -1;
      const fresh = at < 0 ? 0 : this.#bars.length - 1 - at;
      if (!this.#still.matches && fresh > 0 && fresh < 24) {
        this.#slide = fresh * STEP;
        this.#slideBegan = performance.now();
      }
      this.#newest = newest;
    }
    if (this.#chosen && !this.#bars.includes(this.#chosen)) this.#choose(undefined);
    else this.#tell();
    this.draw();
  }

  draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame((now) => this.#paint(now));
  }

  #paint(now: number): void {
    const place = sized(this.#canvas);
    if (!place) return;
    const { g, w, h } = place;
    const progress = Math.min(1, (now - this.#slideBegan) / SLIDE_MS);
    const shift = this.#slide * (1 - progress) ** 3;
    const n = Math.ceil((w + shift) / STEP);
    const bars = this.#bars.slice(-n);
    const floor = h - 1;
    const top = Math.max(4, ...bars.map((bar) => bar.rows));
    const lines = [0.5, 1].map((share) => ({ y: Math.round(floor - share * (floor - 18)) + 0.5, rows: Math.round(top * share) }));
    g.strokeStyle = colour('--line');
    g.lineWidth = 1;
    for (const { y } of lines) {
      g.beginPath();
      g.moveTo(0, y);
      g.lineTo(w, y);
      g.stroke();
    }
    const inks = REASONS.map((reason) => colour(inkOf(reason)));
    const bad = colour('--bad');
    bars.forEach((bar, at) => {
      const x = w - (bars.length - at) * STEP + shift;
      const height = Math.max(3, (bar.rows / top) * (floor - 18));
      g.globalAlpha = this.#chosen && this.#chosen !== bar ? 0.45 : 1;
      g.fillStyle = inks[bar.fired] ?? bad;
      g.beginPath();
      g.roundRect(x, floor - height, BAR, height, [2, 2, 0, 0]);
      g.fill();
      if (bar.failed) {
        // A cap above the bar: seen without telling its colour.
        g.fillStyle = bad;
        g.fillRect(x - 1, floor - height - 5, BAR + 2, 3);
      }
    });
    g.globalAlpha = 1;
    // Over the bars, with a rim that keeps them apart.
    g.font = '11px system-ui, sans-serif';
    g.textAlign = 'left';
    g.lineJoin = 'round';
    g.lineWidth = 4;
    g.strokeStyle = colour('--panel');
    g.fillStyle = colour('--quiet');
    for (const { y, rows } of lines) {
      g.strokeText(`${format.count(rows)} rows`, 2, y - 4);
      g.fillText(`${format.count(rows)} rows`, 2, y - 4);
    }
    if (bars.length === 0) {
      g.fillStyle = colour('--quiet');
      g.font = '13px system-ui, sans-serif';
      g.textAlign = 'center';
      g.fillText('No batch yet', w / 2, h / 2 + 4);
    }
    if (progress < 1 && this.#slide > 0) this.draw();
  }

  #point(x: number): void {
    const back = Math.floor((this.#canvas.clientWidth - x) / STEP);
    this.#choose(this.#bars.at(-1 - back));
  }

  #key(event: KeyboardEvent): void {
    const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (event.key === 'Escape') return this.#choose(undefined);
    if (step === undefined) return;
    event.preventDefault();
    const most = Math.ceil(this.#canvas.clientWidth / STEP);
    const from = Math.max(0, this.#bars.length - most);
    const now = this.#chosen ? this.#bars.indexOf(this.#chosen) : this.#bars.length;
    const next = Math.min(this.#bars.length - 1, Math.max(from, now + step));
    this.#choose(this.#bars[next]);
  }

  #choose(bar: Shown | undefined): void {
    if (bar === this.#chosen) return;
    this.#chosen = bar;
    this.#tell();
    this.draw();
  }

  #tell(): void {
    const bar = this.#chosen;
    if (!bar) {
      setText(this.#readout, '');
      return;
    }
    const reason = REASONS[bar.fired];
    const parts = [
      `${bar.model} #${bar.sequence}`,
      bar.rows === 1 ? '1 row' : `${bar.rows} rows`,
      reason ? WORDS[reason].name : '',
      `waited ${format.time(bar.wait_us * 1000)}`,
      `took ${format.time(bar.took_us * 1000)}`,
      bar.padding ? `${bar.padding} % padding` : '',
      bar.failed ? `${bar.failed} failed` : '',
      bar.late ? `${bar.late} late` : '',
    ];
    setText(this.#readout, parts.filter(Boolean).join(' · '));
  }
}
