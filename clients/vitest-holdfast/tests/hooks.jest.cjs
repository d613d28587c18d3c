// Tests with Jest.
const { useHoldfast } = require('@holdfast/vitest/jest');

const holdfast = useHoldfast({ setup: (server) => server.request('POST', '/projects', { name: 'first' }) });

test('properties are not available while tests are declared', () => {
  expect(holdfast.url).toMatch(/^http:\/\/127\.0\.0\.1:/);
});

test.each([1, 2])('restores the state before each test (%i)', async () => {
  expect((await holdfast.request('GET', '/projects')).json()).toHaveLength(1);
  expect((await holdfast.request('POST', '/projects', { name: 'second' })).json().id).toBe(2);
});
