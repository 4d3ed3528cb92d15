// A real server on a free port.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const ROOT = join(import.meta.dirname, '..', '..');
export const BINARY = process.env.PACELINE_BIN ?? join(ROOT, 'target', 'debug', 'paceline');

/** A model that takes long enough for requests to meet. */
const SIMULATED = ['models.simulated.simulated.delay=4ms', 'models.simulated.simulated.jitter=2ms'];

export class Server {
  /** `models` are folders of models/, beside the simulated ones that are always there. */
  static async start({ listen = '127.0.0.1:0', sets = [], models = [] } = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'paceline-'));
    for (const model of models) symlinkSync(join(ROOT, 'models', model), join(folder, model));
    const args = ['serve', '--listen', listen, '--grpc-listen', '127.0.0.1:0', '--model-repository', folder];
    const child = spawn(BINARY, [...args, ...SIMULATED.concat(sets).flatMap((set) => ['--set', set])], { stdio: ['ignore', 'ignore', 'pipe'] });
    // No test leaves a server behind, however it ends.
    const kill = () => child.kill('SIGKILL');
    process.once('exit', kill);
    child.on('exit', () => process.off('exit', kill));
    const said = [];
    const address = await new Promise((done, failed) => {
      child.on('error', failed);
      child.on('exit', (code) => failed(new Error(`the server ended with ${code}: ${said.join('\n')}`)));
      createInterface(child.stderr).on('line', (line) => {
        said.push(line);
        said.splice(0, said.length - 50);
        if (line.includes('"message":"serving"')) done(JSON.parse(line).http);
      });
    });
    return new Server(child, address, folder);
  }

  constructor(child, address, folder) {
    Object.assign(this, { child, address, folder, url: `http://${address}/` });
    this.gone = new Promise((done) => child.on('exit', done));
  }

  /** Tells it to stop, and waits until it has. */
  async stop() {
    this.child.kill('SIGTERM');
    await this.gone;
    rmSync(this.folder, { recursive: true });
  }

  ask(path, body, headers = {}) {
    return fetch(this.url + path, { method: body === undefined ? 'GET' : 'POST', body, headers });
  }

  /** Keeps it busy until told to stop: so many clients, each asking again as soon as it is answered. */
  load(clients, headers = {}) {
    let goesOn = true;
    const one = async () => {
      while (goesOn) await (await this.ask('v1/models/simulated/infer', '{"INPUT":[1,2,3]}', headers)).text();
    };
    const all = Promise.all(Array.from({ length: clients }, one));
    return async () => {
      goesOn = false;
      await all;
    };
  }
}
