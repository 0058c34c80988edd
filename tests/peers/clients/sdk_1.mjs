// A whole life with the TypeScript SDK 1: `sdk_1.mjs URL`, or `sdk_1.mjs COMMAND...`.
// Runs in the folder of its packages and prints one JSON object for each step.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const target = process.argv.slice(2);
const tell = (step, facts = {}) => console.log(JSON.stringify({ step, ...facts }));

const capabilities = { elicitation: { form: {} }, sampling: {} };
const client = new Client({ name: "peer", version: "0" }, { capabilities });
const transport = target[0].startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target[0]))
  : new StdioClientTransport({ command: target[0], args: target.slice(1) });

// The client tells only its transport what was agreed.
let revision;
const agreed = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  revision = version;
  agreed?.(version);
};

let asked = [];
const heard = [];
const statuses = [];
let mayAnswer;
const mayBeAnswered = new Promise((resolve) => (mayAnswer = resolve));
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  asked.push({ kind: "form", ...params });
  await mayBeAnswered;
  return { action: "accept", content: { confirmed: true, stage: "live" } };
});
client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
  asked.push({ kind: "sampling", ...params });
  const content = { type: "text", text: "Tasks take time." };
  return { role: "assistant", content, model: "none" };
});
client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => {
  statuses.push(params);
});

async function errorOf(promise) {
  try {
    return { result: await promise };
  } catch ({ code, message }) {
    return { code, message };
  }
}

// What the stream of one call said, in order.
async function life(name, args, options = {}) {
  const said = { statuses: [] };
  const stream = client.experimental.tasks.callToolStream(
    { name, arguments: args },
    CallToolResultSchema,
    { task: {}, ...options },
  );
  for await (const message of stream) {
    if (message.type === "taskCreated") said.task = message.task;
    if (message.type === "taskStatus") said.statuses.push(message.task);
    if (message.task?.status === "input_required") mayAnswer();
    if (message.type === "result") said.result = message.result;
    if (message.type === "error") said.error = message.error.message;
  }
  return said;
}

await client.connect(transport);
tell("initialize", { revision, capabilities: client.getServerCapabilities() });
const { tools } = await client.listTools();
const support = Object.fromEntries(tools.map((t) => [t.name, t.execution?.taskSupport]));
tell("tools", { support });
tell("plain", await client.callTool({ name: "greet", arguments: { name: "Ada" } }));

const tasks = client.experimental.tasks;
const count = await life(
  "count",
  { to: 3, pause_ms: 150 },
  { task: { ttl: 90_000 }, onprogress: (progress) => heard.push(progress) },
);
tell("create", { task: count.task });
tell("poll", {
  task: count.task.taskId,
  statuses: count.statuses.map(({ status }) => status),
  last: count.statuses.at(-1),
});
tell("result", count.result);
tell("progress", { task: count.task.taskId, heard });

const deploy = await life("deploy", { version: "1.2" });
tell("question", { seen: deploy.statuses.map(({ status }) => status) });
tell("answer", { task: deploy.task.taskId, asked, ...deploy.result });
asked = [];
const sample = await life("sample", { topic: "tasks" });
tell("sampling", { task: sample.task.taskId, asked, ...sample.result });

const fail = await life("fail", {});
const failed = await tasks.getTaskResult(fail.task.taskId, CallToolResultSchema);
tell("fail", { status: fail.statuses.at(-1).status, ...failed });
const crash = await life("crash", {});
const crashed = await errorOf(tasks.getTaskResult(crash.task.taskId, CallToolResultSchema));
tell("crash", { status: crash.statuses.at(-1).status, ...crashed });

let cancelled;
const long = tasks.callToolStream(
  { name: "count", arguments: { to: 1_000, pause_ms: 1_000 } },
  CallToolResultSchema,
  { task: {} },
);
for await (const message of long) {
  if (message.type === "taskCreated") {
    cancelled = message.task.taskId;
    tell("cancel", await tasks.cancelTask(cancelled));
  }
}
tell("cancel again", await errorOf(tasks.cancelTask(cancelled)));
tell("cancelled", await tasks.getTask(cancelled));
const nothing = await errorOf(tasks.getTaskResult(cancelled, CallToolResultSchema));
tell("result of cancelled", nothing);

const listed = [];
let cursor;
do {
  const page = await tasks.listTasks(cursor);
  listed.push(...page.tasks.map(({ taskId }) => taskId));
  cursor = page.nextCursor;
} while (cursor !== undefined);
const made = [crash, fail, sample, deploy, count].map(({ task }) => task.taskId);
tell("list", { listed, made: [cancelled, ...made] });
tell("unknown", await errorOf(tasks.getTask("no-such-task")));
tell("notified", { statuses, tasks: [cancelled, ...made] });
await client.close();
tell("end");
process.exit(0);
