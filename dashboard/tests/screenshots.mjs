// Takes the pictures of docs/dashboard.md and of the README: a server with something to do.
// usage: node tests/screenshots.mjs [FOLDER]; the default is docs.

import { join } from 'node:path';
import { launch, open, pill, says, SPEECH } from './browser.mjs';
import { ROOT, Server } from './server.mjs';

const folder = process.argv[2] ?? join(ROOT, 'docs');
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const [browser, server] = await Promise.all([launch(), Server.start({ models: ['magika'] })]);

/** Crowds that come and go, and streams of speech, until told to stop. */
function busy() {
  let goesOn = true;
  const crowd = async () => {
    for (let n = 0; goesOn; n++) {
      const stop = server.load(2 + Math.round(10 * (1 + Math.sin(n / 3))));
      await pause(900);
      await stop();
    }
  };
  const classify = async () => {
    while (goesOn) {
      await (await server.ask('v1/models/magika/infer', `let n = ${Math.random()};`)).text();
      await pause(60);
    }
  };
  const all = Promise.all([crowd(), classify()]);
  return async () => {
    goesOn = false;
    await all;
  };
}

const stop = busy();
const { page } = await open(browser, server.url, { viewport: { width: 1280, height: 760 } });
await says(pill(page), /^Live$/);
const tabs = await Promise.all(
  Array.from({ length: 4 }, async () => {
    const { page } = await open(browser, `${server.url}#try`);
    await page.locator('#microphone').click();
    return page;
  }),
);
await pause(62_000);
await page.screenshot({ path: join(folder, 'dashboard.png') });

await Promise.all(tabs.map((tab) => tab.close()));
await stop();
await server.stop();

const listener = await Server.start({ models: ['moonshine'] });
const { page: tried } = await open(browser, `${listener.url}#try`, { viewport: { width: 1020, height: 600 } });
tried.setDefaultTimeout(60_000);
await tried.locator('#speech-file').setInputFiles(SPEECH);
await says(tried.locator('#panel-transcribe [role=status]'), /^Done$/);
await pause(500);
await tried.screenshot({ path: join(folder, 'dashboard-try.png') });
await browser.close();
await listener.stop();
