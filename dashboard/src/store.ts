// What is known, added up from what was sent. No DOM, no clock: time is what the server says.

import { Tally } from './bins.ts';
import {
  REASONS,
  type Batch,
  type Cameras,
  type Counts,
  type Facts,
  type Fault,
  type Snapshot,
  type Speech,
  type Tick,
} from './wire.ts';

/** Ticks that lines are drawn over: a minute. */
export const SPAN = 120;
/** Batches that are kept for the strip. */
const BATCHES = 400;
const FAULTS = 64;
/** Over how long the numbers beside the lines are taken. */
const NOW_MS = 5_000;
const RECENT_MS = 15_000;

interface Step {
  at: number;
  ms: number;
  counts: Counts;
}

/** The last values of one number, oldest first. */
export class Line {
  readonly values = new Float64Array(SPAN).fill(NaN);

  push(value: number): void {
    this.values.copyWithin(0, 1);
    this.values[SPAN - 1] = value;
  }

  /** The sum of the last so many. */
  sum(n: number): number {
    return this.values.slice(-n).reduce((all, value) => all + (value || 0), 0);
  }
}

/** What a model did lately. */
export class Lately {
  #steps: Step[] = [];
  readonly rate = new Line();
  readonly p50 = new Line();
  readonly p99 = new Line();

  constructor(readonly facts: Facts, public ever: Counts) {}

  get key(): string {
    return `${this.facts.name}\n${this.facts.version}`;
  }

  push(at: number, ms: number, counts: Counts | undefined): void {
    this.#steps = this.#steps.filter((step) => at - step.at < RECENT_MS);
    if (counts) {
      this.#steps.push({ at, ms, counts });
      this.ever = added(this.ever, counts);
    }
    this.rate.push(ms > 0 ? ((counts?.good ?? 0) * 1000) / ms : 0);
    const took = new Tally().add(counts?.total ?? counts?.run);
    this.p50.push(took.quantile(0.5) ?? NaN);
    this.p99.push(took.quantile(0.99) ?? NaN);
  }

  /** Of the last few seconds, by the server's clock. */
  since(now: number, ms: number): Counts[] {
    return this.#steps.filter((step) => now - step.at < ms).map((step) => step.counts);
  }
}

/** What several models did over some time. */
export class Sum {
  readonly total = new Tally();
  readonly wait = new Tally();
  readonly run = new Tally();
  readonly rows = new Tally();
  readonly fired = REASONS.map(() => 0);
  good = 0;
  failed = 0;
  refused = 0;
  padded = 0;
  useful = 0;

  add(counts: Counts): this {
    this.total.add(counts.total ?? counts.run);
    this.wait.add(counts.wait);
    this.run.add(counts.run);
    this.rows.add(counts.rows);
    counts.fired?.forEach((n, at) => (this.fired[at] = (this.fired[at] ?? 0) + n));
    this.good += counts.good ?? 0;
    this.failed += counts.failed ?? 0;
    this.refused += (counts.refused ?? 0) + (counts.hopeless ?? 0) + (counts.late ?? 0);
    this.padded += counts.padded ?? 0;
    this.useful += counts.useful ?? 0;
    return this;
  }
}

export interface Shown extends Batch {
  model: string;
}

export class Store {
  server = '';
  beganMs = 0;
  nowMs = 0;
  isReady = false;
  models: Lately[] = [];
  speech: Speech | undefined;
  cameras: Cameras | undefined;
  faults: Fault[] = [];
  batches: Shown[] = [];
  /** Batches that were too many to be told one by one. */
  readonly unseen = new Line();
  readonly rate = new Line();
  readonly p50 = new Line();
  readonly p99 = new Line();
  readonly batch = new Line();
  readonly waiting = new Line();
  readonly streams = new Line();
  readonly audio = new Line();
  readonly frames = new Line();
  #lastOf = new Map<string, number>();

