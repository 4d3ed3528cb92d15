// A server's words as somebody would write them who wants the page to run something.

const WORDS = '<img src=x onerror=alert(1)>';

const SPEECH = {
  open: 1, rounds: 1, speaking: 1, behind_ms: 0, refused: 0, samples: 0, segments: 0, failed: 0,
  top: [{ number: 1, model: WORDS, kind: WORDS, age_s: 1, heard_ms: 1, behind_ms: 1, segments: 1, failed: 0, speaking: true }],
};
const SNAPSHOT = {
  number: 1, server: WORDS, began_ms: 1, time_ms: 2, is_ready: true, period_ms: 500,
  models: [{
    name: WORDS, version: 1, platform: WORDS, mode: WORDS, instances: 1, max_batch: 8, has_adapter: false,
    trouble: WORDS, counts: {},
  }],
  speech: SPEECH,
  cameras: {
    is_up: true, has_model: true, shards: 1, nodes: 1, taken: 1, paused: [WORDS], n_paused: 1,
    held_frames: 0, held_bytes: 0, problem: WORDS,
    counts: { read: 0, committed: 0, dropped: 0, dead: 0, lost: 0, faults: 0 },
  },
  faults: [{ number: 1, kind: 'trouble', model: WORDS, count: 1, text: WORDS, first_ms: 1, last_ms: 1 }],
};
const METADATA = {
  name: WORDS, platform: WORDS,
  inputs: [{ name: WORDS, datatype: 'FP32', shape: [-1] }],
  outputs: [{ name: WORDS, datatype: 'FP32', shape: [-1] }],
};

/** Lets a page of the real server hear these words. */
export async function hostile(page, url) {
  await page.route(`${url}v1/live`, (route) =>
    route.fulfill({ contentType: 'text/event-stream', body: `event: snapshot\ndata: ${JSON.stringify(SNAPSHOT)}\n\n` }));
  await page.route(`${url}v2/models/**`, (route) => route.fulfill({ json: METADATA }));
  await page.route(`${url}v1/models/**`, (route) =>
    route.fulfill({ json: { [WORDS]: WORDS, queues: [{ decision: WORDS }] } }));
}
