// Runs where the browser handles sound: gathers samples into pieces of a twentieth of a second and
// hands them on as 16-bit numbers.

interface Processor {
  readonly port: MessagePort;
}
declare const sampleRate: number;
declare const AudioWorkletProcessor: new () => Processor;
declare function registerProcessor(name: string, processor: new () => Processor): void;

class Microphone extends AudioWorkletProcessor {
  #piece = new Int16Array(Math.round(sampleRate / 20));
  #filled = 0;

  process(inputs: Float32Array[][]): boolean {
    for (const sample of inputs[0]?.[0] ?? []) {
      this.#piece[this.#filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.#filled === this.#piece.length) {
        const full = this.#piece.buffer;
        this.port.postMessage(full, [full]);
        this.#piece = new Int16Array(Math.round(sampleRate / 20));
        this.#filled = 0;
      }
    }
    return true;
  }
}

registerProcessor('microphone', Microphone);
