import type { HoldfastServer, StartOptions } from './server.cjs';

export { HoldfastError, HoldfastServer } from './server.cjs';
export type { Clock, Fault, HoldfastResponse, StartOptions } from './server.cjs';

/** Options of `useHoldfast`. */
export interface UseOptions extends StartOptions {
  /** Creates the data that each test starts with. */
  setup?: (server: HoldfastServer) => Promise<unknown> | unknown;
}

/**
 * Starts a server before the tests of this file, resets it before each test, and stops it after them. The properties of
 * the result are available in tests and hooks.
 */
export function useHoldfast(options?: UseOptions): HoldfastServer;
