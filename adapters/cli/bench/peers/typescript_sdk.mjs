// A server of the TypeScript SDK with its tasks in memory, a session for each client.
// Arguments: the folder with node_modules, `http` or `stdio`, and the text that tools return.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, where, text] = process.argv.slice(2);
const sdk = `${pathToFileURL(folder)}/node_modules/@modelcontextprotocol/sdk/dist/esm/`;
const { McpServer } = await import(`${sdk}server/mcp.js`);
const { StreamableHTTPServerTransport } = await import(`${sdk}server/streamableHttp.js`);
const { StdioServerTransport } = await import(`${sdk}server/stdio.js`);
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = await import(
  `${sdk}experimental/tasks/stores/in-memory.js`
);
const { z } = createRequire(`${folder}/package.json`)("zod");

const taskStore = new InMemoryTaskStore();
const result = { content: [{ type: "text", text }] };
const sessions = new Map();
const held = new Map(); // by key: what lets it go
const released = new Set(); // before it was held

function heldUntilTold(key) {
  if (released.delete(key)) return Promise.resolve();
  return new Promise((go) => held.set(key, go));
}

function release(key) {
  const go = held.get(key);
  held.delete(key);
  if (go) go();
  else released.add(key);
}

function newServer() {
  const server = new McpServer(
    { name: "peer", version: "1" },
    {
      capabilities: { tasks: { list: {}, requests: { tools: { call: {} } } } },
      taskStore,
      taskMessageQueue: new InMemoryTaskMessageQueue(),
    },
  );
  // The store that a request brings along tells the client of each change; the bare one does not,
  // and is faster for it.
  const begun = async (extra, work, store) => {
    const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl });
    setImmediate(async () => {
      await work();
      await store.storeTaskResult(task.taskId, "completed", result);
    });
    return { task };
  };
  const others = {
    getTask: (...all) => all.at(-1).taskStore.getTask(all.at(-1).taskId),
    getTaskResult: (...all) => all.at(-1).taskStore.getTaskResult(all.at(-1).taskId),
  };
  const execution = { taskSupport: "required" };
  server.experimental.tasks.registerToolTask(
    "done",
    { execution },
    { createTask: (extra) => begun(extra, () => {}, taskStore), ...others },
  );
  server.experimental.tasks.registerToolTask(
    "hold",
    { execution, inputSchema: { key: z.string() } },
    { createTask: ({ key }, extra) => begun(extra, () => heldUntilTold(key), extra.taskStore), ...others },
  );
  server.registerTool("release", { inputSchema: { key: z.string() } }, ({ key }) => {
    release(key);
    return result;
  });
  return server;
}

if (where === "stdio") {
  await newServer().connect(new StdioServerTransport());
} else {
  const http = createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: true,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await newServer().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.keepAliveTimeout = 600_000; // while another server has its turn
  http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}`));
}
