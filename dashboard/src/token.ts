// The token that requests carry. It is kept for as long as the tab is open and goes nowhere else.

const KEY = 'paceline.token';

export function token(): string {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

export function setToken(value: string): void {
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // A browser that keeps nothing asks again after a reload.
  }
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  const own = token();
  return own ? { ...more, authorization: `Bearer ${own}` } : more;
}
