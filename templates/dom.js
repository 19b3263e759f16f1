// @ts-check
// Elements: finding them and making them.

/**
 * The element that a selector begins with: "input[name=view]" finds HTMLInputElement.
 * @template {string} S
 * @typedef {S extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[S] : S extends `${infer T}[${string}` ? Found<T> : S extends `${infer T}.${string}` ? Found<T> : HTMLElement} Found
 */
/**
 * @template {string} S
 * @param {S} selector
 * @param {ParentNode} within
 * @returns {Found<S>[]}
 */
export const all = (selector, within = document) => /** @type {any} */ ([...within.querySelectorAll(selector)]);

/**
 * The first element that a selector finds; it is an error if there is none.
 * @template {string} S
 * @param {S} selector
 * @param {ParentNode} within
 * @returns {Found<S>}
 */
export function find(selector, within = document) {
  const found = within.querySelector(selector);
  if (!found) throw new Error(`The page has no ${selector}.`);
  return /** @type {any} */ (found);
}

/**
 * @template {string} T
 * @typedef {T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : T extends `svg:${infer S}` ? S extends keyof SVGElementTagNameMap ? SVGElementTagNameMap[S] : SVGElement : HTMLElement} Made
 */
/**
 * An element with properties (also data-*, aria-* and classes) and children; strings become text, never markup.
 * @template {string} T
 * @param {T} tag an element of HTML, or of SVG after "svg:"
 * @param {Record<string, any>} properties on… listens, "text" is its text; null, undefined and false are left out
 * @param {any[]} children elements, strings, and lists of them; null, undefined and false are left out
 * @returns {Made<T>}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElementNS(tag.startsWith("svg:") ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag.replace("svg:", ""));
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return /** @type {any} */ (element);
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} className
 * @param {string} text
 */
export const element = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
