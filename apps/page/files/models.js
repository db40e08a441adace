// The models that the server lists, and which one is asked.

export class Models {
  #api;
  #settings;
  list = [];

  constructor(api, settings) {
    this.#api = api;
    this.#settings = settings;
  }

  async refresh() {
    this.list = (await this.#api.get("v1/models")).data;
  }

  // The chosen one, or the first where that is gone; null before the list is there.
  get current() {
    return this.list.find((model) => model.id === this.#settings.model) ?? this.list[0] ?? null;
  }
}
