// Starts and controls the process `holdfast test-server`.
'use strict';

const { spawn } = require('node:child_process');
const http = require('node:http');
const path = require('node:path');

const STOP_MILLISECONDS = 10_000;
const MAX_LINE_LENGTH = 1 << 20;
const MAX_LOG_LENGTH = 64 << 10;

/** The server cannot start, or refuses a control request. */
class HoldfastError extends Error {
  constructor(message) {
    super(message);
    this.name = 'HoldfastError';
  }
}

function timeText(time) {
  return time instanceof Date ? time.toISOString() : time;
}

function clockOf({ time, frozen }) {
  return { time: new Date(time), frozen };
}

/** Returns the arguments of the process. */
function argumentsOf({ snapshot, freezeTime, faults = [], args = [] }) {
  const found = ['test-server'];
  if (snapshot !== undefined) found.push('--snapshot', snapshot);
  if (freezeTime !== undefined) found.push('--freeze-time', timeText(freezeTime));
  for (const rule of faults) found.push('--fail', rule);
  return [...found, ...args];
}

/** Resolves with the first line of the output of a process. */
function firstLine(process, binary, timeout) {
  return new Promise((resolve, reject) => {
    let line = '';
    let log = '';
    const fail = (text) => {
      clearTimeout(timer);
      process.kill('SIGKILL');
      reject(new HoldfastError(text));
    };
    const timer = setTimeout(() => fail(`holdfast was not ready after ${timeout} ms`), timeout);
    process.stderr.setEncoding('utf8').on('data', (text) => {
      log = (log + text).slice(-MAX_LOG_LENGTH);
    });
    process.stdout.setEncoding('utf8').on('data', (text) => {
      if (line.endsWith('\n')) return;
      line += text;
      if (line.length > MAX_LINE_LENGTH) fail('holdfast printed no line of JSON');
      if (!line.endsWith('\n')) return;
      clearTimeout(timer);
      resolve(line);
    });
    process.on('error', (error) => {
      const hint = 'install holdfast, or set HOLDFAST_BINARY to its path';
      fail(`the program ${binary} cannot be started (${error.message}); ${hint}`);
    });
    process.on('close', (code) => fail(`holdfast exited with ${code}: ${log.trim()}`));
  });
}

/** A running test server. It ends when this process ends, for any reason. */
class HoldfastServer {
  #process;
  #agent = new http.Agent({ keepAlive: false });

  constructor(process, info) {
    this.#process = process;
    this.info = info;
    this.url = info.url;
    this.apiUrl = info.api_url;
    this.username = info.username;
    this.token = info.token;
    this.password = info.password;
  }

  /** Starts a server and waits until it accepts requests. */
  static async start(options = {}) {
    const binary = options.binary ?? (process.env.HOLDFAST_BINARY || 'holdfast');
    const child = spawn(binary, argumentsOf(options), { stdio: ['pipe', 'pipe', 'pipe'] });
    // Written to only by closing it; the process may have ended before.
    child.stdin.on('error', () => {});
    const line = await firstLine(child, binary, options.timeout ?? 30_000);
    // The process must not keep the test runner alive.
    child.unref();
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.unref();
    return new HoldfastServer(child, JSON.parse(line));
  }

  /** Stops the server, which removes its data. */
  async stop() {
    const child = this.#process;
    if (child.exitCode !== null || child.signalCode !== null) return;
    await new Promise((resolve) => {
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MILLISECONDS);
      child.once('exit', () => {
        clearTimeout(timer);
        resolve();
      });
      child.ref();
      child.stdin.end();
    });
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop();
  }

  /** Sends a request below `/api/v4`, as the administrator or with another token. */
  request(method, path, body, { token = this.token, headers = {} } = {}) {
    return this.#send(method, `${this.apiUrl}${path}`, body, { 'private-token': token, ...headers });
  }

  /** Restores the state of the start or of the last snapshot, or of another snapshot. */
  async reset(snapshot) {
    await this.#control('POST', '/reset', snapshot === undefined ? undefined : { snapshot: path.resolve(snapshot) });
  }

  /** Saves the state, which later resets restore. Returns the directory. */
  async snapshot(directory) {
    const body = directory === undefined ? undefined : { directory: path.resolve(directory) };
    return (await this.#control('POST', '/snapshot', body)).directory;
  }

  /** Returns the clock of the server. */
  async clock() {
    return clockOf(await this.#control('GET', '/clock'));
  }

  /** Freezes the clock at a time. */
  async freeze(time) {
    return clockOf(await this.#control('PUT', '/clock', { time: timeText(time) }));
  }

  /** Lets the clock run. */
  async unfreeze() {
    return clockOf(await this.#control('PUT', '/clock', { time: null }));
  }

  /** Advances the frozen clock. */
  async advance(seconds) {
    return clockOf(await this.#control('POST', '/clock/advance', { seconds }));
  }

  /** Adds a rule for faults, such as `GET /projects 503 x3`. */
  addFault(rule) {
    return this.#control('POST', '/faults', { rule });
  }

  /** Returns the rules for faults. */
  faults() {
    return this.#control('GET', '/faults');
  }

  /** Removes a rule for faults. */
  async removeFault(fault) {
    await this.#control('DELETE', `/faults/${typeof fault === 'number' ? fault : fault.id}`);
  }

  /** Removes all rules for faults. */
  async clearFaults() {
    await this.#control('DELETE', '/faults');
  }

  async #control(method, path, body) {
    const headers = { authorization: `Bearer ${this.info.control_token}` };
    const response = await this.#send(method, `${this.info.control_url}${path}`, body, headers);
    if (response.status >= 400) throw new HoldfastError(`${method} ${path}: ${response.json().message}`);
    return response.text === '' ? undefined : response.json();
  }

  // Not `fetch`, which tests often replace.
  #send(method, url, body, headers) {
    const data = body === undefined ? undefined : JSON.stringify(body);
    const all = { ...headers };
    if (data !== undefined) {
      all['content-type'] ??= 'application/json';
      all['content-length'] = Buffer.byteLength(data);
    }
    return new Promise((resolve, reject) => {
      const request = http.request(url, { method, headers: all, agent: this.#agent }, (response) => {
        const parts = [];
        response.on('data', (part) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(parts).toString('utf8');
          resolve({ status: response.statusCode, headers: response.headers, text, json: () => JSON.parse(text) });
        });
      });
      request.on('error', reject);
      request.end(data);
    });
  }
}

module.exports = { HoldfastServer, HoldfastError };
