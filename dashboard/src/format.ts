// Numbers for people: three figures and a unit, never more.

const NOTHING = '–';

function figures(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toString();
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function count(value: number | undefined): string {
  if (value === undefined) return NOTHING;
  for (const [size, unit] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']] as const) {
    if (value >= size) return figures(value / (unit === 'k' ? 1e3 : size)) + unit;
  }
  return figures(value);
}

export function rate(value: number): string {
  return value > 0 && value < 0.995 ? value.toFixed(2) : count(value >= 100 ? Math.round(value) : value);
}

/** Nanoseconds. */
export function time(value: number | undefined): string {
  if (value === undefined) return NOTHING;
  if (value < 1e3) return `${figures(value)} ns`;
  if (value < 1e6) return `${figures(value / 1e3)} µs`;
  if (value < 1e9) return `${figures(value / 1e6)} ms`;
  return `${figures(value / 1e9)} s`;
}

export function seconds(value: number): string {
  if (value < 60) return `${Math.floor(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  if (value < 86400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor((value % 86400) / 3600)} h`;
}

/** As a clock shows it. */
export function minutes(value: number): string {
  const [h, m, s] = [Math.floor(value / 3600), Math.floor(value / 60) % 60, Math.floor(value) % 60];
  const two = (n: number) => String(n).padStart(2, '0');
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1 << 20) return `${figures(value / 1024)} KiB`;
  if (value < 1 << 30) return `${figures(value / (1 << 20))} MiB`;
  return `${figures(value / (1 << 30))} GiB`;
}

export function share(value: number): string {
  return `${Math.round(value * 100)} %`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
}
