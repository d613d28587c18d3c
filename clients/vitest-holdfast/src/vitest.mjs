// The package for Vitest.
import { afterAll, beforeAll, beforeEach } from 'vitest';
import hooks from './hooks.cjs';

export const { HoldfastError, HoldfastServer } = hooks;

/** Starts a server before the tests of this file, resets it before each test, and stops it after them. */
export function useHoldfast(options) {
  return hooks.registerHooks({ afterAll, beforeAll, beforeEach }, options);
}
