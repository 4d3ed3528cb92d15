// Microphone or file to what is said, as it is said.

import { el, setFlag, setText } from '../dom.ts';
import { Conversation, type Format, type Segment } from './conversation.ts';
import { Voice } from './voice.ts';

/** Results that are kept on the page. */
const MOST_LINES = 200;
const OWN = new Set(['type', 'start_time', 'end_time', 'is_final', 'channel', 'request_id']);

export class Transcribe {
  readonly root = el('div', { class: 'panel' });
  readonly #pick = el('select', { id: 'speech-model' });
  readonly #path = el('select', { id: 'speech-path' });
  readonly #speak = el('button', { type: 'button', class: 'first', id: 'microphone' }, 'Use the microphone');
  readonly #file = el('input', { type: 'file', id: 'speech-file', accept: 'audio/*,video/webm,.wav,.flac,.mp3,.ogg,.m4a' });
  readonly #status = el('p', { class: 'ride', role: 'status' });
  readonly #voice = new Voice();
  readonly #lines = el('ol', { class: 'transcript', 'aria-live': 'polite', 'aria-label': 'What was said' });
  #talk: Conversation | undefined;
  #microphone: { stream: MediaStream; context: AudioContext } | undefined;
  #interim: HTMLElement | undefined;

  constructor() {
    this.#path.append(el('option', { value: 'segmented' }, 'utterances'), el('option', { value: 'simple' }, 'all of it'));
    const area = el(
      'div',
      { class: 'drop' },
      this.#speak,
      el('label', { for: 'speech-file', class: 'button' }, 'Choose a file'),
      this.#file,
      el('span', { class: 'quiet' }, 'or drop one here'),
    );
    this.root.append(
      el('header', {}, el('h2', {}, 'Transcribe'), el('p', { class: 'hint' }, 'streams over a WebSocket; calls are shared with every other stream')),
      el(
        'div',
        { class: 'row' },
        el('label', { for: 'speech-model' }, 'Model'),
        this.#pick,
        el('label', { for: 'speech-path' }, 'Give it'),
        this.#path,
      ),
      area,
      this.#voice.canvas,
      this.#status,
      this.#lines,
    );
    this.models([]);
    this.#speak.addEventListener('click', () => void (this.#microphone ? this.#hush() : this.#listen()));
    this.#file.addEventListener('change', () => {
      const file = this.#file.files?.[0];
      if (file) void this.#read(file);
      this.#file.value = '';
    });
    area.addEventListener('dragover', (event) => event.preventDefault());
    area.addEventListener('drop', (event) => {
      event.preventDefault();
      const file = event.dataTransfer?.files[0];
      if (file) void this.#read(file);
    });
  }

  /** Those that take audio. */
  models(names: string[]): void {
    const own = this.#pick.value;
    this.#pick.replaceChildren(el('option', { value: '' }, 'the server’s choice'), ...names.map((name) => el('option', { value: name }, name)));
    if (names.includes(own)) this.#pick.value = own;
  }

  #begin(format: Format): Conversation {
    this.#talk?.leave();
    this.#lines.replaceChildren();
    this.#interim = undefined;
    this.#voice.clear();
    const path = this.#path.value === 'simple' ? 'simple' : 'segmented';
    const start = { format, model: this.#pick.value || undefined, interim_results: path === 'segmented' };
    const talk: Conversation = new Conversation(path, start, {
      active: (time) => {
        this.#voice.active(time);
        setText(this.#status, 'Somebody speaks');
      },
      inactive: (time) => {
        this.#voice.inactive(time);
        setText(this.#status, 'Silence');
      },
      segment: (segment) => this.#show(segment),
      trouble: (message, isFatal) => this.#say(message, isFatal ? 'bad' : 'warn'),
      ended: () => {
        if (this.#talk !== talk) return;
        this.#talk = undefined;
        void this.#hush();
        setText(this.#status, this.#lines.childElementCount > 0 ? 'Done' : 'Done; nothing was heard');
      },
    });
    this.#talk = talk;
    return talk;
  }

  async #read(file: File): Promise<void> {
    await this.#hush();
    setText(this.#status, `Reading ${file.name}`);
    void this.#voice.file(file);
    await this.#begin({ encoding: 'auto' }).sendFile(file);
  }

  async #listen(): Promise<void> {
    // Browsers give the microphone only to pages that nobody can have changed on the way.
    if (!navigator.mediaDevices) {
      this.#say('The browser gives no microphone to this page: open it over https, or on localhost.', 'bad');
      return;
    }
    let stream: MediaStream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, noiseSuppression: true } });
    } catch (error) {
      this.#say(`There is no microphone: ${(error as Error).message}`, 'bad');
      return;
    }
    const context = new AudioContext();
    this.#microphone = { stream, context };
    this.#mark();
    await context.audioWorklet.addModule(new URL('assets/microphone.js', document.baseURI));
    const node = new AudioWorkletNode(context, 'microphone', { numberOfOutputs: 0 });
    const talk = this.#begin({ channels: 1, sample_rate: context.sampleRate, bit_depth: 16, is_float: false });
    node.port.onmessage = (event: MessageEvent<ArrayBuffer>) => {
      this.#voice.heard(new Int16Array(event.data), context.sampleRate);
      talk.send(event.data);
    };
    context.createMediaStreamSource(stream).connect(node);
    setText(this.#status, 'Listening');
  }

  async #hush(): Promise<void> {
    const microphone = this.#microphone;
    if (!microphone) return;
    this.#microphone = undefined;
    for (const track of microphone.stream.getTracks()) track.stop();
    await microphone.context.close();
    this.#talk?.stop();
    this.#mark();
  }

  #mark(): void {
    const on = this.#microphone !== undefined;
    setText(this.#speak, on ? 'Stop' : 'Use the microphone');
    setFlag(this.#speak, 'recording', on);
  }

  #show(segment: Segment): void {
    const rest = Object.fromEntries(Object.entries(segment).filter(([name]) => !OWN.has(name)));
    const text = words(rest);
    const isInterim = segment.is_final === false;
    const line = this.#interim ?? this.#line();
    this.#interim = isInterim ? line : undefined;
    setFlag(line, 'interim', isInterim);
    const [time, said] = [...line.children];
    if (time) setText(time, `${segment.start_time.toFixed(1)} – ${segment.end_time.toFixed(1)} s`);
    if (said) setText(said, text);
  }

  #say(text: string, kind: string): void {
    const line = this.#line();
    line.classList.add(kind);
    const said = line.lastElementChild;
    if (said) setText(said, text);
  }

  #line(): HTMLElement {
    const line = el('li', {}, el('time'), el('span'));
    this.#lines.append(line);
    if (this.#lines.childElementCount > MOST_LINES) this.#lines.firstChild?.remove();
    line.scrollIntoView({ block: 'nearest' });
    return line;
  }
}

/** What a model said: its text where it has one, else its outputs as they are. */
function words(outputs: Record<string, unknown>): string {
  for (const name of ['text', 'transcript', 'TEXT']) {
    const said = outputs[name];
    if (typeof said === 'string') return said || '(nothing)';
    if (Array.isArray(said) && typeof said[0] === 'string') return said.join(' ');
  }
  return JSON.stringify(outputs);
}
