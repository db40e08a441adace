// Conversations in the browser's own database. Two pages of this server may be open: saving keeps what the other one
// added, and each tells the other that something changed.
import { Conversation } from "./tree.js";

const NAME = "quern", TABLE = "conversations";

function result_of(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export class Store {
  #database = null;  // null: nothing is kept beyond this page
  #channel = typeof BroadcastChannel === "function" ? new BroadcastChannel(NAME) : null;

  // problem: null, or why nothing is kept.
  problem = null;

  async open() {
    try {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "id" });
      this.#database = await result_of(request);
    } catch (error) {
      this.problem = `This browser keeps no data of this page (${error?.message ?? error}): conversations are gone when it is closed. Export what you want to keep.`;
    }
  }

  // changed(id): another page saved or deleted a conversation.
  listen(changed) {
    if (this.#channel) this.#channel.onmessage = (event) => changed(event.data);
  }

  #table(mode) {
    return this.#database.transaction(TABLE, mode).objectStore(TABLE);
  }

  async all() {
    if (!this.#database) return [];
    return (await result_of(this.#table("readonly").getAll())).map((json) => new Conversation(json));
  }

  async load(id) {
    const json = this.#database ? await result_of(this.#table("readonly").get(id)) : null;
    return json ? new Conversation(json) : null;
  }

  // In one transaction: what is stored already is merged into the conversation first.
  async save(conversation) {
    if (!this.#database) return;
    const table = this.#table("readwrite");
    const stored = await result_of(table.get(conversation.id));
    if (stored) conversation.merge(new Conversation(stored));
    await result_of(table.put(JSON.parse(JSON.stringify(conversation))));
    this.#channel?.postMessage(conversation.id);
  }

  async remove(id) {
    if (!this.#database) return;
    await result_of(this.#table("readwrite").delete(id));
    this.#channel?.postMessage(id);
  }
}
