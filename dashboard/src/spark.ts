// Small lines without axes: the shape of the last minute.

import { colour, el, sized } from './dom.ts';
import type { Line } from './store.ts';

export interface Drawn {
  line: Line;
  colour: string;
  fill?: boolean;
}

/** Draws lines over each other on one scale that begins at zero. */
export function spark(canvas: HTMLCanvasElement, drawn: Drawn[]): void {
  const place = sized(canvas);
  if (!place) return;
  const { g, w, h } = place;
  let top = 0;
  for (const { line } of drawn) for (const value of line.values) if (value > top) top = value;
  const y = (value: number) => h - 1.5 - (top > 0 ? (value / top) * (h - 4) : 0);
  for (const { line, colour: name, fill } of drawn) {
    const n = line.values.length;
    const x = (at: number) => (at / (n - 1)) * (w - 4) + 1;
    const path = new Path2D();
    let [first, last] = [-1, -1];
    line.values.forEach((value, at) => {
      if (Number.isNaN(value)) return;
      if (first < 0) {
        path.moveTo(x(at), y(value));
        first = at;
      } else path.lineTo(x(at), y(value));
      last = at;
    });
    if (first < 0) continue;
    const ink = colour(name);
    if (fill) {
      const area = new Path2D(path);
      area.lineTo(x(last), h);
      area.lineTo(x(first), h);
      area.closePath();
      const shade = g.createLinearGradient(0, 0, 0, h);
      shade.addColorStop(0, `color-mix(in srgb, ${ink} 28%, transparent)`);
      shade.addColorStop(1, `color-mix(in srgb, ${ink} 2%, transparent)`);
      g.fillStyle = shade;
      g.fill(area);
    }
    g.strokeStyle = ink;
    g.lineWidth = 1.5;
    g.lineJoin = 'round';
    g.stroke(path);
    g.fillStyle = ink;
    g.beginPath();
    g.arc(x(last), y(line.values[last] ?? 0), 2, 0, 7);
    g.fill();
  }
}

export function sparkCanvas(): HTMLCanvasElement {
  return el('canvas', { class: 'spark', 'aria-hidden': 'true' });
}
