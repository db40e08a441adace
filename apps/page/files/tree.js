// A conversation is a tree: editing a message or asking again adds a sibling, and each message says which of the
// messages below it is shown. Nothing is ever taken out of a conversation. No page, no server.
//
// A message: id, parent (null at the top), role ("user", "assistant"), content, created (ms), chosen (id of the message
// shown below it, or null); of an answer also reasoning, model, state ("running", "done", "length", "stopped", "error"),
// error (why) and stats (numbers, see answer.js).

export function new_id() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Conversation {
  #messages = new Map();  // in the order in which they were added: a parent stands before its children

  constructor({ id = new_id(), title = "", created = Date.now(), changed = created, chosen = null, messages = [] } = {}) {
    Object.assign(this, { id, title, created, changed, chosen });
    for (const message of messages) this.#messages.set(message.id, message);
  }

  get empty() {
    return this.#messages.size === 0;
  }

  get messages() {
    return [...this.#messages.values()];
  }

  message(id) {
    return this.#messages.get(id) ?? null;
  }

  below(parent) {
    return this.messages.filter((message) => message.parent === parent);
  }

  siblings(message) {
    return this.below(message.parent);
  }

  // Adds a message and shows it.
  add(parent, message) {
    const added = { id: new_id(), parent: parent?.id ?? null, created: Date.now(), chosen: null, ...message };
    this.#messages.set(added.id, added);
    this.choose(added);
    if (!this.title && added.role === "user") this.title = title_of(added.content);
    this.changed = Date.now();
    return added;
  }

  choose(message) {
    (message.parent === null ? this : this.message(message.parent)).chosen = message.id;
  }

  // What is shown, from the top. A choice that leads nowhere means the newest.
  path() {
    const shown = [];
    let at = this, parent = null;
    for (;;) {
      const next = this.message(at.chosen) ?? this.below(parent).at(-1);
      if (!next || next.parent !== parent) return shown;
      shown.push(next);
      at = next;
      parent = next.id;
    }
  }

  // The messages from the top to this one.
  line(message) {
    const line = [];
    for (let at = message; at; at = this.message(at.parent)) line.unshift(at);
    return line;
  }

  // Takes over what another copy of this conversation has besides. What both have stays as it is here, except that an
  // answer which is complete there was only being watched here.
  merge(other) {
    for (const message of other.messages) {
      const mine = this.#messages.get(message.id);
      if (mine?.state === "running" && message.state !== "running") Object.assign(mine, message);
      if (!mine && (message.parent === null || this.#messages.has(message.parent))) this.#messages.set(message.id, { ...message });
    }
    if (other.changed > this.changed) this.title = other.title;
    this.changed = Math.max(this.changed, other.changed);
  }

  toJSON() {
    return { id: this.id, title: this.title, created: this.created, changed: this.changed, chosen: this.chosen, messages: this.messages };
  }
}

export function title_of(text) {
  const line = text.trim().split("\n", 1)[0].trim();
  return line.length > 60 ? `${line.slice(0, 59).trimEnd()}…` : line;
}
