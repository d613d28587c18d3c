// Tests with Jest.
const { useHoldfast } = require('@holdfast/vitest/jest');

const holdfast = useHoldfast({ setup: (server) => server.request('POST', '/projects', { name: 'first' }) });

// The server starts after the declaration of the tests.
let declaration;
try {
  declaration = holdfast.url;
} catch (error) {
  declaration = error.message;
}

test('properties are available in tests, and not while tests are declared', () => {
  expect(declaration).toContain('not while tests are declared');
  expect(holdfast.url).toMatch(/^http:\/\/127\.0\.0\.1:/);
});

test.each([1, 2])('restores the state before each test (%i)', async () => {
  expect((await holdfast.request('GET', '/projects')).json()).toHaveLength(1);
  expect((await holdfast.request('POST', '/projects', { name: 'second' })).json().id).toBe(2);
});
