// The sound of a stream and where somebody speaks in it.

import { colour, el, sized } from '../dom.ts';

/** One bar for so much sound. */
const BAR_S = 0.05;
/** Most bars that are kept: a microphone may be left on. */
const MOST = 4096;

export class Voice {
  readonly canvas = el('canvas', { class: 'voice-line', role: 'img', 'aria-label': 'The sound, and where somebody speaks' });
  #peaks: number[] = [];
  /** Bars that were let go of. */
  #gone = 0;
  #spans: [number, number | undefined][] = [];
  /** Of the bar that is not full yet. */
  #peak = 0;
  #n = 0;
  #frame = 0;

  constructor() {
    new ResizeObserver(() => this.#draw()).observe(this.canvas);
  }

  clear(): void {
    this.#peaks = [];
    this.#gone = 0;
    this.#spans = [];
    [this.#peak, this.#n] = [0, 0];
    this.#draw();
  }

  active(time: number): void {
    this.#spans.push([time, undefined]);
    this.#draw();
  }

  inactive(time: number): void {
    const last = this.#spans.at(-1);
    if (last) last[1] = time;
    this.#draw();
  }

  /** More of the sound, in pieces of any length. */
  heard(samples: Int16Array, rate: number): void {
    for (const sample of samples) {
      this.#peak = Math.max(this.#peak, Math.abs(sample));
      this.#n += 1;
      if (this.#n < rate * BAR_S) continue;
      this.#push(this.#peak / 32768);
      [this.#peak, this.#n] = [0, 0];
    }
    this.#draw();
  }

  /** The whole of a file, where the browser can read it. */
  async file(file: Blob): Promise<void> {
    try {
      const context = new OfflineAudioContext(1, 1, 16_000);
      const sound = await context.decodeAudioData(await file.arrayBuffer());
      const samples = sound.getChannelData(0);
      const step = Math.round(sound.sampleRate * BAR_S);
      for (let at = 0; at < samples.length; at += step) {
        let peak = 0;
        for (let n = at; n < Math.min(at + step, samples.length); n++) peak = Math.max(peak, Math.abs(samples[n] ?? 0));
        this.#push(peak);
      }
      this.#draw();
    } catch {
      // The server may know the format all the same.
    }
  }

  #push(peak: number): void {
    this.#peaks.push(peak);
    if (this.#peaks.length > MOST) {
      this.#peaks.shift();
      this.#gone += 1;
    }
  }

  #draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#paint());
  }

  #paint(): void {
    const place = sized(this.canvas);
    if (!place) return;
    const { g, w, h } = place;
    // What is longer than the line is wide is drawn closer, until bars would be hairs; then its end is shown.
    const step = Math.max(1.5, Math.min(4, w / Math.max(1, this.#peaks.length)));
    const shown = this.#peaks.slice(-Math.floor(w / step));
    const first = (this.#gone + this.#peaks.length - shown.length) * BAR_S;
    const [quiet, loud] = [colour('--line'), colour('--full')];
    const isSpeech = (time: number) => this.#spans.some(([from, to]) => from <= time && time < (to ?? Infinity));
    shown.forEach((peak, at) => {
      g.fillStyle = isSpeech(first + at * BAR_S) ? loud : quiet;
      const height = Math.max(2, Math.sqrt(peak) * (h - 4));
      g.fillRect(at * step, (h - height) / 2, Math.max(1, step - 1), height);
    });
  }
}