  snapshot(all: Snapshot): void {
    const restarted = this.beganMs !== all.began_ms;
    if (restarted) {
      this.batches = [];
      this.#lastOf.clear();
    }
    const known = new Map(restarted ? [] : this.models.map((model) => [model.key, model]));
    this.models = all.models.map(({ counts, ...facts }) => {
      const fresh = new Lately(facts, counts);
      const before = known.get(fresh.key);
      if (!before) return fresh;
      Object.assign(before.facts, facts);
      before.ever = counts;
      return before;
    });
    this.server = all.server;
    this.beganMs = all.began_ms;
    this.nowMs = all.time_ms;
    this.isReady = all.is_ready;
    this.speech = all.speech;
    this.cameras = all.cameras ?? undefined;
    this.faults = all.faults;
    this.#show(all.batches);
  }

  tick(tick: Tick): void {
    this.nowMs = tick.time_ms;
    const changes = new Map(tick.models?.map((change) => [change.at, change.counts]));
    const sum = new Sum();
    this.models.forEach((model, at) => {
      const counts = changes.get(at);
      model.push(tick.time_ms, tick.took_ms, counts);
      if (counts) sum.add(counts);
    });
    const perSecond = (n: number) => (tick.took_ms > 0 ? (n * 1000) / tick.took_ms : 0);
    this.rate.push(perSecond(sum.good));
    this.p50.push(sum.total.quantile(0.5) ?? NaN);
    this.p99.push(sum.total.quantile(0.99) ?? NaN);
    this.batch.push(sum.rows.mean() ?? NaN);
    this.waiting.push(this.models.reduce((all, model) => all + (model.ever.waiting ?? 0), 0));
    if (tick.speech && this.speech) {
      this.audio.push(perSecond(Math.max(0, tick.speech.samples - this.speech.samples)) / 16_000);
    } else {
      this.audio.push(0);
    }
    this.speech = tick.speech ?? this.speech;
    this.streams.push(this.speech?.open ?? 0);
    const frames = tick.cameras && this.cameras ? tick.cameras.counts.committed - this.cameras.counts.committed : 0;
    this.frames.push(perSecond(Math.max(0, frames)));
    this.cameras = tick.cameras ?? this.cameras;
    for (const fault of tick.faults ?? []) {
      const at = this.faults.findIndex((known) => known.number === fault.number);
      if (at < 0) this.faults.push(fault);
      else this.faults[at] = fault;
    }
    this.faults.splice(0, this.faults.length - FAULTS);
    this.#show(tick.batches);
  }

  /** Everything that was done in the last few seconds. */
  now(of: Lately[] = this.models): Sum {
    return this.#sum(of, NOW_MS);
  }

  /** The same over a while, for what needs more of it to be steady. */
  recently(of: Lately[] = this.models): Sum {
    return this.#sum(of, RECENT_MS);
  }

  get seconds(): number {
    return NOW_MS / 1000;
  }

  #sum(of: Lately[], ms: number): Sum {
    const sum = new Sum();
    for (const model of of) for (const counts of model.since(this.nowMs, ms)) sum.add(counts);
    return sum;
  }

  #show(batches: Batch[] | undefined): void {
    let unseen = 0;
    for (const batch of batches ?? []) {
      const model = this.models[batch.at];
      if (!model) continue;
      const last = this.#lastOf.get(model.key) ?? 0;
      if (batch.sequence <= last) continue;
      if (last > 0) unseen += batch.sequence - last - 1;
      this.#lastOf.set(model.key, batch.sequence);
      this.batches.push({ ...batch, model: model.facts.name });
    }
    this.batches.splice(0, this.batches.length - BATCHES);
    this.unseen.push(unseen);
  }
}

function merged(one: [number, number][] | undefined, other: [number, number][] | undefined): [number, number][] {
  return new Tally().add(one).add(other).sorted();
}

function added(ever: Counts, more: Counts): Counts {
  const sum: Counts = { ...ever };
  for (const key of ['good', 'failed', 'cancelled', 'refused', 'hopeless', 'late', 'failed_calls', 'padded', 'useful'] as const) {
    sum[key] = (ever[key] ?? 0) + (more[key] ?? 0);
  }
  for (const key of ['rows', 'wait', 'run', 'total'] as const) {
    if (ever[key] || more[key]) sum[key] = merged(ever[key], more[key]);
  }
  sum.fired = REASONS.map((_, at) => (ever.fired?.[at] ?? 0) + (more.fired?.[at] ?? 0));
  sum.waiting = more.waiting ?? 0;
  sum.in_flight = more.in_flight ?? 0;
  return sum;
}
