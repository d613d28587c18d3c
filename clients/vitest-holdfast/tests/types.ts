// Compiled only: the types of the package.
import { useHoldfast, type Fault, type HoldfastServer } from '@holdfast/vitest';
import { HoldfastServer as Started } from '@holdfast/vitest/server';

const holdfast: HoldfastServer = useHoldfast({ freezeTime: new Date(), setup: (server) => server.reset() });

export async function check(): Promise<Fault[]> {
  const server = await Started.start({ faults: ['GET /user 500'], args: ['--plan', 'free'] });
  const status: number = (await server.request('GET', '/user')).status;
  const time: Date = (await holdfast.advance(status)).time;
  await holdfast.freeze(time);
  return holdfast.faults();
}
