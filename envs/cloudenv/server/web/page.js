"use strict";
// The page is a client of the HTTP API like any other: tasks from /api/tasks, actions to /step.

const $ = (id) => document.getElementById(id);
const episode = "web-" + crypto.getRandomValues(new Uint32Array(2)).join("-");
let task = null;

async function ask(method, path, body) {
  let answer, json;
  try {
    answer = await fetch(path, {
      method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body),
    });
    json = await answer.json();
  } catch (error) {
    throw new Error(answer ? "the server's answer is not JSON" : "the server does not answer");
  }
  if (!answer.ok) throw new Error(json.error ? json.error.message : `HTTP ${answer.status}`);
  return json;
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function fill(id, children, empty) {
  $(id).replaceChildren(...(children.length ? children : [element("p", { className: "quiet", textContent: empty })]));
}

function differences(entry) {
  const values = entry.kind === "changed"
    ? [element("div", { className: "wants" },
        element("div", {}, "is", element("pre", { textContent: text(entry.actual) })),
        element("div", {}, "should be", element("pre", { textContent: text(entry.expected) })))]
    : [];
  return element("div", { className: "card bad" }, element("h3", { textContent: entry.text || text(entry) }), ...values);
}

function* resources(state) {
  for (const [id, entries] of Object.entries(state)) {
    for (const entry of [entries].flat()) {
      const rows = Object.entries(entry).filter(([key]) => !["service", "instance"].includes(key)).map(([key, value]) =>
        element("tr", {}, element("th", { textContent: key, scope: "row" }),
          element("td", {}, element("pre", { textContent: text(value) }))));
      yield element("div", { className: "card" },
        element("h3", { textContent: entry.instance ? `${entry.service} · ${entry.instance}` : id }),
        element("table", {}, ...rows));
    }
  }
}

// An agent is never shown the ideal; a person who acts by hand may look.
async function show(answer) {
  const seen = answer.observation;
  const path = `/api/pipelines/${encodeURIComponent(task.id)}/validate?episode_id=${encodeURIComponent(episode)}`;
  const { diff } = await ask("GET", path);
  $("reward").textContent = answer.reward === null ? "–" : Number(answer.reward).toFixed(3);
  $("meter").value = answer.reward || 0;
  $("steps").textContent = seen.step_count;
  $("left").textContent = diff.length;
  $("done").textContent = answer.done ? "repaired" : seen.truncated ? "no steps left" : "broken";
  $("done").className = answer.done ? "good" : "";
  fill("diff", diff.map(differences), answer.done ? "Nothing: the pipeline is repaired." : "Nothing.");
  fill("pipeline", [...resources(seen.current_pipeline_state)], "No resources.");
  for (const id of ["service", "operation", "payload", "send"]) $(id).disabled = answer.done || seen.truncated;
}

function failed(result) {
  return result.status === "ERROR" ? result.error || { code: "Error", message: "" } : null;
}

function log(action, result) {
  const error = failed(result);
  const again = element("button", { textContent: `${action.service} ${action.operation}`, title: "edit it again" });
  again.onclick = () => {
    $("service").value = action.service;
    operations();
    $("operation").value = action.operation;
    $("payload").value = JSON.stringify(action.payload, null, 2);
  };
  const line = element("li", {}, again);
  if (error) line.append(element("span", { className: "error", textContent: `${error.code}: ${error.message}` }));
  else if (result.output && Object.keys(result.output).length)
    line.append(element("pre", { textContent: text(result.output) }));
  $("log").prepend(line);
}

function operations() {
  const known = (task && task.operations[$("service").value]) || [];
  $("operations").replaceChildren(...known.map((name) => element("option", { value: name })));
}

const step = (action) => ask("POST", "/step", { action: { episode_id: episode, task_id: task.id, ...action } });

async function start() {
  $("problem").textContent = "";
  $("start").disabled = true;
  try {
    const name = $("task").value.trim();
    if (!name) throw new Error("Task: which one?");
    task = await ask("GET", "/api/tasks/" + encodeURIComponent(name));
    $("instruction").className = "";
    $("instruction").textContent = task.instruction;
    $("service").replaceChildren(...Object.keys(task.operations).map((name) => element("option", { textContent: name })));
    operations();
    const answer = await step({ service: "internal", operation: "InitializeEnvironment" });
    const error = failed(answer.observation.operation_result);
    if (error) throw new Error(error.message);
    $("log").replaceChildren();
    await show(answer);
  } catch (error) {
    $("problem").textContent = error.message;
  }
  $("start").disabled = false;
}

$("start").onclick = start;
$("task").onkeydown = (event) => event.key === "Enter" && start();
$("service").onchange = () => { $("operation").value = ""; operations(); };
$("act").onsubmit = async (event) => {
  event.preventDefault();
  $("problem").textContent = "";
  try {
    let payload;
    try { payload = JSON.parse($("payload").value || "{}"); }
    catch (error) { throw new Error("Payload: " + error.message); }
    const action = { service: $("service").value, operation: $("operation").value.trim(), payload };
    if (!action.operation) throw new Error("Operation: which one?");
    const answer = await step(action);
    log(action, answer.observation.operation_result);
    await show(answer);
  } catch (error) {
    $("problem").textContent = error.message;
  }
};

(async () => {
  $("task").value = new URLSearchParams(location.search).get("task") || $("task").value;
  try {
    const { tasks } = await ask("GET", "/api/tasks");
    $("tasks").replaceChildren(...tasks.map((one) =>
      element("option", { value: one.id, textContent: [one.level, one.title].filter(Boolean).join(": ") })));
    $("task").value ||= tasks.length ? tasks[0].id : "";  // what was typed meanwhile stays
  } catch (error) {
    $("problem").textContent = error.message;
  }
})();
