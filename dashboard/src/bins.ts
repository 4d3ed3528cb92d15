// Histograms as they travel, added up and read.

import type { Bins } from './wire.ts';

/** Counts by the largest value of their bin. */
export class Tally {
  readonly counts = new Map<number, number>();
  total = 0;

  add(bins: Bins | undefined): this {
    for (const [edge, count] of bins ?? []) {
      this.counts.set(edge, (this.counts.get(edge) ?? 0) + count);
      this.total += count;
    }
    return this;
  }

  sorted(): Bins {
    return [...this.counts].sort((a, b) => a[0] - b[0]);
  }

  /** The largest value of the bin in which this share of all values is reached; none of nothing. */
  quantile(share: number): number | undefined {
    const rank = Math.max(1, Math.ceil(share * this.total));
    let seen = 0;
    for (const [edge, count] of this.sorted()) {
      seen += count;
      if (rank <= seen) return edge;
    }
    return undefined;
  }

  mean(): number | undefined {
    if (this.total === 0) return undefined;
    let sum = 0;
    for (const [edge, count] of this.counts) sum += edge * count;
    return sum / this.total;
  }
}
