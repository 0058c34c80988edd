// The cycle on the store of the TypeScript SDK, from node_modules in the second argument.
import { createRequire } from 'node:module';

const [retained, folder] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { InMemoryTaskStore } = require('@modelcontextprotocol/sdk/experimental/tasks');

const request = { method: 'tools/call', params: { name: 'greet' } };
const result = { content: [{ type: 'text', text: 'done' }] };

async function cycle(store) {
  const { taskId } = await store.createTask({ ttl: 3_600_000 }, 1, request, 'alice');
  await store.storeTaskResult(taskId, 'completed', result, 'alice');
  await store.getTask(taskId, 'alice');
}

async function measure(store, n) {
  const start = process.hrtime.bigint();
  for (let i = 0; i < n; i++) await cycle(store);
  return Number(process.hrtime.bigint() - start) / n / 1000;
}

async function best(make) {
  let least = Infinity;
  for (let round = 0; round < 50; round++) least = Math.min(least, await measure(make(), 200));
  return least;
}

const empty = await best(() => new InMemoryTaskStore());
const full = new InMemoryTaskStore();
await measure(full, Number(retained));
console.log(JSON.stringify({ empty, full: await best(() => full) }));
process.exit(0); // each of its tasks has a timer
