// Keeps a page of the console up to date.  Without it pages work after a reload.

const page = document.body.dataset;
const connection = document.getElementById("connection");

// --- relative times -----------------------------------------------------------------------

const ahead = Number(page.now) - Date.now(); // of the browser's clock

function duration(milliseconds) {
  const seconds = Math.floor(Math.max(0, milliseconds) / 1000);
  for (const [size, unit, most] of [[1, "s", 100], [60, "m", 100], [3600, "h", 48]]) {
    if (seconds / size < most) return Math.floor(seconds / size) + unit;
  }
  return Math.floor(seconds / 86400) + "d";
}

function tick(within = document) {
  const now = Date.now() + ahead;
  for (const time of within.querySelectorAll("time")) {
    const { since, until, words } = time.dataset;
    let text = since ? duration(now - since) : duration(until - now);
    if (words !== undefined) text = since ? `${text} ago` : `in ${text}`;
    if (time.textContent !== text) time.textContent = text;
  }
}

// --- replacing pieces ---------------------------------------------------------------------

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  tick(template.content);
  return template.content;
}

// Keep the focus and open details.
function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const path = focused && placeOf(focused, old);
  for (const details of old.querySelectorAll("details[open][id]")) {
    fresh.querySelector(`#${CSS.escape(details.id)}`)?.setAttribute("open", "");
  }
  old.replaceWith(fresh);
  if (path) elementAt(fresh, path)?.focus({ preventScroll: true });
}

function placeOf(element, root) {
  const path = [];
  for (let at = element; at !== root; at = at.parentElement) {
    path.unshift([...at.parentElement.children].indexOf(at));
  }
  return path;
}

function elementAt(root, path) {
  return path.reduce((at, index) => at?.children[index], root);
}

const list = {
  all(data) {
    document.getElementById("rows").replaceChildren(parsed(data));
    this.count();
  },
  rows(data) {
    for (const row of [...parsed(data).children]) {
      const old = document.getElementById(row.id);
      if (old) replace(old, row);
      else this.insert(row);
    }
    this.count();
  },
  gone(data) {
    for (const id of JSON.parse(data)) document.getElementById(`task-${id}`)?.remove();
    this.count();
  },
  insert(row) { // the newest first, as the server sorts
    const rows = document.getElementById("rows");
    const older = (other) =>
      Number(other.dataset.at) < Number(row.dataset.at) ||
      (other.dataset.at === row.dataset.at && other.id < row.id);
    rows.insertBefore(row, [...rows.children].find(older) ?? null);
  },
  count() {
    const shown = document.getElementById("rows").childElementCount;
    document.getElementById("count").textContent = shown;
    document.getElementById("empty").hidden = shown > 0;
  },
};

const task = {
  pieces(data) {
    const { pieces, state, isOver } = JSON.parse(data);
    for (const [name, html] of Object.entries(pieces)) {
      const old = document.getElementById(name);
      const fresh = parsed(html).firstElementChild;
      // The same may be sent again after a reconnect: keep what the user types.
      if (old && old.dataset.digest !== fresh.dataset.digest) replace(old, fresh);
    }
    const words = state.replace("_", " ");
    if (page.state !== undefined && page.state !== state) say("announce", `The task is ${words}.`);
    page.state = state;
    document.title = document.title.replace(/: \w+ ·/, `: ${state} ·`);
    if (isOver) stop("This task has ended.");
  },
  forgotten() {
    stop("This task has been deleted.");
  },
};

function say(id, words) {
  const place = document.getElementById(id);
  if (place && place.textContent !== words) place.textContent = words;
}

// --- the stream ---------------------------------------------------------------------------

let source = null;
let seen = page.seen;
let retry = null;

function start() {
  stop();
  const url = new URL(page.stream, location.href);
  url.searchParams.set("seen", seen);
  source = new EventSource(url);
  const handlers = page.live === "list" ? list : task;
  for (const name of page.live === "list" ? ["all", "rows", "gone"] : ["pieces", "forgotten"]) {
    source.addEventListener(name, (event) => {
      if (event.lastEventId) seen = event.lastEventId;
      handlers[name](event.data);
    });
  }
  source.addEventListener("open", () => status("live", "Live"));
  source.addEventListener("error", lost);
}

function stop(words) {
  clearTimeout(retry);
  source?.close();
  source = null;
  if (words) status("", words);
}

async function lost() {
  status("lost", "Connection lost. Trying again…");
  if (source?.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
  stop();
  try { // distinguish an expired session from a lost connection
    const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" });
    if (answer.type === "opaqueredirect" || answer.status === 404) return location.reload();
  } catch {
    // the server is not reachable yet
  }
  retry = setTimeout(start, 2000);
}

function status(kind, words) {
  connection.dataset.kind = kind;
  say("connection", words);
}

if (page.live) {
  tick();
  setInterval(tick, 1000);
  if (page.over !== undefined) {
    status("", "This task has ended.");
  } else {
    page.state = document.title.match(/: (\w+) ·/)?.[1];
    // A hidden page needs no stream; it catches up when it is shown.
    const follow = () => (document.hidden ? stop() : start());
    document.addEventListener("visibilitychange", follow);
    follow();
  }
}
