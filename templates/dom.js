// Elements: finding them and making them.

export const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// An element with properties (also data-*, aria-* and classes) and children; strings become text, never markup.
export function make(tag, properties = {}, ...children) {
  const element = document.createElementNS(tag.startsWith("svg:") ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag.replace("svg:", ""));
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

export const element = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
