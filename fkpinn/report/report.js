"use strict";
(() => {
  const runs = JSON.parse(document.getElementById("data").textContent);
  const unpack = (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const spell = (v) => {
    if (!Number.isFinite(v)) return "–";
    const size = Math.abs(v);
    return size === 0 || (size >= 1e-3 && size < 1e5) ? String(+v.toPrecision(5)) : v.toExponential(3);
  };
  const make = (tag, attributes = {}, text = "") => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    return node;
  };
  const range = (values) => {
    let low = Infinity, high = -Infinity;
    for (const v of values) if (Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; }
    return low > high ? [0, 1] : low === high ? [low - 0.5, high + 0.5] : [low, high];
  };

  // colours that stay apart for every eye, and in grey
  const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6dcd59", "#b4de2c", "#fde725"];
  const BLUE_RED = ["#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b", "#67001f"];
  const BLUE_DARK_ORANGE = ["#b3e0ff", "#6fbcf5", "#3a90cf", "#24608f", "#1e3d57", "#272c33", "#5c3a22", "#965524", "#d07f36", "#f5ad63", "#ffdcb0"];
  const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"];
  const table = (stops) => {
    const rgb = stops.map((s) => [1, 3, 5].map((k) => parseInt(s.slice(k, k + 2), 16)));
    return Array.from({ length: 256 }, (_, i) => {
      const at = (i / 255) * (rgb.length - 1), k = Math.min(Math.floor(at), rgb.length - 2);
      return rgb[k].map((c, j) => Math.round(c + (at - k) * (rgb[k + 1][j] - c)));
    });
  };
  const TABLES = { plain: table(VIRIDIS), onLight: table(BLUE_RED), onDark: table(BLUE_DARK_ORANGE) };
  const DARK = matchMedia("(prefers-color-scheme: dark)");
  const signed = () => TABLES[DARK.matches ? "onDark" : "onLight"]; // zero fades into the paper
  const css = (c) => `rgb(${c[0]},${c[1]},${c[2]})`;

  const ticks = (low, high, n) => {
    const raw = (high - low) / n, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
    const found = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) found.push(Math.abs(v) < 1e-9 * step ? 0 : v);
    return found;
  };

  const decades = (low, high, n) => {
    const step = Math.max(1, Math.ceil((high - low) / n)), found = [];
    for (let v = Math.ceil(low / step) * step; v <= high; v += step) found.push(v);
    return found;
  };

  // a canvas with a frame in data coordinates, sharp on every screen
  class Plot {
    constructor(parent, { ratio = 0.6, least = 220, kind = "", label }) {
      this.canvas = make("canvas", { role: "img", "aria-label": label, tabindex: "0", class: kind });
      parent.append(this.canvas);
      this.ratio = ratio; this.least = least;
      new ResizeObserver(() => requestAnimationFrame(() => {
        if (this.canvas.parentElement.clientWidth !== this.width) this.redraw();
      })).observe(this.canvas.parentElement);
      DARK.addEventListener("change", () => this.redraw());
    }
    redraw() {
      const width = this.canvas.parentElement.clientWidth;
      if (!width) return;
      const height = Math.max(this.least, Math.min(width * this.ratio, 620)), dense = window.devicePixelRatio || 1;
      this.canvas.style.height = `${height}px`;
      this.canvas.width = Math.round(width * dense);
      this.canvas.height = Math.round(height * dense);
      this.width = width; this.height = height;
      this.pen = this.canvas.getContext("2d");
      this.pen.setTransform(dense, 0, 0, dense, 0, 0);
      this.pen.font = "12px system-ui, sans-serif";
      this.pen.clearRect(0, 0, width, height);
      this.paint(this.pen);
    }
    frame(box, view, { logy = false, xlabel = "", ylabel = "" } = {}) {
      const pen = this.pen, [x0, y0, w, h] = box;
      this.x = (v) => x0 + ((v - view.x[0]) / (view.x[1] - view.x[0])) * w;
      this.y = (v) => y0 + h - ((v - view.y[0]) / (view.y[1] - view.y[0])) * h;
      pen.strokeStyle = ink("--line"); pen.fillStyle = ink("--dim"); pen.lineWidth = 1;
      pen.textAlign = "center"; pen.textBaseline = "top";
      for (const t of ticks(...view.x, Math.max(3, w / 110))) {
        pen.beginPath(); pen.moveTo(this.x(t), y0); pen.lineTo(this.x(t), y0 + h); pen.stroke();
        pen.fillText(spell(t), this.x(t), y0 + h + 5);
      }
      pen.textAlign = "right"; pen.textBaseline = "middle";
      const marks = logy ? decades(...view.y, h / 40) : ticks(...view.y, Math.max(3, h / 55));
      for (const t of marks) {
        pen.beginPath(); pen.moveTo(x0, this.y(t)); pen.lineTo(x0 + w, this.y(t)); pen.stroke();
        pen.fillText(logy ? `1e${Math.round(t)}` : spell(t), x0 - 6, this.y(t));
      }
      pen.textAlign = "center"; pen.textBaseline = "bottom";
      if (xlabel) pen.fillText(xlabel, x0 + w / 2, this.height - 1);
      if (ylabel) { pen.textAlign = "left"; pen.textBaseline = "top"; pen.fillText(ylabel, 4, 2); }
    }
    clip([x, y, w, h], work) {
      this.pen.save(); this.pen.beginPath(); this.pen.rect(x, y, w, h); this.pen.clip(); work(); this.pen.restore();
    }
  }

  const pointer = (event, canvas) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  // zoom with the wheel or the buttons, move by dragging, double click for the whole
  const zoomable = (plot, bar, whole, reset) => {
    const zoom = (factor, px, py) => {
      const [x0, y0, w, h] = plot.box, view = plot.view;
      const cx = view.x[0] + ((px - x0) / w) * (view.x[1] - view.x[0]);
      const cy = view.y[1] - ((py - y0) / h) * (view.y[1] - view.y[0]);
      plot.view = { x: view.x.map((v) => cx + (v - cx) * factor), y: view.y.map((v) => cy + (v - cy) * factor) };
      const all = whole();
      if (plot.view.x[1] - plot.view.x[0] >= all.x[1] - all.x[0]) plot.view = all;
      plot.redraw();
    };
    const middle = () => [plot.box[0] + plot.box[2] / 2, plot.box[1] + plot.box[3] / 2];
    for (const [text, label, work] of [["+", "zoom in", () => zoom(0.6, ...middle())], ["−", "zoom out", () => zoom(1 / 0.6, ...middle())], ["whole", "show the whole domain", reset]]) {
      const button = make("button", { type: "button", "aria-label": label }, text);
      button.addEventListener("click", work);
      bar.append(button);
    }
    plot.canvas.addEventListener("wheel", (e) => { e.preventDefault(); zoom(e.deltaY < 0 ? 0.8 : 1.25, ...pointer(e, plot.canvas)); }, { passive: false });
    plot.canvas.addEventListener("dblclick", reset);
    let from = null;
    plot.canvas.addEventListener("pointerdown", (e) => { from = pointer(e, plot.canvas); plot.canvas.setPointerCapture(e.pointerId); });
    for (const end of ["pointerup", "pointercancel"]) plot.canvas.addEventListener(end, () => { from = null; });
    plot.canvas.addEventListener("pointermove", (e) => {
      if (!from) return;
      const at = pointer(e, plot.canvas), [, , w, h] = plot.box, view = plot.view;
      const dx = ((at[0] - from[0]) / w) * (view.x[1] - view.x[0]), dy = ((at[1] - from[1]) / h) * (view.y[1] - view.y[0]);
      plot.view = { x: view.x.map((v) => v - dx), y: view.y.map((v) => v + dy) };
      from = at;
      plot.redraw();
    });
  };

  const colourbar = (plot, scale, colours) => {
    const pen = plot.pen, [x0, y0, w, h] = plot.box, x = x0 + w + 14;
    for (let k = 0; k < h; k++) { pen.fillStyle = css(colours[Math.round(255 * (1 - k / h))]); pen.fillRect(x, y0 + k, 12, 1.5); }
    pen.fillStyle = ink("--dim"); pen.textAlign = "left"; pen.textBaseline = "middle";
    for (const t of ticks(...scale, 5)) pen.fillText(spell(t), x + 17, y0 + h - ((t - scale[0]) / (scale[1] - scale[0])) * h);
  };

  // the largest box with the domain's own proportions
  const mapBox = (plot, all) => {
    const room = [plot.width - 46 - 92, plot.height - 10 - 26];
    const shape = (all.x[1] - all.x[0]) / (all.y[1] - all.y[0]);
    const w = Math.min(room[0], room[1] * shape);
    return [46, 8, w, w / shape];
  };

  const layered = (names, bar, choose) => {
    const buttons = names.map((name) => {
      const button = make("button", { type: "button", "aria-pressed": "false" }, name);
      button.addEventListener("click", () => { for (const b of buttons) b.setAttribute("aria-pressed", String(b === button)); choose(name); });
      bar.append(button);
      return button;
    });
    if (buttons.length) buttons[0].setAttribute("aria-pressed", "true");
    return () => { for (const b of buttons) b.setAttribute("aria-pressed", "false"); };
  };

  // chooses a moment, or a value of a parameter; at rest it says nothing of these
  const timeSlider = (parent, times, name, choose) => {
    const what = name === "t" ? "time" : name, rest = name === "t" ? "move to see other times" : `move to see other values of ${name}`;
    const row = make("label", { class: "bar dim" }), said = make("span", {}, rest);
    const input = make("input", { type: "range", min: "0", max: String(times.length - 1), step: "1", value: "0", "aria-label": what });
    row.append(make("span", {}, what), input, said);
    parent.append(row);
    input.addEventListener("input", () => { said.textContent = `${name} = ${spell(times[+input.value])}`; choose(+input.value); });
    return { rest: () => { said.textContent = rest; } };
  };

  const drawField = (parent, run) => {
    const axes = run.axes.map(unpack), layers = Object.fromEntries(Object.entries(run.layers).map(([k, v]) => [k, unpack(v)]));
    const moments = run.moments ? { name: run.moments.name, times: unpack(run.moments.times), values: run.moments.values.map(unpack) } : null;
    if (axes.length === 1) {
      const series = Object.fromEntries(Object.entries(layers).filter(([name]) => name !== "difference"));
      if (moments) for (let k = 0; k < moments.times.length; k += 2) series[`at ${moments.name} = ${spell(moments.times[k])}`] = moments.values[k];
      return drawLines(parent, Array.from(axes[0]), series, { xlabel: "x₁", label: "solution" });
    }
    const bar = make("div", { class: "bar" }), readout = make("div", { class: "readout" }, "Point at the map to read values.");
    parent.append(bar);
    const plot = new Plot(parent, { ratio: 0.72, kind: "map", label: "map of the solution" });
    parent.append(readout);
    const [xs, ys] = axes, all = { x: [xs[0], xs[xs.length - 1]], y: [ys[0], ys[ys.length - 1]] };
    const every = [layers.network, ...(layers.reference ? [layers.reference] : []), ...(moments ? moments.values : [])];
    const both = range(every.flatMap(range));
    let shown = "network", dots = false;
    const scaleOf = (name) => {
      if (name !== "difference") return both;
      const [low, high] = range(layers.difference), reach = Math.max(Math.abs(low), Math.abs(high));
      return [-reach, reach];
    };
    const fieldOf = (name) => layers[name] || moments.values[name];  // the latter by number
    const coloursOf = (name) => (name === "difference" ? signed() : TABLES.plain);
    const images = new Map();
    const imageOf = (name) => {
      const field = fieldOf(name), colours = coloursOf(name), made = images.get(name);
      if (made && made.colours === colours) return made.canvas;
      const canvas = make("canvas", { width: String(xs.length), height: String(ys.length) });
      const pen = canvas.getContext("2d"), pixels = pen.createImageData(xs.length, ys.length);
      const scale = scaleOf(name);
      field.forEach((v, k) => {
        const i = k % xs.length, j = ys.length - 1 - Math.floor(k / xs.length), at = 4 * (j * xs.length + i);
        if (!Number.isFinite(v)) return;
        const c = colours[Math.max(0, Math.min(255, Math.round((255 * (v - scale[0])) / (scale[1] - scale[0]))))];
        pixels.data.set([...c, 255], at);
      });
      pen.putImageData(pixels, 0, 0);
      images.set(name, { colours, canvas });
      return canvas;
    };
    plot.view = all;
    const points = run.labels ? unpack(run.labels.points) : null;
    const stride = points ? points.length / unpack(run.labels.value).length : 0;
    plot.paint = (pen) => {
      plot.box = mapBox(plot, all);
      plot.frame(plot.box, plot.view, {});
      plot.clip(plot.box, () => {
        const hx = (xs[1] - xs[0]) / 2, hy = (ys[1] - ys[0]) / 2;
        const left = plot.x(all.x[0] - hx), right = plot.x(all.x[1] + hx), top = plot.y(all.y[1] + hy), bottom = plot.y(all.y[0] - hy);
        pen.imageSmoothingEnabled = false;
        pen.drawImage(imageOf(shown), left, top, right - left, bottom - top);
        if (dots) for (let k = 0; k < points.length; k += stride) {
          pen.beginPath(); pen.arc(plot.x(points[k + stride - 2]), plot.y(points[k + stride - 1]), 2.2, 0, 7);
          pen.fillStyle = "#fff"; pen.fill(); pen.strokeStyle = "#000"; pen.lineWidth = 0.7; pen.stroke();
        }
      });
      colourbar(plot, scaleOf(shown), coloursOf(shown));
    };
    let slider = null;
    const release = layered(Object.keys(layers), bar, (name) => { shown = name; if (slider) slider.rest(); plot.redraw(); });
    if (moments) slider = timeSlider(parent, moments.times, moments.name, (k) => { shown = k; release(); plot.redraw(); });
    if (points && run.flat) {
      const button = make("button", { type: "button", "aria-pressed": "false" }, "label points");
      button.addEventListener("click", () => { dots = !dots; button.setAttribute("aria-pressed", String(dots)); plot.redraw(); });
      bar.append(button);
    }
    zoomable(plot, bar, () => all, () => { plot.view = all; plot.redraw(); });
    plot.canvas.addEventListener("pointermove", (e) => {
      const [px, py] = pointer(e, plot.canvas), [x0, y0, w, h] = plot.box;
      const x = plot.view.x[0] + ((px - x0) / w) * (plot.view.x[1] - plot.view.x[0]);
      const y = plot.view.y[1] - ((py - y0) / h) * (plot.view.y[1] - plot.view.y[0]);
      const i = Math.round(((x - all.x[0]) / (all.x[1] - all.x[0])) * (xs.length - 1)), j = Math.round(((y - all.y[0]) / (all.y[1] - all.y[0])) * (ys.length - 1));
      const within = i >= 0 && j >= 0 && i < xs.length && j < ys.length;
      const read = (field) => (within ? spell(field[j * xs.length + i]) : "–");
      const values = Number.isInteger(shown) ? [`network at ${moments.name} = ${spell(moments.times[shown])} ${read(moments.values[shown])}`]
        : Object.entries(layers).map(([name, field]) => `${name} ${read(field)}`);
      readout.textContent = `x₁ = ${spell(x)}, x₂ = ${spell(y)}: ${values.join(", ")}`;
    });
    plot.redraw();
  };

  const legend = (parent, entries) => {
    const bar = make("div", { class: "bar dim" });
    for (const [name, colour] of entries) {
      const item = make("span", {}, ` ${name}`), swatch = make("span", { style: `display:inline-block;width:1.1em;height:.25em;background:${colour};vertical-align:middle` });
      item.prepend(swatch);
      bar.append(item);
    }
    parent.append(bar);
  };

  const drawLines = (parent, x, series, { xlabel, ylabel = "", label, logy = false, phases = null }) => {
    const names = Object.keys(series), colour = (k) => LINES[k % LINES.length];
    legend(parent, names.map((name, k) => [name, colour(k)]));
    const plot = new Plot(parent, { ratio: 0.45, label }), readout = make("div", { class: "readout" });
    parent.append(readout);
    const at = (v) => (logy ? (v > 0 ? Math.log10(v) : NaN) : v);
    const value = (name, k) => at(series[name].x ? series[name].y[k] : series[name][k]);
    const xsOf = (name) => series[name].x || x;
    const everyX = range(names.flatMap((name) => range(Array.from(xsOf(name)))));
    const everyY = range(names.flatMap((name) => range(Array.from(xsOf(name), (_, k) => value(name, k)))));
    const margin = 0.05 * (everyY[1] - everyY[0]);
    const view = { x: everyX, y: [everyY[0] - margin, everyY[1] + margin] };
    plot.paint = (pen) => {
      plot.box = [58, 20, plot.width - 70, plot.height - 20 - 40];
      plot.frame(plot.box, view, { logy, xlabel, ylabel });
      for (let k = 1; phases && k < phases.length; k++) if (phases[k] !== phases[k - 1]) {
        pen.strokeStyle = ink("--dim"); pen.setLineDash([3, 3]); pen.beginPath();
        pen.moveTo(plot.x(x[k]), plot.box[1]); pen.lineTo(plot.x(x[k]), plot.box[1] + plot.box[3]); pen.stroke(); pen.setLineDash([]);
        pen.fillStyle = ink("--dim"); pen.textAlign = "left"; pen.textBaseline = "top"; pen.fillText(phases[k], plot.x(x[k]) + 4, plot.box[1] + 2);
      }
      plot.clip(plot.box, () => names.forEach((name, k) => {
        pen.strokeStyle = colour(k); pen.lineWidth = 1.7; pen.setLineDash(series[name].dashed ? [6, 5] : []); pen.beginPath();
        let down = false;
        Array.from(xsOf(name)).forEach((v, i) => {
          const y = value(name, i);
          if (!Number.isFinite(y)) { down = false; return; }
          down ? pen.lineTo(plot.x(v), plot.y(y)) : pen.moveTo(plot.x(v), plot.y(y));
          down = true;
        });
        pen.stroke(); pen.setLineDash([]);
      }));
    };
    plot.canvas.addEventListener("pointermove", (e) => {
      const [px] = pointer(e, plot.canvas), v = view.x[0] + ((px - plot.box[0]) / plot.box[2]) * (view.x[1] - view.x[0]);
      const said = names.map((name) => {
        const own = xsOf(name);
        let best = 0;
        for (let k = 1; k < own.length; k++) if (Math.abs(own[k] - v) < Math.abs(own[best] - v)) best = k;
        return `${name} ${spell(series[name].x ? series[name].y[best] : series[name][best])}`;
      });
      readout.textContent = `${xlabel} ${spell(v)}: ${said.join(", ")}`;
    });
    plot.redraw();
  };

  const drawCurves = (parent, run) => {
    const { step, phase, series } = run.curves;
    if (!step.length) { parent.append(make("p", {}, "No history was kept.")); return; }
    drawLines(parent, step, series, { xlabel: "step", ylabel: "loss, its terms before weighting, and the error", label: "loss curves", logy: true, phases: phase });
  };

  const drawTogether = (parent) => {
    const series = {};
    for (const run of runs) {
      const own = run.curves.series.error || run.curves.series.loss;
      if (own) series[run.name] = { x: run.curves.seconds, y: own };
    }
    const errors = runs.every((run) => run.curves.series.error);
    drawLines(parent, [], series, { xlabel: "seconds", ylabel: errors ? "relative L2 error" : "error or loss", label: "errors against time", logy: true });
  };

  const drawLabels = (parent, run) => {
    if (!run.labels) { parent.append(make("p", {}, "This run has no labels.")); return; }
    const value = unpack(run.labels.value), stderr = unpack(run.labels.stderr), network = unpack(run.labels.network);
    parent.append(make("p", {}, `${value.length} Monte Carlo averages, from small to large, with 95% error bars; dots are the trained network at the same points.`));
    legend(parent, [["labels", LINES[0]], ["network", LINES[1]]]);
    const plot = new Plot(parent, { ratio: 0.4, label: "labels with error bars" }), readout = make("div", { class: "readout" });
    parent.append(readout);
    const ends = [];
    value.forEach((v, k) => ends.push(v - 1.96 * stderr[k], v + 1.96 * stderr[k], network[k]));
    const [low, high] = range(ends), view = { x: [-1, value.length], y: [low - 0.04 * (high - low), high + 0.04 * (high - low)] };
    plot.paint = (pen) => {
      plot.box = [58, 20, plot.width - 70, plot.height - 20 - 40];
      plot.frame(plot.box, view, { xlabel: "label, sorted by value", ylabel: "value" });
      plot.clip(plot.box, () => value.forEach((v, k) => {
        pen.strokeStyle = LINES[0]; pen.lineWidth = 1; pen.beginPath();
        pen.moveTo(plot.x(k), plot.y(v - 1.96 * stderr[k])); pen.lineTo(plot.x(k), plot.y(v + 1.96 * stderr[k])); pen.stroke();
        pen.fillStyle = LINES[1]; pen.beginPath(); pen.arc(plot.x(k), plot.y(network[k]), 1.8, 0, 7); pen.fill();
      }));
    };
    plot.canvas.addEventListener("pointermove", (e) => {
      const [px] = pointer(e, plot.canvas), k = Math.round(view.x[0] + ((px - plot.box[0]) / plot.box[2]) * (view.x[1] - view.x[0]));
      if (k >= 0 && k < value.length) readout.textContent = `label ${spell(value[k])} ± ${spell(1.96 * stderr[k])}, network ${spell(network[k])}`;
    });
    plot.redraw();
  };

  const drawFound = (parent, run) => {
    if (!run.found) return;
    const value = unpack(run.found.value), low = unpack(run.found.low), high = unpack(run.found.high), points = unpack(run.found.points);
    const d = points.length / value.length, sure = Array.from(value, (_, k) => low[k] > 0 || high[k] < 0);
    parent.append(make("p", { class: "dim" }, "Solution minus network at each point, measured by paths. Large dots differ from zero significantly."));
    const bar = make("div", { class: "bar" }), readout = make("div", { class: "readout" }, "Point at a dot to read its value and limits.");
    parent.append(bar);
    const plot = new Plot(parent, { ratio: d > 1 ? 0.72 : 0.45, kind: "map", label: "corrections by paths" });
    parent.append(readout);
    const xs = Array.from(value, (_, k) => points[k * d]), ys = d > 1 ? Array.from(value, (_, k) => points[k * d + 1]) : Array.from(value);
    const magnitudes = Array.from(value, Math.abs).filter((_, k) => sure[k]).sort((a, b) => a - b);
    const reach = magnitudes.length ? magnitudes[Math.floor(0.98 * (magnitudes.length - 1))] || 1 : range(Array.from(value, Math.abs))[1];
    const scale = [-reach, reach], pad = ([a, b]) => [a - 0.03 * (b - a), b + 0.03 * (b - a)], all = { x: pad(range(xs)), y: pad(range(ys)) };
    plot.view = all;
    plot.paint = (pen) => {
      plot.box = d > 1 ? mapBox(plot, all) : [58, 12, plot.width - 160, plot.height - 52];
      plot.frame(plot.box, plot.view, run.found.radial ? { xlabel: "distance from the center" } : {});
      const colours = signed(), size = Math.max(0.55, Math.min(1, plot.width / 700));
      plot.clip(plot.box, () => { for (const pass of [false, true]) value.forEach((v, k) => {
        if (sure[k] !== pass) return;
        const c = colours[Math.max(0, Math.min(255, Math.round((255 * (v - scale[0])) / (scale[1] - scale[0]))))];
        pen.beginPath(); pen.arc(plot.x(xs[k]), plot.y(ys[k]), size * (pass ? 3.4 : 1.7), 0, 7);
        pen.fillStyle = css(c); pen.fill(); pen.strokeStyle = ink("--dim"); pen.lineWidth = 0.4; pen.stroke();
      }); });
      colourbar(plot, scale, colours);
    };
    zoomable(plot, bar, () => all, () => { plot.view = all; plot.redraw(); });
    plot.canvas.addEventListener("pointermove", (e) => {
      const [px, py] = pointer(e, plot.canvas);
      let best = -1, near = 400;
      value.forEach((_, k) => { const r = (plot.x(xs[k]) - px) ** 2 + (plot.y(ys[k]) - py) ** 2; if (r < near) { near = r; best = k; } });
      if (best >= 0) readout.textContent = `(${Array.from(points.slice(best * d, best * d + Math.min(d, 2)), spell).join(", ")}): ${spell(value[best])}, between ${spell(low[best])} and ${spell(high[best])}`;
    });
    plot.redraw();
  };

  // dots of several kinds, some with limits
  const drawDots = (parent, kinds, { xlabel, label }) => {
    legend(parent, kinds.map(({ name, colour }) => [name, colour]));
    const plot = new Plot(parent, { ratio: 0.45, label }), readout = make("div", { class: "readout" });
    parent.append(readout);
    const pad = ([a, b]) => [a - 0.04 * (b - a), b + 0.04 * (b - a)];
    const everyX = pad(range(kinds.flatMap(({ x }) => range(x))));
    const everyY = pad(range(kinds.flatMap(({ y, low, high }) => [...range(y), ...(low ? [...range(low), ...range(high)] : [])])));
    plot.paint = (pen) => {
      plot.box = [58, 20, plot.width - 70, plot.height - 20 - 40];
      plot.frame(plot.box, { x: everyX, y: everyY }, { xlabel });
      plot.clip(plot.box, () => { for (const { colour, radius, x, y, low, high } of kinds) y.forEach((v, k) => {
        pen.fillStyle = pen.strokeStyle = colour; pen.lineWidth = 1;
        if (low) { pen.beginPath(); pen.moveTo(plot.x(x[k]), plot.y(low[k])); pen.lineTo(plot.x(x[k]), plot.y(high[k])); pen.stroke(); }
        pen.beginPath(); pen.arc(plot.x(x[k]), plot.y(v), radius, 0, 7); pen.fill();
      }); });
    };
    plot.canvas.addEventListener("pointermove", (e) => {
      const [px, py] = pointer(e, plot.canvas);
      let near = 400;
      for (const { name, x, y, low, high } of kinds) y.forEach((v, k) => {
        const r = (plot.x(x[k]) - px) ** 2 + (plot.y(v) - py) ** 2;
        if (r < near) { near = r; readout.textContent = `${xlabel} ${spell(x[k])}: ${name} ${spell(v)}${low ? `, between ${spell(low[k])} and ${spell(high[k])}` : ""}`; }
      });
    });
    plot.redraw();
  };

  const drawProfile = (parent, run) => {
    if (!run.profile) return;
    const part = (name) => Object.fromEntries(Object.entries(run.profile[name]).map(([k, v]) => [k, unpack(v)]));
    const series = {};
    for (const [name, words] of [["line_0", "along x₁"], ["line_1", "along (1, …, 1)"]]) {
      const own = part(name);
      series[`network ${words}`] = { x: own.at, y: own.network };
      if (own.exact) series[`reference ${words}`] = { x: own.at, y: own.exact, dashed: true };
    }
    parent.append(make("p", { class: "dim" }, "On two lines through the center of the measure:"));
    drawLines(parent, [], series, { xlabel: "distance from the center, with sign", label: "solution on lines" });
    parent.append(make("p", { class: "dim" }, `At points of the measure, against their distance from its center${run.profile.paths ? "; with error bars: the network, corrected by paths" : ""}:`));
    const cloud = part("cloud"), kinds = [];
    if (cloud.exact) kinds.push({ name: "reference", colour: ink("--dim"), radius: 3.2, x: cloud.at, y: cloud.exact });
    if (run.profile.paths) { const own = part("paths"); kinds.push({ name: "corrected by paths", colour: LINES[1], radius: 1.6, x: own.at, y: own.value, low: own.low, high: own.high }); }
    kinds.push({ name: "network", colour: LINES[0], radius: 1.6, x: cloud.at, y: cloud.network });
    drawDots(parent, kinds, { xlabel: "distance from the center", label: "solution by distance" });
  };

  const widgets = { field: drawField, profile: drawProfile, curves: drawCurves, labels: drawLabels, found: drawFound, together: drawTogether };
  for (const node of document.querySelectorAll("[data-widget]")) widgets[node.dataset.widget](node, runs[Number(node.dataset.run || 0)]);
})();
