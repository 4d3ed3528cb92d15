// One conversation over the server's own WebSocket (docs/protocol.md): start, audio, stop.

import { token } from '../token.ts';

/** More than this on its way, and the file waits: the server reads as fast as it can work. */
const ON_THE_WAY = 256 * 1024;
const SLICE = 32 * 1024;

export interface Segment {
  start_time: number;
  end_time: number;
  is_final?: boolean;
  channel: number;
  [output: string]: unknown;
}

export interface Told {
  active(time: number): void;
  inactive(time: number): void;
  segment(segment: Segment): void;
  /** Something went wrong; `isFatal` where audio has no result because of it. */
  trouble(message: string, isFatal: boolean): void;
  ended(): void;
}

export type Format = { encoding: string } | { channels: number; sample_rate: number; bit_depth: number; is_float: boolean };

export class Conversation {
  readonly #socket: WebSocket;
  readonly #told: Told;
  #isOver = false;

  constructor(path: 'simple' | 'segmented', start: Record<string, unknown> & { format: Format }, told: Told) {
    const url = new URL(`api/v1/${path}`, location.href);
    url.protocol = url.protocol.replace('http', 'ws');
    url.hash = '';
    const own = token();
    // A page cannot set a header here; a token goes as a subprotocol.
    this.#socket = own ? new WebSocket(url, ['token', own]) : new WebSocket(url);
    this.#socket.binaryType = 'arraybuffer';
    this.#told = told;
    this.#socket.onopen = () => this.#say({ request: 'start', ...start });
    this.#socket.onmessage = (event: MessageEvent<string>) => this.#hear(event.data);
    this.#socket.onclose = (event) => {
      if (event.code !== 1000 && !this.#isOver) {
        told.trouble(event.reason || (event.code === 1006 ? 'The server did not let the stream in, or is gone.' : `The stream was closed (${event.code}).`), true);
      }
      this.#isOver = true;
      told.ended();
    };
  }

  send(audio: ArrayBuffer): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(audio);
  }

  /** Sends a file as it is, as fast as the server takes it. */
  async sendFile(file: Blob): Promise<void> {
    await this.#opened();
    for (let at = 0; at < file.size && !this.#isOver; at += SLICE) {
      while (this.#socket.bufferedAmount > ON_THE_WAY && !this.#isOver) await pause(20);
      this.send(await file.slice(at, at + SLICE).arrayBuffer());
    }
    this.stop();
  }

  /** Everything that was said is answered, and then it is over. */
  stop(): void {
    this.#say({ request: 'stop', disconnect: true });
  }

  leave(): void {
    this.#isOver = true;
    this.#socket.close();
  }

  #opened(): Promise<void> {
    if (this.#socket.readyState !== WebSocket.CONNECTING) return Promise.resolve();
    return new Promise((done) => {
      this.#socket.addEventListener('open', () => done(), { once: true });
      this.#socket.addEventListener('close', () => done(), { once: true });
    });
  }

  #say(request: object): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(request));
  }

  #hear(text: string): void {
    const message = JSON.parse(text) as { type: string; time: number; message: string } & Segment;
    if (message.type === 'active') this.#told.active(message.time);
    else if (message.type === 'inactive') this.#told.inactive(message.time);
    else if (message.type === 'segment') this.#told.segment(message);
    else if (message.type === 'error' || message.type === 'warning') this.#told.trouble(message.message, message.type === 'error');
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
