// The package for Vitest.
import { afterAll, beforeAll, beforeEach } from 'vitest';
import hooks from './hooks.cjs';
import server from './server.cjs';

export const { HoldfastServer, HoldfastError } = server;

/** Starts a server before the tests of this file, resets it before each test, and stops it after them. */
export function useHoldfast(options) {
  return hooks.registerHooks({ afterAll, beforeAll, beforeEach }, options);
}
