// The package for Jest, and for other runners with the same global functions.
'use strict';

const { HoldfastError, HoldfastServer, registerHooks } = require('./hooks.cjs');

/** Starts a server before the tests of this file, resets it before each test, and stops it after them. */
function useHoldfast(options) {
  const { afterAll, beforeAll, beforeEach } = globalThis;
  return registerHooks({ afterAll, beforeAll, beforeEach }, options);
}

module.exports = { HoldfastError, HoldfastServer, useHoldfast };
