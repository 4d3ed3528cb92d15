// Dark or light: as the system has it, until somebody says otherwise.

import { byId } from './dom.ts';

const KEY = 'paceline.theme';
const NEXT: Record<string, string> = { automatic: 'dark', dark: 'light', light: 'automatic' };

export function startTheme(changed: () => void): void {
  const button = byId('theme');
  let theme = 'automatic';
  try {
    const kept = localStorage.getItem(KEY);
    if (kept && kept in NEXT) theme = kept;
  } catch {
    // A browser that keeps nothing follows the system.
  }
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const apply = () => {
    const own = dark.matches ? 'dark' : 'light';
    document.documentElement.dataset['theme'] = theme === 'automatic' ? own : theme;
    button.title = `Theme: ${theme}`;
    button.setAttribute('aria-label', button.title);
    changed();
  };
  button.addEventListener('click', () => {
    theme = NEXT[theme] ?? 'automatic';
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Then it is so until the page is closed.
    }
    apply();
  });
  dark.addEventListener('change', apply);
  apply();
}
