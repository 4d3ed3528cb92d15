// What the server sends over `/v1/live`. What is not there is zero, or has not changed.

/** The largest value and the count of each bin, in rising order. */
export type Bins = [number, number][];

export const REASONS = ['fast_path', 'full', 'early', 'wait_over', 'deadline', 'drain'] as const;
export type Reason = (typeof REASONS)[number];

export interface Counts {
  good?: number;
  failed?: number;
  cancelled?: number;
  refused?: number;
  hopeless?: number;
  late?: number;
  failed_calls?: number;
  fired?: number[];
  padded?: number;
  useful?: number;
  rows?: Bins;
  /** Nanoseconds, like the two below. */
  wait?: Bins;
  run?: Bins;
  total?: Bins;
  waiting?: number;
  in_flight?: number;
}

export interface Facts {
  name: string;
  version: number;
  platform: string;
  mode: string;
  instances: number;
  max_batch: number;
  has_adapter: boolean;
  trouble: string | null;
}

export interface Batch {
  /** Which of the last snapshot's models. */
  at: number;
  sequence: number;
  /** Which of the reasons. */
  fired: number;
  items: number;
  rows: number;
  failed?: number;
  late?: number;
  wait_us: number;
  took_us: number;
  padding?: number;
}

export interface Round {
  number: number;
  model: string;
  kind: string;
  age_s: number;
  heard_ms: number;
  behind_ms: number;
  segments: number;
  failed: number;
  speaking: boolean;
}

export interface Speech {
  open: number;
  rounds: number;
  speaking: number;
  behind_ms: number;
  refused: number;
  samples: number;
  segments: number;
  failed: number;
  top: Round[];
}

export interface Cameras {
  is_up: boolean;
  has_model: boolean;
  shards: number;
  nodes: number;
  taken: number;
  paused: string[];
  n_paused: number;
  held_frames: number;
  held_bytes: number;
  problem: string | null;
  counts: {
    read: number;
    committed: number;
    dropped: number;
    dead: number;
    lost: number;
    faults: number;
  };
}

export interface Fault {
  number: number;
  kind: string;
  model?: string;
  count: number;
  text: string;
  first_ms: number;
  last_ms: number;
}

export interface Snapshot {
  number: number;
  server: string;
  began_ms: number;
  time_ms: number;
  is_ready: boolean;
  period_ms: number;
  models: (Facts & { counts: Counts })[];
  speech: Speech;
  cameras: Cameras | null;
  faults: Fault[];
  batches?: Batch[];
}

export interface Tick {
  number: number;
  time_ms: number;
  took_ms: number;
  models?: { at: number; counts: Counts }[];
  speech?: Speech;
  cameras?: Cameras;
  faults?: Fault[];
  batches?: Batch[];
}
