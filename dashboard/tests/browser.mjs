// Headless Chromium, and pages on which nothing may go wrong unseen.

import { chromium } from 'playwright-core';
import { join } from 'node:path';
import { ROOT } from './server.mjs';

export const SPEECH = join(ROOT, 'crates', 'cli', 'assets', 'speech.wav');

export function launch() {
  return chromium.launch({
    executablePath: process.env.PACELINE_CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      // A microphone that plays a file.
      '--use-fake-ui-for-media-stream',
      '--use-fake-device-for-media-stream',
      `--use-file-for-fake-audio-capture=${SPEECH}`,
    ],
  });
}

/** A page, and what it complained about: errors, refusals of its policy, and requests to anywhere else. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, colorScheme: 'dark', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) complaints.push(message.text());
  });
  page.on('request', (request) => {
    const to = request.url();
    if (!to.startsWith(new URL(url).origin) && !to.startsWith('blob:')) complaints.push(`asked for ${to}`);
  });
  await page.goto(url);
  return { page, complaints };
}

export function pill(page) {
  return page.locator('#link');
}

/** Resolves once what is looked for says so. */
export async function says(locator, pattern) {
  await locator.filter({ hasText: pattern }).first().waitFor();
}
