// The page as people meet it: a real server, a real browser.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { launch, open, pill, says, SPEECH } from './browser.mjs';
import { hostile } from './hostile.mjs';
import { Server } from './server.mjs';

/** Streams that are shown one by one, as ARCHITECTURE.md says. */
const MOST_STREAMS = 12;

let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([launch(), Server.start({ models: ['magika'] })]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function fits(page) {
  return page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
}

test('numbers move, batches are drawn, and nothing comes from elsewhere', async () => {
  const { page, complaints } = await open(browser, server.url);
  await says(pill(page), /^Live$/);
  const stop = server.load(8);
  const rate = page.locator('#tile-rate strong');
  await page.waitForFunction(() => Number.parseFloat(document.querySelector('#tile-rate strong').textContent) > 10);
  await page.locator('#tile-latency strong', { hasText: /\d/ }).waitFor();
  await says(page.locator('.model', { hasText: 'simulated' }), /ms|µs/);

  // The strip is read bar by bar, and goes on.
  await page.locator('#strip').focus();
  await page.keyboard.press('ArrowLeft');
  await says(page.locator('#strip-readout'), /simulated #\d+ · \d+ rows?/);
  const seen = await page.locator('#strip-readout').textContent();
  await page.waitForFunction((before) => {
    const strip = document.querySelector('#strip');
    strip.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }));
    return document.querySelector('#strip-readout').textContent !== before;
  }, seen);
  await says(page.locator('#legend'), /[1-9]/);
  await says(page.locator('#detail-title'), /^simulated$/);
  await says(page.locator('#detail .reasons'), /\d %/);

  await stop();
  await page.waitForFunction(() => Number.parseFloat(document.querySelector('#tile-rate strong').textContent) === 0);
  assert.notEqual(await rate.textContent(), '–');
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test('every layout fits its screen, in dark and in light', async () => {
  const backgrounds = new Set();
  for (const colorScheme of ['dark', 'light']) {
    const { page, complaints } = await open(browser, server.url, { colorScheme });
    await says(pill(page), /Live/);
    for (const [width, height] of [[1920, 1080], [1024, 768], [390, 844], [320, 640]]) {
      await page.setViewportSize({ width, height });
      await page.locator('#nav-watch').click();
      assert.ok(await fits(page), `overview at ${width}, ${colorScheme}`);
      await page.locator('#nav-try').click();
      await page.getByRole('tab', { name: 'Ask a model' }).click();
      assert.ok(await fits(page), `try it at ${width}, ${colorScheme}`);
    }
    backgrounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    assert.deepEqual(complaints, []);
    await page.context().close();
  }
  assert.equal(backgrounds.size, 2);
});

test('a thousand streams are counted, and a few of them shown', async () => {
  const { page, complaints } = await open(browser, server.url);
  await says(pill(page), /^Live$/);
  const before = await page.locator('*').count();
  const end = await server.listen(1000);
  const areOpen = (count) => page.waitForFunction((count) => Number(document.querySelector('#streams dd').textContent.replaceAll(/\D/g, '')) === count, count);
  await areOpen(1000);
  const rows = await page.locator('#streams .rounds li').count();
  assert.ok(rows > 0 && rows <= MOST_STREAMS, `${rows} rows`);
  const elements = await page.locator('*').count();
  assert.ok(elements < before + 60 * MOST_STREAMS, `${elements} elements, ${before} before`);
  end();
  await areOpen(0);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test('a file is transcribed as it is sent', async () => {
  const { page, complaints } = await open(browser, `${server.url}#try`);
  await page.locator('#speech-file').setInputFiles(SPEECH);
  await says(page.locator('#panel-transcribe [role=status]'), /^Done$/);
  const lines = page.locator('.transcript li');
  assert.ok((await lines.count()) >= 2, 'the file has several utterances');
  assert.match(await lines.first().textContent(), /\d\.\d – \d+\.\d s./);
  assert.equal(await page.locator('.transcript .bad').count(), 0);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test('the microphone is heard', async () => {
  const { page, complaints } = await open(browser, `${server.url}#try`);
  await page.locator('#microphone').click();
  await says(page.locator('#microphone'), 'Stop');
  await page.locator('.transcript li').first().waitFor();
  await page.locator('#microphone').click();
  await says(page.locator('#panel-transcribe [role=status]'), /^Done$/);
  assert.equal(await page.locator('.transcript .bad').count(), 0);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test('a form asks a model what it says it takes', async () => {
  const { page, complaints } = await open(browser, `${server.url}#try`);
  await page.getByRole('tab', { name: 'Ask a model' }).click();
  await page.locator('#infer-model').selectOption('simulated');
  await page.locator('#input-0').fill('[1, 2, 3]');
  await page.locator('#infer-times').fill('16');
  await page.getByRole('button', { name: 'Send' }).click();
  await says(page.locator('.ride'), /16 of 16 answered .* in its call/);
  assert.match(await page.locator('.answer').textContent(), /"ride"/);

  await page.locator('#input-0').fill('[1, 2');
  await page.getByRole('button', { name: 'Send' }).click();
  await says(page.locator('.ride'), /this is not JSON/);
  await page.locator('#input-0').fill('"no number"');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.answer.bad', { hasText: 'invalid_input' }).waitFor();

  await page.locator('#infer-model').selectOption('magika');
  await page.locator('#infer-file').setInputFiles({ name: 'x', mimeType: '', buffer: readFileSync('package.json') });
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.answer', { hasText: '"json"' }).waitFor();
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test('a voice speaks where one is served, and is not offered elsewhere', async () => {
  const own = await Server.start({
    sets: [
      `models.tokens={backend='simulated', simulated={answer='tokens'}, synthesis={vocoder='sound', count='count', parameters={diffusion_steps={default=5, min=1, max=7}}, voices={ann={inputs={embedding=[1]}}}}}`,
      `models.sound={backend='simulated', warm_up_length=65, simulated={answer='sound'}, batch={preset='few_listeners'}, padding={inputs={tokens=1}, lengths='lengths'}}`,
    ],
  });
  const { page, complaints } = await open(browser, `${own.url}#try`);
  await page.getByRole('tab', { name: 'Speak' }).click();
  await says(page.locator('#speak-voice'), 'ann');
  await page.locator('#speak-text').fill('Hello.');
  await page.getByRole('button', { name: 'Speak' }).click();
  await says(page.locator('#panel-speak [role=status]'), /first sound after .* \d\.\d s made in/);
  await page.locator('#panel-speak button', { hasText: /^Speak$/ }).waitFor();
  assert.deepEqual(complaints, []);
  await page.context().close();
  await own.stop();

  const { page: mute } = await open(browser, `${server.url}#try`);
  await mute.locator('#infer-model option').first().waitFor({ state: 'attached' });
  assert.ok(await mute.locator('#tab-speak').isHidden());
  await mute.context().close();
});

test('hostile names and words are text', async () => {
  const { page, complaints } = await open(browser, 'about:blank#');
  await hostile(page, server.url);
  await page.goto(server.url);
  const name = '<img src=x onerror=alert(1)>';
  await page.locator('.model .label', { hasText: name }).waitFor();
  for (const place of ['#detail', '#faults', '#rounds, .rounds', '#cameras', '#strip-model']) {
    await page.locator(place, { hasText: name }).first().waitFor({ state: 'attached' });
  }
  await page.goto(`${server.url}#try`);
  await page.getByRole('tab', { name: 'Ask a model' }).click();
  await page.locator('#infer-model option', { hasText: name }).first().waitFor({ state: 'attached' });
  await page.locator('#panel-infer label', { hasText: name }).waitFor();
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.answer', { hasText: name }).waitFor();
  assert.equal(await page.locator('img, script:not([src]), iframe').count(), 0);
  assert.ok(await fits(page));
  assert.deepEqual(complaints.filter((one) => !one.startsWith('asked for')), []);
  await page.context().close();
});

test('everything is reached by keyboard, and seen to be', async () => {
  const { page, complaints } = await open(browser, server.url);
  await says(pill(page), /Live/);
  const reached = [];
  for (let n = 0; n < 12; n++) {
    await page.keyboard.press('Tab');
    reached.push(await page.evaluate(() => {
      const on = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(on);
      return { name: on.id || on.textContent.trim(), isSeen: outlineStyle !== 'none' && outlineWidth !== '0px' };
    }));
  }
  const names = reached.map((one) => one.name);
  const order = ['Skip to content', 'nav-watch', 'nav-try', 'token-open', 'theme', 'strip-model', 'strip'];
  assert.deepEqual(names.filter((name) => order.includes(name)), order);
  assert.ok(names.some((name) => name.startsWith('magika')), 'models are reached');
  assert.deepEqual(reached.filter((one) => !one.isSeen), []);

  // A model is chosen, a tab is changed and a dialog is left without a pointer.
  await page.locator('.model .name', { hasText: 'magika' }).focus();
  await page.keyboard.press('Enter');
  await says(page.locator('#detail-title'), 'magika');
  await page.locator('#nav-try').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('tab', { name: 'Transcribe' }).focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('#panel-infer').waitFor();
  await page.locator('#token-open').focus();
  await page.keyboard.press('Enter');
  await page.locator('#token-value').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'token-open');
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test('it says that the server is gone, and comes back with it', async () => {
  let own = await Server.start();
  const { page } = await open(browser, own.url);
  await says(pill(page), /^Live$/);
  await own.stop();
  await says(pill(page), /Reconnecting/);
  await says(page.locator('#notice'), /does not answer.*from before/);
  own = await Server.start({ listen: own.address });
  await says(pill(page), /^Live$/);
  await says(page.locator('#notice'), /started again/);
  await page.context().close();
  await own.stop();
});

test('a token opens what it is for, and is forgotten with the tab', async () => {
  const token = 'all-of-it-0123456789';
  const own = await Server.start({
    sets: [`server.tokens=[{name='a', roles=['infer','stream','metrics'], token='${token}'}]`],
  });
  const { page, complaints } = await open(browser, own.url);
  await says(pill(page), 'Not allowed');
  await says(page.locator('#notice'), /token is needed/);

  await page.locator('#token-open').click();
  await page.locator('#token-value').fill('wrong-0123456789');
  await page.keyboard.press('Enter');
  await says(page.locator('#notice'), /not one of this server/);
  await page.locator('#token-open').click();
  await page.locator('#token-value').fill(token);
  await page.getByRole('button', { name: 'Use' }).click();
  await says(pill(page), /^Live$/);

  await page.goto(`${own.url}#try`);
  await page.locator('#speech-file').setInputFiles(SPEECH);
  await says(page.locator('#panel-transcribe [role=status]'), /^Done$/);
  assert.ok((await page.locator('.transcript li').count()) >= 2);
  await page.getByRole('tab', { name: 'Ask a model' }).click();
  await page.locator('#infer-model').selectOption('simulated');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.answer', { hasText: '"ride"' }).waitFor();

  assert.ok(!page.url().includes(token));
  const kept = await page.evaluate(() => JSON.stringify(localStorage) + document.cookie);
  assert.ok(!kept.includes(token));
  await page.locator('#token-open').click();
  await page.getByRole('button', { name: 'Forget' }).click();
  await says(pill(page), 'Not allowed');
  assert.deepEqual(complaints, []);
  await page.context().close();
  await own.stop();
});
