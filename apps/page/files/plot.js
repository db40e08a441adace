// A small line of values over time.
import { svg } from "./dom.js";

const WIDTH = 240, HEIGHT = 48, TOP = 4;

export class Plot {
  #line = svg("path", { class: "plot_line" });
  #area = svg("path", { class: "plot_area" });

  constructor() {
    this.element = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      svg("path", { class: "plot_ground", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` }), this.#area, this.#line);
  }

  // values: oldest first, at most n of them; the newest stands at the right. top: the value at the upper edge.
  update(values, n, top, label) {
    const place = (value, i) => {
      const x = WIDTH - ((values.length - 1 - i) * WIDTH) / (n - 1);
      const y = HEIGHT - (Math.min(value, top) / (top || 1)) * (HEIGHT - TOP);
      return `${x.toFixed(1)} ${y.toFixed(1)}`;
    };
    const line = values.map(place).join("L");
    this.#line.setAttribute("d", values.length > 1 ? `M${line}` : "");
    this.#area.setAttribute("d", values.length > 1 ? `M${line}L${WIDTH} ${HEIGHT}L${place(0, 0)}Z` : "");
    this.element.setAttribute("aria-label", label);
  }
}
