// Tests with Vitest.
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { HoldfastError, HoldfastServer, useHoldfast } from '@holdfast/vitest';

const time = '2026-01-31T12:00:00.000Z';
const holdfast = useHoldfast({
  freezeTime: time,
  setup: (server) => server.request('POST', '/projects', { name: 'first' }),
});

describe('useHoldfast', () => {
  test.each([1, 2, 3])('restores the state before each test (%i)', async () => {
    const names = (await holdfast.request('GET', '/projects')).json().map((project) => project.name);
    expect(names).toEqual(['first']);
    const created = (await holdfast.request('POST', '/projects', { name: 'second' })).json();
    expect([created.id, created.created_at]).toEqual([2, time]);
  });

  test('injects faults', async () => {
    const fault = await holdfast.addFault('GET /user 503 x1');
    const failed = await holdfast.request('GET', '/user');
    expect([failed.status, failed.headers['retry-after']]).toEqual([503, '1']);
    expect(await holdfast.faults()).toEqual([{ ...fault, injected: 1, remaining: 0 }]);
    await holdfast.addFault('GET /user close');
    await expect(holdfast.request('GET', '/user')).rejects.toThrow();
    await holdfast.removeFault(fault);
    await holdfast.clearFaults();
    expect((await holdfast.request('GET', '/user')).status).toBe(200);
    await expect(holdfast.addFault('GET')).rejects.toThrow(HoldfastError);
  });

  test('changes the clock', async () => {
    expect(await holdfast.clock()).toEqual({ time: new Date(time), frozen: true });
    expect((await holdfast.advance(3600)).time).toEqual(new Date('2026-01-31T13:00:00Z'));
    expect((await holdfast.freeze(new Date(0))).time).toEqual(new Date(0));
    expect((await holdfast.unfreeze()).frozen).toBe(false);
  });
});

describe('HoldfastServer', () => {
  test('saves and restores snapshots, and removes its data', async () => {
    const directory = join(mkdtempSync(join(tmpdir(), 'holdfast-')), 'saved');
    const server = await HoldfastServer.start();
    await server.request('POST', '/projects', { name: 'kept' });
    expect(await server.snapshot(directory)).toBe(directory);
    await server.stop();
    await server.stop();
    expect(existsSync(server.info.directory)).toBe(false);
    const other = await HoldfastServer.start({ snapshot: directory });
    expect((await other.request('GET', '/projects/1')).json().name).toBe('kept');
    expect((await other.request('GET', '/user', undefined, { token: 'unknown' })).status).toBe(401);
    await other.stop();
  });

  test('reports why it cannot start', async () => {
    await expect(HoldfastServer.start({ binary: '/nothing' })).rejects.toThrow('HOLDFAST_BINARY');
    await expect(HoldfastServer.start({ faults: ['GET'] })).rejects.toThrow('the path is missing');
  });
});
