// @ts-check
// Numbers as text.

/**
 * A number with three significant digits, as the pages' own filter writes it.
 * @param {number | null | undefined} value
 */
export function short(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text = size === 0 ? "0" : size >= 99.5 ? Math.round(size).toLocaleString("en") : size < 1e-4 ? size.toExponential(digits - 1) : String(Number(size.toPrecision(digits)));
  return value < 0 ? `−${text}` : text;
}
/** @param {number | null | undefined} value */
export const whole = value => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
/**
 * A number with four significant digits, as the pages to choose on write it; what is no number is written as it is.
 * @param {any} value
 */
export const number = value => (typeof value !== "number" || Number.isInteger(value) || Math.abs(value) < 1e-3 || Math.abs(value) >= 9999 ? short(value, 4) : value.toPrecision(4).replace("-", "−"));
