// A server of the TypeScript SDK with its tasks in memory, a session for each client.
// Arguments: the folder with node_modules, the name of the tool, and what it returns.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [folder, name, text] = process.argv.slice(2);
const sdk = `${pathToFileURL(folder)}/node_modules/@modelcontextprotocol/sdk/dist/esm/`;
const { McpServer } = await import(`${sdk}server/mcp.js`);
const { StreamableHTTPServerTransport } = await import(`${sdk}server/streamableHttp.js`);
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = await import(
  `${sdk}experimental/tasks/stores/in-memory.js`
);

const taskStore = new InMemoryTaskStore();
const result = { content: [{ type: "text", text }] };
const sessions = new Map();

function newServer() {
  const server = new McpServer(
    { name: "peer", version: "1" },
    {
      capabilities: { tasks: { requests: { tools: { call: {} } } } },
      taskStore,
      taskMessageQueue: new InMemoryTaskMessageQueue(),
    },
  );
  server.experimental.tasks.registerToolTask(
    name,
    { execution: { taskSupport: "required" } },
    {
      async createTask(extra) {
        const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl });
        setImmediate(() => taskStore.storeTaskResult(task.taskId, "completed", result));
        return { task };
      },
      getTask: (extra) => extra.taskStore.getTask(extra.taskId),
      getTaskResult: (extra) => extra.taskStore.getTaskResult(extra.taskId),
    },
  );
  return server;
}

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
