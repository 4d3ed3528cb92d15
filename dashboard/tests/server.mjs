// A real server on a free port.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const ROOT = join(import.meta.dirname, '..', '..');
export const BINARY = process.env.PACELINE_BIN ?? join(ROOT, 'target', 'debug', 'paceline');

/** A WebSocket that asks for voice detection and then says nothing, by hand: a browser opens no more than 255. */
const LISTEN = Buffer.concat([
  Buffer.from('GET /api/v1/segmented HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'),
  message('{"request":"start","format":{"channels":1,"sample_rate":16000,"encoding":"s16le"}}'),
]);

/** A text message of a client, masked with zeros. */
function message(text) {
  return Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)]);
}

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

  /** Opens so many streams, which stay silent until they are told to end. */
  async listen(streams) {
    const [host, port] = this.address.split(':');
    const sockets = await Promise.all(Array.from({ length: streams }, () => new Promise((done, failed) => {
      const socket = connect(Number(port), host);
      socket.on('error', failed);
      socket.once('data', (answer) => (answer.toString().startsWith('HTTP/1.1 101') ? done(socket) : failed(new Error(`${answer}`))));
      socket.write(LISTEN);
    })));
    return () => sockets.forEach((socket) => socket.destroy());
  }
}
