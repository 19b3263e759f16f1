// Frames as the Python side packs them (reporter.charts.columns), back into columns of values.

export function unpack(column) {
  if (column.plain) return column.plain;
  if (column.codes) return column.codes.map(code => column.levels[code]);
  const values = [];
  for (let i = 0; i < column.runs.length; i += 2) {
    for (let k = 0; k < column.runs[i + 1]; k++) values.push(column.levels[column.runs[i]]);
  }
  return values;
}

// A packed frame as columns: {rows, model: […], …}.
export const columnsOf = packed => packed && { rows: packed.rows, ...Object.fromEntries(Object.entries(packed.columns).map(([name, column]) => [name, unpack(column)])) };

// Parts are scripts of their own, which call reporterPart: a page opened as a file may load nothing else.
const parts = new Map();
const awaited = new Map();
window.reporterPart = (name, value) => awaited.get(name)?.(value);
export function part(name) {
  if (!parts.has(name)) {
    parts.set(name, new Promise((resolve, reject) => {
      awaited.set(name, resolve);
      const script = Object.assign(document.createElement("script"), { src: `data/${name}.js` });
      script.addEventListener("error", () => { parts.delete(name); reject(new Error(`data/${name}.js is not beside this page.`)); });
      script.addEventListener("load", () => script.remove());
      document.head.append(script);
    }));
  }
  return parts.get(name);
}
