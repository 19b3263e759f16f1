// Vega-Lite charts: one way to draw them for all pages. The bundle stands beside this script as window.vegaEmbed; THEMES
// comes from the Python side (reporter.report.charts.theme).

import { drawTheme } from "./page.js";

const mounted = new WeakMap();

// Draws a spec in an element, or gives the chart that is already there other rows and signals; returns its Vega view.
// The spec itself stays as it is: its dataset "rows" is filled here, and in the dark theme each colour in `dark` is
// replaced. A chart is drawn afresh when its spec, its height or the theme is another one.
//   label: what the chart is called for those who do not see it
//   signals: values of the spec's params, by name; those that the spec does not have are left out
//   press: called with the datum and the mark's type, when a mark is pressed
export async function mountChart(element, spec, rows, { label, file, signals = {}, dark = {}, height, renderer = "svg", press }) {
  const theme = drawTheme();
  const names = (spec.params ?? []).map(param => param.name).filter(name => signals[name] !== undefined);
  const old = mounted.get(element);
  if (old && old.spec === spec && old.theme === theme && old.height === height) {
    old.press = press;
    for (const name of names) old.view.signal(name, signals[name]);
    await old.view.data("rows", rows).runAsync();
    labelChart(element, label);
    return old.view;
  }
  const swap = theme === "dark" ? dark : {};
  const own = JSON.parse(JSON.stringify(spec), (_, value) => (typeof value === "string" && Object.hasOwn(swap, value) ? swap[value] : value));
  own.description = label;
  own.datasets = { ...own.datasets, rows };
  if (height) own.height = height;
  for (const param of own.params ?? []) if (names.includes(param.name)) param.value = signals[param.name];
  unmountChart(element);
  const { view } = await window.vegaEmbed(element, own, {
    mode: "vega-lite",
    renderer,
    config: THEMES[theme],
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    downloadFileName: file,
    tooltip: { theme },
    logLevel: 1,
  });
  const chart = { view, spec, theme, height, press };
  mounted.set(element, chart);
  element.querySelector("summary")?.setAttribute("aria-label", "Save this chart as a picture");
  view.addEventListener("click", (_, item) => { if (item?.datum) chart.press?.(item.datum, item.mark?.marktype); });
  return view;
}

export function labelChart(element, label) {
  element.querySelector("[role=graphics-document]")?.setAttribute("aria-label", label);
}

// Ends a chart; what it drew stays until something else takes its place.
export function unmountChart(element) {
  mounted.get(element)?.view.finalize();
  mounted.delete(element);
}
