// Whether the page stays quick while somebody watches many real-time streams: a server, `paceline bench
// stream`, and a viewer. Frame times and long tasks are said; how much there is in the page is checked.
// usage: node tests/streams.mjs [STREAMS] [SECONDS]; PACELINE_BIN names the server, best a release build.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { launch, open, pill, says } from './browser.mjs';
import { BINARY, Server } from './server.mjs';

const streams = Number(process.argv[2] ?? 1000);
const seconds = Number(process.argv[3] ?? 20);
/** Streams that are shown one by one, as ARCHITECTURE.md says. */
const MOST_ROWS = 12;

const [browser, server] = await Promise.all([launch(), Server.start()]);
const { page, complaints } = await open(browser, server.url);
await says(pill(page), /^Live$/);
const before = await page.locator('*').count();
await page.evaluate(() => {
  window.seen = { frames: [], long: [] };
  new PerformanceObserver((list) => seen.long.push(...list.getEntries().map((task) => task.duration))).observe({ type: 'longtask' });
  let last = performance.now();
  const frame = (now) => {
    seen.frames.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
});

const load = spawn(BINARY, ['bench', 'stream', '--streams', streams, '--seconds', seconds, '--url', server.url.replace(/\/$/, ''), '--json'], { stdio: ['ignore', 'pipe', 'inherit'] });
let table = '';
load.stdout.on('data', (text) => (table += text));
const done = new Promise((ended) => load.on('exit', ended));
let mostOpen = 0;
let rows = 0;
let elements = 0;
const look = setInterval(async () => {
  const said = await page.locator('#streams dd').first().textContent();
  mostOpen = Math.max(mostOpen, Number(said.replaceAll(/\D/g, '')));
  rows = Math.max(rows, await page.locator('#streams .rounds li').count());
  elements = Math.max(elements, await page.locator('*').count());
}, 1000);
const code = await done;
clearInterval(look);

const { frames, long } = await page.evaluate(() => seen);
frames.sort((a, b) => a - b);
const at = (share) => frames[Math.floor((frames.length - 1) * share)]?.toFixed(1);
console.log(`${streams} streams for ${seconds} s; the page says that ${mostOpen} are open`);
console.log(`frames: ${frames.length}, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`);
console.log(`tasks over 50 ms: ${long.length}, longest ${Math.max(0, ...long).toFixed(0)} ms`);
console.log(`rows of streams: ${rows} at most; elements in the page: ${before} before, ${elements} at most`);
console.log(code === 0 ? table.trim() : `the load ended with ${code}: the machine did not keep up with real time`);
await browser.close();
await server.stop();
assert.equal(mostOpen, streams);
assert.deepEqual(complaints, []);
assert.ok(rows > 0 && rows <= MOST_ROWS, `${rows} rows`);
assert.ok(elements < before + 60 * MOST_ROWS, `${elements} elements`);
