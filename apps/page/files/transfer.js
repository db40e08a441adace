// Conversations as a file and back. A file may come from anywhere: every field is checked, and what does not fit is
// refused by its name.
import { Conversation } from "./tree.js";

const FORMAT = "quern-conversations", VERSION = 1;
const MAX_BYTES = 64 << 20, MAX_TEXT = 16 << 20;

class Refused extends Error {}

const text = (limit) => (value) => typeof value === "string" && value.length <= limit;
const one_of = (...words) => (value) => words.includes(value);
const number = (value) => typeof value === "number" && Number.isFinite(value) && value >= 0;
const id = (value) => typeof value === "string" && /^[0-9a-z]{1,64}$/.test(value);
const id_or_null = (value) => value === null || id(value);
const object_of_numbers = (value) => is_object(value) && Object.values(value).every((entry) => number(entry));
const is_object = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// name -> [check, what it must be, whether it may be absent]
const FILE = {
  format: [one_of(FORMAT), `"${FORMAT}"`],
  version: [one_of(VERSION), `${VERSION}; this page knows no other`],
  conversations: [Array.isArray, "a list"],
};
const CONVERSATION = {
  id: [id, "small letters and digits"],
  title: [text(200), "a text of at most 200 characters"],
  created: [number, "a number of milliseconds"],
  changed: [number, "a number of milliseconds"],
  chosen: [id_or_null, "the id of a message, or null"],
  messages: [Array.isArray, "a list"],
};
const MESSAGE = {
  id: [id, "small letters and digits"],
  parent: [id_or_null, "the id of a message, or null"],
  role: [one_of("user", "assistant"), '"user" or "assistant"'],
  content: [text(MAX_TEXT), "a text"],
  created: [number, "a number of milliseconds"],
  chosen: [id_or_null, "the id of a message, or null"],
  reasoning: [text(MAX_TEXT), "a text", true],
  model: [text(500), "a text", true],
  state: [one_of("running", "done", "length", "stopped", "error"), "the state of an answer", true],
  error: [text(10000), "a text", true],
  stats: [object_of_numbers, "an object of numbers", true],
};

function check(value, fields, where) {
  if (!is_object(value)) throw new Refused(`${where || "the file"} must be an object`);
  const dot = where ? `${where}.` : "";
  for (const [name, [good, what, optional]] of Object.entries(fields)) {
    const present = Object.hasOwn(value, name);
    if (present ? !good(value[name]) : !optional) throw new Refused(`${dot}${name} must be ${what}`);
  }
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(fields, name)) throw new Refused(`${dot}${name.slice(0, 60)} is not known`);
  }
}

function read_conversation(json, where) {
  check(json, CONVERSATION, where);
  const parents = new Map();
  json.messages.forEach((message, i) => {
    const name = `${where}.messages[${i}]`;
    check(message, MESSAGE, name);
    if (parents.has(message.id)) throw new Refused(`${name}.id stands there twice`);
    if (message.parent !== null && !parents.has(message.parent)) throw new Refused(`${name}.parent is no message before it`);
    parents.set(message.id, message.parent);
  });
  [json, ...json.messages].forEach((owner, i) => {
    const parent = i === 0 ? null : owner.id;
    if (owner.chosen !== null && parents.get(owner.chosen) !== parent)
      throw new Refused(`${where}${i === 0 ? "" : `.messages[${i - 1}]`}.chosen is no message below it`);
  });
  const conversation = new Conversation(json);
  for (const message of conversation.messages) {
    if (message.state === "running") message.state = "stopped";  // nobody goes on with it here
  }
  return conversation;
}

export function export_text(conversations) {
  return `${JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 1)}\n`;
}

// {conversations} or {problem}: a sentence.
export function import_text(file_text) {
  try {
    if (file_text.length > MAX_BYTES) throw new Refused("it is longer than 64 MiB");
    let json;
    try {
      json = JSON.parse(file_text);
    } catch (error) {
      throw new Refused(`it is no JSON (${error.message})`);
    }
    check(json, FILE, "");
    return { conversations: json.conversations.map((entry, i) => read_conversation(entry, `conversations[${i}]`)) };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { problem: `This file cannot be imported: ${error.message}.` };
  }
}
