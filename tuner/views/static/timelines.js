// Draw the charts that tuner/views/chart.py describes, with uPlot: values under the cursor, zoom by dragging (a double
// click shows all again), cursors and zoom shared by the charts of one group. Without this script their tables remain.
// A page whose root says data-times="local" shows the reader's own time, with UTC beside it under the cursor.
"use strict";
(function () {
  const MINUTE = 60, HOUR = 3600, DAY = 86400, NONE = "-", STRIP = 7, NEAR = 8; // STRIP, NEAR: pixels
  const SPANS = [1, 5, 15, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY,
    2 * DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 60 * DAY, 91 * DAY, 182 * DAY, 365 * DAY];
  const COUNTS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const formatNumber = (value) => value == null ? NONE : digits.format(value);
  const formatTick = (value) => value == null ? "" : Math.abs(value) >= 1e5 ? compact.format(value) : digits.format(value);
  const local = document.documentElement.dataset.times === "local";
  const offset = (seconds) => local ? -60 * new Date(1000 * seconds).getTimezoneOffset() : 0; // seconds ahead of UTC
  const toIso = (seconds) => new Date(1000 * (seconds + offset(seconds))).toISOString(); // of the shown time
  const formatUtc = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");
  const formatMoment = (seconds) => offset(seconds) === 0 ? `${formatUtc(seconds)} UTC`
    : `${toIso(seconds).slice(0, 16).replace("T", " ")} (${formatUtc(seconds).slice(11)} UTC)`;
  const formatSpan = (seconds, step) => {
    const [unit, size] = step >= DAY ? ["d", DAY] : step >= HOUR ? ["h", HOUR] : step >= MINUTE ? ["min", MINUTE] : ["s", 1];
    return `${digits.format(seconds / size)} ${unit}`;
  };
  const formatDate = (seconds, step) => {
    const iso = toIso(seconds), moment = new Date(iso), named = (options) => moment.toLocaleDateString("en-GB", { timeZone: "UTC", ...options });
    if (step < DAY && iso.slice(11, 16) !== "00:00") return iso.slice(11, 16);
    return named(step < 30 * DAY ? { day: "numeric", month: "short" } : { month: "short", year: "numeric" });
  };
  const splitTimes = (u, axis, low, high, step) => { // whole steps of the shown time
    const ahead = offset(low), found = [];
    for (let at = Math.ceil((low + ahead) / step) * step - ahead; at <= high; at += step) found.push(at);
    return found;
  };

  function expand(chart) { // the columns that uPlot draws, and the bands between them
    const x = Array.isArray(chart.x) ? chart.x : Array.from({ length: chart.x.count }, (_, i) => chart.x.first + i * chart.x.step);
    const columns = [x], lines = [], bands = [], below = {};
    const add = (series, values, extra) => { columns.push(values); return lines.push({ ...series, ...extra }); };
    chart.series.forEach((series) => {
      const raw = series.values.length === x.length ? series.values : x.map(() => series.values[0]);
      let values = raw;
      if (series.stack && series.stack in below) {
        const base = below[series.stack];
        values = raw.map((value, i) => value == null ? null : value + (columns[base][i] ?? 0));
      }
      const place = add(series, values, { raw });
      if (series.stack) {
        if (series.look === "area" && series.stack in below) bands.push({ series: [place, below[series.stack]], tint: series.colour });
        below[series.stack] = place;
      }
      if (series.look === "band") bands.push({ series: [place, add(series, series.low, { look: "edge", raw: series.low })], tint: series.colour });
    });
    return { columns, lines, bands };
  }

  function mark(look, size) { // what uPlot draws at every point
    return (u, seriesIdx, first, last) => {
      const path = new Path2D(), pixels = size * uPlot.pxRatio, series = u.series[seriesIdx], values = u.data[seriesIdx];
      for (let i = first; i <= last; i++) {
        if (values[i] == null) continue;
        const x = u.valToPos(u.data[0][i], "x", true), y = u.valToPos(values[i], series.scale, true);
        if (look === "square") path.rect(x - pixels / 2, y - pixels / 2, pixels, pixels);
        else if (look === "tick") path.rect(x - pixels / 8, y - pixels, pixels / 4, 2 * pixels);
        else { path.moveTo(x + pixels / 2, y); path.arc(x, y, pixels / 2, 0, 2 * Math.PI); }
      }
      return { fill: path, stroke: path };
    };
  }

  function alone(paint) { // a dot where a line has nothing on either side to be drawn to
    const filter = (u, i) => {
      const values = u.data[i], found = [];
      for (let at = 0; at < values.length; at++) if (values[at] != null && values[at - 1] == null && values[at + 1] == null) found.push(at);
      return found;
    };
    return { show: true, size: 4, width: 0, fill: paint, filter };
  }

  function style(line, tint, grouped) { // a series as uPlot has it
    const paint = tint(line.colour), soft = `${paint}48`, dots = ["dot", "square", "tick"].includes(line.look);
    const shown = { label: line.label, stroke: paint, scale: line.right ? "right" : "left", points: alone(paint),
      width: line.width ?? 1.5, value: (u, value, i, at) => at == null ? NONE
        : line.look === "band" && line.raw[at] != null ? `${formatNumber(line.low[at])} to ${formatNumber(line.raw[at])}` : formatNumber(line.raw[at]) };
    if (line.dashed) shown.dash = [6, 4];
    if (line.look === "steps" || line.look === "area") shown.paths = uPlot.paths.stepped({ align: 1 });
    if (line.look === "area" || line.look === "band") Object.assign(shown, { fill: line.look === "area" ? soft : undefined, width: line.look === "area" ? 1 : 0 });
    if (line.look === "band" || line.look === "area") shown.legendFill = soft;
    if (line.look === "edge") Object.assign(shown, { width: 0, class: "edge" });
    if (line.look === "edge" || line.look === "strip") shown.points = { show: false };
    if (line.look === "strip") Object.assign(shown, { scale: "strip", paths: () => null, legendFill: paint });
    if (dots) Object.assign(shown, { paths: () => null, width: 0, legendFill: paint,
      points: { show: true, size: line.width, width: 0, fill: line.width < 8 ? `${paint}b0` : paint, paths: mark(line.look, line.width) } });
    if (line.look === "steps") shown.spanGaps = !grouped; // a gap of a time line is something to see
    return shown;
  }

  const isDecade = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
  const limitsOf = (axis) => axis.high == null ? null : [axis.low ?? 0, axis.high];

  function rangeOf(axis) {
    const limits = limitsOf(axis);
    if (limits) return () => limits;
    if (axis.logarithmic) return (u, low, high) => low == null ? [0.1, 1] : uPlot.rangeLog(low, high, 10, false);
    return (u, low, high) => [Math.min(0, low ?? 0), high > 0 ? 1.06 * high : 1];
  }

  function drawStrips(lines, tint) { // where values are beyond any scale
    return (u) => lines.forEach((line, i) => {
      if (line.look !== "strip" || !u.series[i + 1].show) return;
      const x = u.data[0], { left, top, width } = u.bbox;
      u.ctx.save();
      u.ctx.fillStyle = tint(line.colour);
      line.raw.forEach((value, at) => {
        if (!value) return;
        const half = x.length > 1 ? ((x[at + 1] ?? 2 * x[at] - x[at - 1]) - x[at]) / 2 : 0;
        const from = Math.max(left, u.valToPos(x[at] - half, "x", true)), to = Math.min(left + width, u.valToPos(x[at] + half, "x", true));
        if (to >= from) u.ctx.fillRect(from, top, Math.max(1, to - from), STRIP * uPlot.pxRatio);
      });
      u.ctx.restore();
    });
  }

  function drawUprights(uprights, tint) {
    return (u) => uprights.forEach(([x]) => {
      const at = u.valToPos(x, "x", true), { top, height } = u.bbox;
      u.ctx.save();
      u.ctx.strokeStyle = tint("alarm");
      u.ctx.lineWidth = 1.5 * uPlot.pxRatio;
      u.ctx.setLineDash([6 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
      u.ctx.beginPath(); u.ctx.moveTo(at, top); u.ctx.lineTo(at, top + height); u.ctx.stroke();
      u.ctx.restore();
    });
  }

  function drawMarks(marks, tint) { // what was done, in words above as far as there is room
    return (u) => {
      let free = u.bbox.left;
      marks.forEach((mark) => {
        const at = u.valToPos(mark.at, "x", true), { left, top, width, height } = u.bbox, ratio = uPlot.pxRatio;
        if (at < left || at > left + width) return;
        u.ctx.save();
        u.ctx.strokeStyle = u.ctx.fillStyle = tint(mark.colour);
        u.ctx.lineWidth = 1.5 * ratio;
        u.ctx.setLineDash([2 * ratio, 3 * ratio]);
        u.ctx.beginPath(); u.ctx.moveTo(at, top); u.ctx.lineTo(at, top + height); u.ctx.stroke();
        u.ctx.font = `${11 * ratio}px system-ui, sans-serif`;
        u.ctx.textAlign = "left"; u.ctx.textBaseline = "bottom";
        const long = u.ctx.measureText(mark.label).width, from = at + long > left + width ? at - long : at;
        if (from >= free) { u.ctx.fillText(mark.label, from, top - 2 * ratio); free = from + long + 8 * ratio; }
        u.ctx.restore();
      });
    };
  }

  function axisOf(axis, side, tint, extra) {
    const lines = { stroke: tint("rule"), width: 1 };
    if (axis.logarithmic) lines.filter = (u, splits) => splits.map((split) => isDecade(split) ? split : null);
    return { side, stroke: tint("faint"), font: "12px system-ui, sans-serif", grid: lines, ticks: { show: false },
      values: (u, splits) => splits.map(formatTick), gap: 6, ...(axis.whole ? { incrs: COUNTS, space: 24 } : {}), ...extra };
  }

  function horizontal(chart, tint) {
    const kind = chart.across.kind, values = kind === "utc" ? formatDate : formatSpan;
    const stepped = { incrs: SPANS, space: 70, ...(kind === "utc" ? { splits: splitTimes } : {}), values: (u, splits, i, space, step) => splits.map((split) => values(split, step)) };
    return axisOf(chart.across, 2, tint, { size: 28, space: chart.legend ? 60 : 40, ...(kind ? stepped : {}) });
  }

  function options(chart, lines, bands, width) {
    const styles = getComputedStyle(document.documentElement), tint = (name) => styles.getPropertyValue(`--${name}`).trim();
    const kind = chart.across.kind, across = limitsOf(chart.across), vertical = { left: chart.left, right: chart.right ?? chart.left };
    const place = (value) => kind === "utc" ? formatMoment(value) : kind ? formatSpan(value, value < HOUR ? MINUTE : value < 2 * DAY ? HOUR : DAY) : formatNumber(value);
    const near = (u) => (chart.marks ?? []).filter((mark) => Math.abs(u.valToPos(mark.at, "x") - u.cursor.left) <= NEAR).map((mark) => `; ${mark.message || mark.label}`).join("");
    const scales = { x: { time: false, distr: chart.across.logarithmic ? 3 : 1, ...(across ? { range: (u, low, high) => u.zoomed ? [low, high] : across } : {}) }, strip: { range: () => [0, 1] } };
    for (const [name, axis] of Object.entries(vertical)) scales[name] = { distr: axis.logarithmic ? 3 : 1, range: rangeOf(axis) };
    const axes = [horizontal(chart, tint), axisOf(chart.left, 3, tint, { scale: "left", size: 48 })];
    if (chart.right) axes.push(axisOf(chart.right, 1, tint, { scale: "right", size: 48, grid: { show: false } }));
    return {
      width, height: chart.height, scales, axes, padding: [chart.marks ? 18 : 8, chart.right ? 0 : chart.group ? 48 : 12, 0, 0],
      series: [{ label: chart.across.label || "at", value: (u, value, i, at) => at == null ? NONE : `${place(value)}${near(u)}` },
        ...lines.map((line) => style(line, tint, Boolean(chart.group)))],
      bands: bands.map((band) => ({ series: band.series, fill: `${tint(band.tint)}48` })),
      legend: { show: Boolean(chart.legend), markers: { fill: (u, i) => u.series[i].legendFill ?? null,
        dash: (u, i) => u.series[i].dash ? "dashed" : "solid" } },
      cursor: { sync: chart.group ? { key: chart.group, scales: ["x", null] } : undefined, points: { size: 6 }, y: false,
        drag: { x: true, y: false }, focus: { prox: -1 } },
      hooks: { draw: [drawStrips(lines, tint), drawUprights(chart.uprights ?? [], tint), drawMarks(chart.marks ?? [], tint)],
        setCursor: [(u) => { u.root.classList.toggle("pointed", u.cursor.idx != null && u.cursor.left >= 0); }],
        setSelect: [(u) => { u.zoomed = u.select.width > 0; }] },
    };
  }

  function drawFigure(figure) {
    const chart = JSON.parse(figure.dataset.chart), place = figure.querySelector(".canvas"), { columns, lines, bands } = expand(chart);
    let drawn = null;
    const draw = () => {
      if (drawn) drawn.destroy();
      drawn = new uPlot(options(chart, lines, bands, place.clientWidth), columns, place);
      figure.classList.add("drawn");
    };
    // what is folded away has no width yet, and is drawn when it is shown
    new ResizeObserver(() => {
      if (!place.clientWidth) return;
      if (drawn) drawn.setSize({ width: place.clientWidth, height: chart.height }); else draw();
    }).observe(place);
    dark.addEventListener("change", () => { if (drawn) draw(); });
  }

  const drawAll = () => document.querySelectorAll("figure.chart").forEach(drawFigure);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", drawAll); else drawAll();
})();
