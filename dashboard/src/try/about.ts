// What a model says about itself, in the words of the Open Inference Protocol.

import { headers } from '../token.ts';

export interface Spec {
  name: string;
  datatype: string;
  shape: number[];
}

export interface About {
  name: string;
  platform: string;
  inputs: Spec[];
  outputs: Spec[];
  /** Whether the first extent is of rows. */
  isBatched: boolean;
}

export async function about(name: string): Promise<About | undefined> {
  const path = `v2/models/${encodeURIComponent(name)}`;
  try {
    const [metadata, config] = await Promise.all([read(path), read(`${path}/config`)]);
    if (!metadata) return undefined;
    const { platform, inputs, outputs } = metadata as unknown as About;
    return { name, platform, inputs, outputs, isBatched: Number(config?.['max_batch_size'] ?? 0) > 0 };
  } catch {
    return undefined;
  }
}

async function read(path: string): Promise<Record<string, unknown> | undefined> {
  const answer = await fetch(path, { headers: headers() });
  return answer.ok ? ((await answer.json()) as Record<string, unknown>) : undefined;
}

/** The shape of one instance. */
export function ownShape(model: About, spec: Spec): number[] {
  return model.isBatched ? spec.shape.slice(1) : spec.shape;
}

/** Whether streams of speech can be given to it. */
export function takesAudio(model: About): boolean {
  const [input, ...more] = model.inputs;
  if (!input || more.length > 0 || input.datatype !== 'FP32') return false;
  const shape = ownShape(model, input);
  return shape.length === 1 && shape[0] === -1;
}
