// Elements: finding them and making them.

// All elements that a selector finds; the type follows from its beginning: "input[name=view]" finds HTMLInputElement.
/** @type {<S extends string>(selector: S, within?: ParentNode) => Found<S>[]} */
export const all = (selector, within = document) => /** @type {any} */ ([...within.querySelectorAll(selector)]);

// The first element that a selector finds; it is an error if there is none.
/** @type {<S extends string>(selector: S, within?: ParentNode) => Found<S>} */
export const find = (selector, within = document) => {
  const found = within.querySelector(selector);
  if (!found) throw new Error(`The page has no ${selector}.`);
  return /** @type {any} */ (found);
};
// An element of HTML, or of SVG after "svg:", with properties (also data-*, aria-* and classes) and children. on… listens,
// "text" is its text. Strings become text, never markup; null, undefined and false are left out.
/** @type {<T extends string>(tag: T, properties?: Record<string, any>, ...children: any[]) => Made<T>} */
export const make = (tag, properties = {}, ...children) => {
  const made = document.createElementNS(tag.startsWith("svg:") ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag.replace("svg:", ""));
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return /** @type {any} */ (made);
};
