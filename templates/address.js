// @ts-check
// The address of a page says all that a reader chose there, so that what is seen can be sent, and a reload keeps it. It
// stands before the #, which leads to a place of the page; what is as it was at first is left out.

const wanted = new URLSearchParams(location.search);
let waiting = 0;

/**
 * What the address says under a name.
 * @param {string} name
 */
export const given = name => wanted.get(name);
/** @param {string} name */
export const givenAll = name => wanted.getAll(name);
/** All names that begin so, with what follows and their values. @param {string} prefix @returns {[string, string][]} */
export const givenUnder = prefix => [...wanted].flatMap(([name, value]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : []));

/**
 * Writes a choice into the address; null and an empty list take it out.
 * @param {string} name
 * @param {string | number | null | Iterable<string>} value
 */
export function keep(name, value) {
  wanted.delete(name);
  if (typeof value === "object" && value !== null) for (const one of value) wanted.append(name, one);
  else if (value !== null) wanted.set(name, String(value));
  waiting ||= window.setTimeout(write, 150);  // browsers count how often an address is changed
}

function write() {
  clearTimeout(waiting);
  waiting = 0;
  const query = wanted.toString();
  try { history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${location.hash}`); } catch { /* a page within a page has no address */ }
}
addEventListener("pagehide", () => { if (waiting) write(); });
