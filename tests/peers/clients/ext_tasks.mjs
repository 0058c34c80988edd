// A whole life with ext-tasks on the TypeScript client 2, in the generation that is named first:
// `ext_tasks.mjs 2026-07-28 URL`, or `ext_tasks.mjs 2025-11-25 COMMAND...`.
// Runs in the folder of its packages and prints one JSON object for each step.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import {
  createTaskSessionFromClient,
  toolDeclarationFromMcpTool,
} from "@modelcontextprotocol/ext-tasks/client";

const [revision, ...target] = process.argv.slice(2);
const tell = (step, facts = {}) => console.log(JSON.stringify({ step, ...facts }));

const isModern = revision === "2026-07-28";
const clientInfo = { name: "peer", version: "0" };
const clientCapabilities = { elicitation: { form: {} }, sampling: {} };
const client = new Client(clientInfo, {
  capabilities: clientCapabilities,
  versionNegotiation: { mode: isModern ? { pin: revision } : "legacy" },
});
const transport = target[0].startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target[0]))
  : new StdioClientTransport({ command: target[0], args: target.slice(1) });
await client.connect(transport);
tell("initialize", {
  revision: client.getNegotiatedProtocolVersion(),
  capabilities: client.getServerCapabilities(),
});

// The client has no way to send what it does not know: this goes past it on the same transport.
const pending = new Map();
const received = transport.onmessage;
transport.onmessage = (message, extra) => {
  const settle = pending.get(message.id);
  if (settle === undefined || message.method !== undefined) return received(message, extra);
  pending.delete(message.id);
  const { error, result } = message;
  settle(error === undefined ? { kind: "result", result } : { kind: "error", error });
};
let last = 0;
async function rawDispatch(request) {
  const id = `raw-${++last}`;
  const named = request.params.taskId ?? request.params.name;
  const headers = { "Mcp-Method": request.method, "Mcp-Name": named };
  const settled = new Promise((resolve) => pending.set(id, resolve));
  await transport.send({ jsonrpc: "2.0", id, ...request }, { headers });
  return settled;
}

let asked = [];
const { tools } = await client.listTools();
const declared = new Map(tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
const session = createTaskSessionFromClient(client, {
  endpointId: "taskmachine",
  tools: { currentTool: (name) => declared.get(name) },
  ...(isModern
    ? {
        rawDispatch,
        v2RequestFraming: { protocolVersion: revision, clientInfo, clientCapabilities },
      }
    : {}),
  onInputRequest: async (request, { scope, delivery, taskId }) => {
    asked.push({ ...request.params, kind: request.kind, scope, delivery, taskId });
    if (request.kind === "elicitation")
      return { action: "accept", content: { confirmed: true, stage: "live" } };
    return {
      role: "assistant",
      content: { type: "text", text: "Tasks take time." },
      model: "none",
    };
  },
});
tell("tools", { names: tools.map(({ name }) => name), session: session.capabilities });

async function errorOf(promise) {
  try {
    return { result: await promise };
  } catch ({ code, message, cause }) {
    return { code: code ?? cause?.code, message };
  }
}

const call = (name, args = {}) => session.callTool(name, args, { task: { preference: "prefer" } });

async function life(name, args) {
  const execution = await call(name, args);
  const statuses = [];
  const { outcome, lastTask } = await execution.settle({
    onEvent: (event) => {
      if (event.type === "task") statuses.push(event.task.status);
    },
  });
  const { error, ...rest } = outcome;
  const failure = error && { code: error.code, message: error.message };
  return { ...rest, kind: execution.kind, task: execution.handle?.taskId, statuses, lastTask, failure };
}

const greeting = await life("greet", { name: "Ada" });
tell("plain", { kind: greeting.kind, ...greeting.result });

const count = await life("count", { to: 3, pause_ms: 150 });
tell("settled", { ...count, last: count.lastTask?.raw });
const deploy = await life("deploy", { version: "1.2" });
tell("answer", { task: deploy.task, statuses: deploy.statuses, asked, ...deploy.result });
asked = [];
const sample = await life("sample", { topic: "tasks" });
tell("sampling", { task: sample.task, asked, ...sample.result });
const fail = await life("fail");
tell("failed", { status: fail.status, result: fail.result, failure: fail.failure });
const crash = await life("crash");
tell("crashed", { status: crash.status, failure: crash.failure });

const long = await call("count", { to: 1_000, pause_ms: 1_000 });
const cancelled = long.handle.taskId;
await long.cancel();
tell("cancelled", { status: (await long.result()).status });
const controller = session.task(cancelled);
tell("snapshot", { status: (await controller.snapshot()).status });
tell("cancel again", await errorOf(controller.cancel()));
tell("unknown", await errorOf(session.task("no-such-task").snapshot()));

if (!isModern) {
  const page = await session.listTasks();
  const made = [count, deploy, sample, fail, crash].map(({ task }) => task);
  tell("list", { listed: page.tasks.map(({ taskId }) => taskId), made: [...made, cancelled] });
}
await session.close();
await client.close();
tell("end");
process.exit(0);
