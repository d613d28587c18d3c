// The hooks of a test runner.
'use strict';

const { HoldfastError, HoldfastServer } = require('./server.cjs');

/** Time for the start of the server, which is slow only on the first start of a version. */
const START_MILLISECONDS = 60_000;

/**
 * Starts a server before the tests of this file, resets it before each test, and stops it after them. Returns an object
 * with the properties and methods of the server.
 */
function registerHooks({ beforeAll, beforeEach, afterAll }, options = {}) {
  let server;
  const { setup, ...start } = options;
  beforeAll(async () => {
    server = await HoldfastServer.start(start);
    if (setup) {
      await setup(server);
      await server.snapshot();
    }
  }, START_MILLISECONDS);
  beforeEach(() => server.reset());
  afterAll(() => server?.stop());
  return new Proxy(Object.create(null), {
    get(_, name) {
      if (server === undefined) throw new Error('the server is available in tests and hooks, not while tests are declared');
      const value = server[name];
      return typeof value === 'function' ? value.bind(server) : value;
    },
  });
}

module.exports = { HoldfastError, HoldfastServer, registerHooks };
