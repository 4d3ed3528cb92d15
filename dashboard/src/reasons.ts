// Why a batch left, for people. Colours are in the style sheet, and never stand alone.

import type { Reason } from './wire.ts';

export const WORDS: Record<Reason, { name: string; why: string }> = {
  fast_path: { name: 'at once', why: 'a lone request found a device free' },
  full: { name: 'full', why: 'nothing more fits' },
  early: { name: 'early', why: 'waiting on would not have paid' },
  wait_over: { name: 'waited', why: 'held for company for as long as that paid' },
  deadline: { name: 'deadline', why: 'its earliest deadline allowed no more waiting' },
  drain: { name: 'drain', why: 'the model is closing' },
};

export function inkOf(reason: Reason): string {
  return `--${reason.replace('_', '-')}`;
}
