// @ts-check
// The SQL under a chart, narrowed to the rows that the chart shows.

/**
 * @typedef {string | number | null} Literal
 * @typedef {Record<string, Literal | Literal[] | undefined>} Choice column: its value or values; what is undefined is left open
 */

/** @param {Literal} value */
const literal = value => (value === null ? "NULL" : typeof value === "number" ? String(value) : `'${value.replaceAll("'", "''")}'`);

/**
 * @param {string} column
 * @param {Literal | Literal[]} value
 */
const condition = (column, value) => (Array.isArray(value) ? `${column} IN (${value.map(literal).join(", ")})` : `${column} ${value === null ? "IS" : "="} ${literal(value)}`);

/**
 * A query with the rows of some choices alone: what all choices ask stands once, what they differ in is joined by OR.
 * @param {string} query it has the condition WHERE study = '…'
 * @param {Choice[]} choices
 */
export function narrowed(query, choices) {
  const sets = choices.map(choice => Object.entries(choice).flatMap(([column, value]) => (value === undefined ? [] : [condition(column, value)])));
  const common = sets.length ? sets[0].filter(one => sets.every(set => set.includes(one))) : [];
  const rest = [...new Set(sets.map(set => set.filter(one => !common.includes(one)).join(" AND ")))].filter(Boolean);
  const either = rest.length > 1 ? [`(${rest.map(one => `(${one})`).join("\n    OR ")})`] : rest;
  const added = [...common, ...either].map(one => `\n  AND ${one}`).join("");
  return query.replace(/WHERE study = '[^']*'/, found => found + added);
}
