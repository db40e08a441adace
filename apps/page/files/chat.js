// All conversations, the one that is open, and the answers that are being written. No elements: `events` tells who draws.
import { Answer, messages_for } from "./answer.js";
import { Conversation } from "./tree.js";

const SAVE_MS = 1000;  // how often an answer is saved while it comes

export class Chat {
  conversations = [];
  current = new Conversation();
  answers = new Map();  // message -> its running Answer
  #api;
  #store;
  #settings;
  #models;
  #events;
  #timers = new Map();  // conversation -> the timer of its next saving

  // events: changed() (another path, list or title), grew(message), began(message), ended(message), problem(text).
  constructor({ api, store, settings, models }, events) {
    this.#api = api;
    this.#store = store;
    this.#settings = settings;
    this.#models = models;
    this.#events = events;
  }

  // open: the id of the conversation to begin with.
  async load(open) {
    this.conversations = await this.#store.all();
    this.current = this.conversations.find(({ id }) => id === open) ?? new Conversation();
    this.#store.listen((id) => this.#take_over(id));
  }

  // The answer that is being written on the shown path, or null.
  get running() {
    return this.current.path().map((message) => this.answers.get(message)).find(Boolean) ?? null;
  }

  is_busy(conversation) {
    return conversation.messages.some((message) => this.answers.has(message));
  }

  open(conversation) {
    this.current = conversation;
    this.#events.changed();
  }

  create() {
    this.open(new Conversation());
  }

  async remove(conversation) {
    for (const message of conversation.messages) this.answers.get(message)?.stop();
    this.conversations = this.conversations.filter((other) => other !== conversation);
    if (this.current === conversation) this.current = new Conversation();
    this.#events.changed();
    await this.#guard(() => this.#store.remove(conversation.id));
  }

  rename(title) {
    this.current.title = title;
    this.current.changed = Date.now();
    this.save(this.current);
    this.#events.changed();
  }

  choose(message) {
    this.current.choose(message);
    this.save(this.current);
    this.#events.changed();
  }

  send(text) {
    this.#ask(this.current.path().at(-1) ?? null, text);
  }

  edit(message, text) {
    this.#ask(this.current.message(message.parent), text);
  }

  repeat(answer) {
    this.#answer(this.current, this.current.message(answer.parent));
  }

  async end_thinking(message) {
    const id = this.answers.get(message)?.id;
    if (id) await this.#guard(() => this.#api.post(`v1/requests/${id}/end_thinking`, {}));
  }

  // Conversations of a file: new ones, and what is new in those that are here.
  import(conversations) {
    for (const conversation of conversations) {
      const here = this.conversations.find(({ id }) => id === conversation.id);
      if (here) here.merge(conversation);
      else this.conversations.push(conversation);
      this.save(here ?? conversation);
    }
    const [first] = conversations;
    if (first) this.current = this.conversations.find(({ id }) => id === first.id);
    this.#events.changed();
  }

  async save(conversation) {
    clearTimeout(this.#timers.get(conversation));
    this.#timers.delete(conversation);
    if (this.conversations.includes(conversation)) await this.#guard(() => this.#store.save(conversation));
  }

  save_all() {
    for (const conversation of this.#timers.keys()) this.save(conversation);
  }

  #ask(parent, text) {
    const { current } = this;
    const question = current.add(parent, { role: "user", content: text });
    if (!this.conversations.includes(current)) this.conversations.push(current);
    this.#answer(current, question);
  }

  async #answer(conversation, question) {
    const model = this.#models.current;
    const message = conversation.add(question, { role: "assistant", content: "", reasoning: "", model: model?.id ?? "", state: "running" });
    const answer = new Answer(message);
    this.answers.set(message, answer);
    this.save(conversation);
    this.#events.changed();
    this.#events.began(message);
    const body = {
      ...(model ? { model: model.id } : {}),
      messages: messages_for(conversation.line(question), this.#settings.text("system")),
      stream: true,
      stream_options: { include_usage: true },
      ...this.#settings.fields(model),
    };
    await answer.run(this.#api, body, () => {
      this.#events.grew(message);
      if (!this.#timers.has(conversation)) this.#timers.set(conversation, setTimeout(() => this.save(conversation), SAVE_MS));
    });
    this.answers.delete(message);
    conversation.changed = Date.now();
    this.#events.changed();
    this.#events.ended(message);
    await this.save(conversation);
  }

  // Another page changed a conversation.
  async #take_over(id) {
    const stored = await this.#store.load(id);
    // Looked up only now: another change may have brought it in the meantime.
    const here = this.conversations.find((conversation) => conversation.id === id);
    if (here && stored) here.merge(stored);
    else if (stored) this.conversations.push(stored);
    else if (here && !this.is_busy(here)) {
      this.conversations = this.conversations.filter((conversation) => conversation !== here);
      if (this.current === here) this.current = new Conversation();
    }
    this.#events.changed();
  }

  async #guard(work) {
    try {
      await work();
    } catch (error) {
      this.#events.problem(`Not done: ${error.message}`);
    }
  }
}
