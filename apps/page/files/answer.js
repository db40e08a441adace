// One answer, from the request to its end: fills a message of the tree (tree.js) while events come in.

// What the model is sent: the messages from the top to the one that is answered.
export function messages_for(line, system) {
  const out = system.trim() ? [{ role: "system", content: system }] : [];
  for (const { role, content, reasoning } of line)
    out.push(role === "assistant" && reasoning ? { role, content, reasoning_content: reasoning } : { role, content });
  return out;
}

export class Answer {
  id = null;  // of the server, once it has begun
  #controller = new AbortController();
  #message;
  #cut = false;  // by the limit or the context

  constructor(message) {
    this.#message = message;
  }

  // What has come by then stays.
  stop() {
    this.#controller.abort();
  }

  get thinks() {
    const { state, content, reasoning } = this.#message;
    return state === "running" && !content && Boolean(reasoning);
  }

  // Runs to the end; changed() is called for each piece. Never throws: what goes wrong stands in the message.
  async run(api, body, changed) {
    const message = this.#message;
    const start = performance.now();
    const since = () => (performance.now() - start) / 1000;
    const stats = {};
    try {
      for await (const event of api.stream("v1/chat/completions", body, this.#controller.signal)) {
        this.id = event.id;
        this.#take(event, stats, since);
        changed();
      }
      message.state = this.#cut ? "length" : "done";
    } catch (error) {
      if (error.name === "AbortError") {
        message.state = "stopped";
      } else {
        message.state = "error";
        message.error = error.message;
      }
    }
    stats.seconds = since();
    if (stats.first !== undefined && message.reasoning && stats.thinking === undefined) stats.thinking = stats.seconds - stats.first;
    message.stats = stats;
    changed();
  }

  #take(event, stats, since) {
    const message = this.#message;
    if (event.model) message.model = event.model;
    const [choice] = event.choices ?? [];
    const { content, reasoning_content } = choice?.delta ?? {};
    if (content || reasoning_content) stats.first ??= since();
    if (reasoning_content) message.reasoning = (message.reasoning ?? "") + reasoning_content;
    if (content) {
      if (message.reasoning && !message.content) stats.thinking = since() - stats.first;
      message.content += content;
    }
    if (choice?.finish_reason === "length") this.#cut = true;
    if (event.usage) {
      stats.prompt = event.usage.prompt_tokens;
      stats.cached = event.usage.prompt_tokens_details?.cached_tokens ?? 0;
      stats.tokens = event.usage.completion_tokens;
    }
  }
}

// A line about an answer that has ended.
export function stats_text({ tokens, seconds, first, prompt, cached } = {}, n_ctx) {
  const parts = [];
  if (tokens !== undefined) {
    parts.push(`${tokens} ${tokens === 1 ? "token" : "tokens"}`);
    if (tokens > 1 && seconds > first) parts.push(`${((tokens - 1) / (seconds - first)).toFixed(1)} tokens/s`);
    if (first !== undefined) parts.push(`first after ${first.toFixed(2)} s`);
    parts.push(cached ? `prompt ${prompt}, ${cached} from the cache` : `prompt ${prompt}`);
    if (n_ctx) parts.push(`context ${prompt + tokens} of ${n_ctx}`);
  }
  return parts.join(" · ");
}
