// The beginning: makes the parts and ties them together.
import { Api } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { ask_key, confirm_that } from "./dialogs.js";
import { by_id, element, fill_icons } from "./dom.js";
import { download, opener } from "./files.js";
import { Layout } from "./layout.js";
import { Live } from "./live.js";
import { keep, recall } from "./memory.js";
import { Models } from "./models.js";
import { Settings } from "./settings.js";
import { SettingsView } from "./settings_view.js";
import { Sidebar } from "./sidebar.js";
import { Reader, say } from "./speech.js";
import { Store } from "./store.js";
import { start_theme_button } from "./theme_button.js";
import { ThreadView } from "./thread_view.js";
import { export_text, import_text } from "./transfer.js";

const api = new Api(ask_key);
const store = new Store();
const settings = new Settings();
const models = new Models(api, settings);
const reader = new Reader();

// A line above the messages. action: [label, function] of a button in it.
function notice(text, action = null) {
  const box = by_id("notice");
  const button = (label, run) => element("button", { type: "button", class: "outlined small", onclick: () => { box.hidden = true; run(); } }, label);
  box.replaceChildren(element("span", {}, text), ...(action ? [button(...action)] : []), button("Dismiss", () => composer.focus()));
  box.hidden = false;
}

const chat = new Chat({ api, store, settings, models }, {
  changed: draw,
  grew(message) {
    thread.grow(message);
    if (chat.current.message(message.id) === message) reader.add(message.content);
  },
  began(message) {
    if (chat.current.message(message.id) !== message) return;
    thread.to_end();
    reader.begin();
    say("Waiting for the answer");
  },
  ended(message) {
    if (chat.current.message(message.id) === message) {
      reader.add(message.content, true);
      say(message.state === "error" ? "The answer failed" : message.state === "stopped" ? "Answer stopped" : "Answer complete");
    }
    if (models.current?.state !== "loaded") refresh_models();
  },
  problem: notice,
});

// Whether a request can be made; else the user is led to what must be corrected.
function ready() {
  const wrong = settings.wrong();
  if (wrong) {
    notice(`${wrong.row.label} ${wrong.problem}.`);
    layout.open("settings");
    settings_view.focus(wrong.row);
  }
  return !wrong;
}

const composer = new Composer({
  send(text) {
    if (chat.running) say("An answer is still coming; stop it first");
    if (chat.running || !ready()) return false;
    chat.send(text);
    return true;
  },
  stop: () => chat.running?.stop(),
});

const thread = new ThreadView({
  answer_of: (message) => chat.answers.get(message) ?? null,
  model_of: (message) => models.list.find((model) => model.id === message.model) ?? null,
  choose(message) {
    const does = document.activeElement?.dataset.does ?? "next";
    chat.choose(message);
    thread.view_of(message)?.focus(does);
  },
  edit(message, text) {
    if (!ready()) return;
    chat.edit(message, text);
    composer.focus();
  },
  repeat(message) {
    if (!ready()) return;
    chat.repeat(message);
    composer.focus();
  },
  end_thinking: (message) => chat.end_thinking(message),
});

const sidebar = new Sidebar({
  open(conversation) {
    chat.open(conversation);
    layout.leave("sidebar");
    thread.to_end();
    composer.focus();
  },
  async remove(conversation) {
    if (!(await confirm_that(`Delete “${conversation.title || "Untitled"}”? It cannot be brought back.`, "Delete"))) return;
    await chat.remove(conversation);
    by_id("new_chat").focus();
  },
});

const settings_view = new SettingsView(settings, models, {
  changed: show_model,
  async change_key() {
    const key = await ask_key("");
    if (key === null) return;
    api.set_key(key);
    await refresh_models();
  },
});

const live = new Live(api);
const layout = new Layout();

function draw() {
  const { current } = chat;
  thread.show(current);
  sidebar.show(chat.conversations, current, (conversation) => chat.is_busy(conversation));
  composer.show(chat.running !== null);
  if (document.activeElement !== by_id("title")) by_id("title").value = current.title;
  by_id("export_one").disabled = current.empty;
  by_id("export_all").disabled = chat.conversations.length === 0;
  document.title = current.title ? `${current.title} · Quern` : "Quern";
  keep("open", current.id);
}

function show_model() {
  const name = models.current?.id ?? "No model";
  by_id("welcome_model").textContent = name;
  by_id("composer_model").textContent = name;
}

async function refresh_models() {
  try {
    await models.refresh();
  } catch (error) {
    notice(error.message, error.status === 401 ? ["Enter a key", refresh_models] : ["Try again", refresh_models]);
  }
  settings_view.key.hidden = !api.has_key;
  settings_view.show();
  show_model();
}

function save_as_file(conversations, name) {
  const day = new Date().toISOString().slice(0, 10);
  download(export_text(conversations), `quern-${name}-${day}.json`);
}

function take_file(text) {
  const { conversations, problem } = import_text(text);
  if (problem) return notice(problem);
  chat.import(conversations);
  say(`Imported ${conversations.length} ${conversations.length === 1 ? "conversation" : "conversations"}`);
}

function listen() {
  by_id("new_chat").addEventListener("click", () => {
    chat.create();
    layout.leave("sidebar");
    composer.focus();
  });
  by_id("title").addEventListener("change", (event) => chat.rename(event.target.value.trim()));
  by_id("export_one").addEventListener("click", () => save_as_file([chat.current], "conversation"));
  by_id("export_all").addEventListener("click", () => save_as_file(chat.conversations, "conversations"));
  by_id("import").addEventListener("click", opener(by_id("import_file"), take_file));
  document.addEventListener("keydown", (event) => {
    // Who just types means the message.
    const letter = event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (letter && document.activeElement === document.body) composer.focus();
    if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) chat.running?.stop();
  });
  addEventListener("pagehide", () => chat.save_all());
}

async function start() {
  fill_icons();
  start_theme_button(by_id("theme"));
  layout.add("sidebar", { group: "left" });
  layout.add("settings", { group: "right" });
  layout.add("live", { group: "right", changed: (open) => live.show(open) });
  listen();
  await store.open();
  if (store.problem) notice(store.problem);
  await chat.load(recall("open"));
  draw();
  thread.to_end();
  document.documentElement.dataset.ready = "yes";
  await refresh_models();
  draw();
}

start();
