// The page: follows the server, and shows.

import './style.css';
import { Detail } from './detail.ts';
import { byId, setText } from './dom.ts';
import { Feed, type Link } from './feed.ts';
import * as format from './format.ts';
import { Models } from './models.ts';
import { Cameras, Faults, Streams } from './side.ts';
import { Store } from './store.ts';
import { Strip } from './strip.ts';
import { startTheme } from './theme.ts';
import { Tiles } from './tiles.ts';
import { startToken } from './token-dialog.ts';
import { TryIt } from './try/try.ts';

const store = new Store();
const tiles = new Tiles(store);
const strip = new Strip(store);
const detail = new Detail(store);
const models = new Models(store, (key) => {
  isPicked = true;
  choose(key);
});
const side = [new Streams(store), new Cameras(store), new Faults(store)];
const tryIt = new TryIt();
let isPicked = false;
let began = 0;
let drawing = 0;
let link: Link = { is: 'connecting' };

const feed = new Feed({
  snapshot(all) {
    const restarted = began !== 0 && began !== all.began_ms;
    began = all.began_ms;
    store.snapshot(all);
    const names = [...new Set(all.models.map((model) => model.name))];
    strip.models(names);
    tryIt.models(all.models);
    if (restarted) notice('The server was started again; what is counted begins anew.', 6000);
    const chosen = store.models.some((model) => model.key === models.chosen);
    choose(chosen ? models.chosen : busiest());
    update();
  },
  tick(tick) {
    store.tick(tick);
    // Until somebody has chosen, a model that has nothing to show gives way to one that has.
    const chosen = store.models.find((model) => model.key === models.chosen);
    if (!isPicked && !chosen?.ever.good) choose(busiest());
    update();
  },
  link(now) {
    link = now;
    showLink();
  },
});

function busiest(): string | undefined {
  return [...store.models].sort((a, b) => (b.ever.good ?? 0) - (a.ever.good ?? 0))[0]?.key;
}

function choose(key: string | undefined): void {
  models.chosen = key;
  models.update();
  detail.show(store.models.find((model) => model.key === key));
}

/** Writes what changed; what is drawn waits until the screen wants it, and for as long as nobody looks. */
function update(): void {
  setText(byId('uptime'), `${store.server} · up ${format.seconds((store.nowMs - store.beganMs) / 1000)}`);
  document.title = link.is === 'live' ? `${format.rate(store.now().good / store.seconds)}/s · Paceline` : 'Paceline';
  if (document.hidden || byId('watch').hidden) return;
  tiles.update();
  strip.update();
  models.update();
  detail.update();
  for (const part of side) part.update();
  draw();
}

function draw(): void {
  cancelAnimationFrame(drawing);
  drawing = requestAnimationFrame(() => {
    tiles.draw();
    models.draw();
    for (const part of side) if ('draw' in part) part.draw();
  });
}

function showLink(): void {
  const pill = byId('link');
  const wait = link.is === 'lost' ? Math.max(0, Math.ceil((link.retryAt - Date.now()) / 1000)) : 0;
  const words = {
    connecting: 'Connecting',
    live: store.isReady ? 'Live' : 'Live, not ready',
    stopping: 'Server is stopping',
    lost: 'Reconnecting',
    refused: 'Not allowed',
  };
  pill.dataset['is'] = link.is === 'live' && !store.isReady ? 'stopping' : link.is;
  setText(byId('link-is'), words[link.is]);
  setText(byId('link-wait'), wait > 0 ? `in ${wait} s` : '');
  document.body.classList.toggle('stale', link.is !== 'live' && link.is !== 'connecting');
  if (link.is === 'refused') {
    notice(link.status === 401 ? `${sentence(link.why)} Give this page one with the key button above.` : sentence(link.why));
  } else if (link.is === 'lost') {
    notice(`${sentence(link.why)} What is shown is from before.`);
  } else if (link.is === 'live') {
    hideNotice();
  }
}

function sentence(text: string): string {
  const upper = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(upper) ? upper : `${upper}.`;
}

let passing: ReturnType<typeof setTimeout> | undefined;

function notice(text: string, ms?: number): void {
  const bar = byId('notice');
  clearTimeout(passing);
  passing = ms === undefined ? undefined : setTimeout(() => (bar.hidden = true), ms);
  setText(bar, text);
  bar.hidden = false;
}

function hideNotice(): void {
  if (passing === undefined) byId('notice').hidden = true;
}

function route(): void {
  const wantsTry = location.hash.startsWith('#try');
  byId('watch').hidden = wantsTry;
  byId('try').hidden = !wantsTry;
  byId('nav-watch').setAttribute('aria-current', wantsTry ? 'false' : 'page');
  byId('nav-try').setAttribute('aria-current', wantsTry ? 'page' : 'false');
  if (!wantsTry) update();
}

startTheme(() => {
  strip.draw();
  draw();
});
startToken(() => {
  feed.again();
  tryIt.again();
});
addEventListener('hashchange', route);
addEventListener('resize', draw);
document.addEventListener('visibilitychange', update);
setInterval(() => {
  if (link.is === 'lost') showLink();
}, 500);
route();
void feed.run();
