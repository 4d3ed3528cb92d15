// Building the page. Foreign text goes in as text and nothing else: there is no way here to give
// anything HTML.

type Child = Node | string;
type Attributes = Record<string, string | boolean | undefined>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element as T;
}

/** Writes only what has changed, so that nothing is laid out again for nothing. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setFlag(element: Element, name: string, on: boolean): void {
  element.classList.toggle(name, on);
}

/** Rows of a list by key: those that stay are kept, so that focus and selection are too. */
export class Keyed<K, E extends HTMLElement> {
  readonly #rows = new Map<K, E>();

  constructor(readonly parent: HTMLElement) {}

  get(key: K): E | undefined {
    return this.#rows.get(key);
  }

  update<T>(items: T[], key: (item: T) => K, make: (item: T) => E, write: (row: E, item: T) => void): void {
    const wanted = new Set(items.map(key));
    for (const [known, row] of this.#rows) {
      if (!wanted.has(known)) {
        row.remove();
        this.#rows.delete(known);
      }
    }
    items.forEach((item, at) => {
      const own = key(item);
      let row = this.#rows.get(own);
      if (!row) {
        row = make(item);
        this.#rows.set(own, row);
      }
      write(row, item);
      if (this.parent.children[at] !== row) this.parent.insertBefore(row, this.parent.children[at] ?? null);
    });
  }
}

/** A canvas drawn in CSS pixels, sharp on any screen. */
export function sized(canvas: HTMLCanvasElement): { g: CanvasRenderingContext2D; w: number; h: number } | undefined {
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  const g = canvas.getContext('2d');
  if (!g || w === 0 || h === 0) return undefined;
  const scale = window.devicePixelRatio || 1;
  const [pw, ph] = [Math.round(w * scale), Math.round(h * scale)];
  if (canvas.width !== pw || canvas.height !== ph) [canvas.width, canvas.height] = [pw, ph];
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, w, h);
  return { g, w, h };
}

const inks = new Map<string, string>();
let theme: string | undefined;

/** A colour of the theme that is in force. To ask for its style is dear, so that is done once. */
export function colour(name: string): string {
  const root = document.documentElement;
  if (theme !== root.dataset['theme']) inks.clear();
  theme = root.dataset['theme'];
  let ink = inks.get(name);
  if (ink === undefined) {
    ink = getComputedStyle(root).getPropertyValue(name).trim();
    inks.set(name, ink);
  }
  return ink;
}
