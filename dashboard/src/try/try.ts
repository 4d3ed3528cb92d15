// "Try it": a tab for each thing that one can do, and none for what this server does not serve.

import { byId, el } from '../dom.ts';
import type { Facts } from '../wire.ts';
import { about, takesAudio, type About } from './about.ts';
import { Infer } from './infer.ts';
import { Speak } from './speak.ts';
import { Transcribe } from './transcribe.ts';

interface Tab {
  id: string;
  label: string;
  panel: HTMLElement;
  button: HTMLButtonElement;
}

export class TryIt {
  readonly #root = byId('try');
  readonly #tabs: Tab[] = [];
  readonly #list = el('div', { class: 'tabs', role: 'tablist', 'aria-label': 'What to try' });
  readonly #transcribe = new Transcribe();
  readonly #infer = new Infer();
  readonly #speak = new Speak();
  #facts: Facts[] = [];
  #known = '';

  constructor() {
    this.#root.append(this.#list);
    this.#add('transcribe', 'Transcribe', this.#transcribe.root);
    this.#add('infer', 'Ask a model', this.#infer.root);
    this.#add('speak', 'Speak', this.#speak.root);
    this.#show(this.#tabs[0]);
    this.#list.addEventListener('keydown', (event) => this.#key(event));
    addEventListener('hashchange', () => this.#open());
    this.#open();
  }

  /** What is served now. */
  models(facts: Facts[]): void {
    this.#facts = facts;
    this.#open();
  }

  /** Another token is there: what could not be read may be read now. */
  again(): void {
    this.#known = '';
    this.#open();
  }

  /** Reads about the models once somebody wants to try one, and again when they have changed. */
  #open(): void {
    const names = [...new Set(this.#facts.map((facts) => facts.name))];
    const known = this.#facts.map((facts) => `${facts.name} ${facts.version}`).join('\n');
    if (!location.hash.startsWith('#try') || known === this.#known) return;
    this.#known = known;
    void Promise.all(names.slice(0, 200).map((name) => about(name))).then((all) => {
      const models = all.filter((one): one is About => one !== undefined);
      const adapted = new Set(this.#facts.filter((facts) => facts.has_adapter).map((facts) => facts.name));
      this.#transcribe.models(models.filter(takesAudio).map((one) => one.name));
      this.#infer.models(models, adapted);
    });
    void this.#speak.look().then((is) => this.#offer('speak', is));
  }

  #add(id: string, label: string, panel: HTMLElement): void {
    const button = el('button', { type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': `panel-${id}` }, label);
    panel.id = `panel-${id}`;
    panel.setAttribute('role', 'tabpanel');
    panel.setAttribute('aria-labelledby', button.id);
    const tab = { id, label, panel, button };
    button.addEventListener('click', () => this.#show(tab));
    this.#tabs.push(tab);
    this.#list.append(button);
    this.#root.append(panel);
    if (id === 'speak') button.hidden = true;
  }

  #offer(id: string, is: boolean): void {
    const tab = this.#tabs.find((one) => one.id === id);
    if (tab) tab.button.hidden = !is;
  }

  #show(tab: Tab | undefined): void {
    for (const one of this.#tabs) {
      const chosen = one === tab;
      one.panel.hidden = !chosen;
      one.button.setAttribute('aria-selected', String(chosen));
      one.button.tabIndex = chosen ? 0 : -1;
    }
  }

  #key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const offered = this.#tabs.filter((tab) => !tab.button.hidden);
    const now = offered.findIndex((tab) => tab.button === document.activeElement);
    const next = offered[(now + step + offered.length) % offered.length];
    this.#show(next);
    next?.button.focus();
  }
}
