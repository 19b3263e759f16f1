// @ts-check
// Numbers as text.

/**
 * As powers of ten are printed.
 * @param {number} size
 * @param {number} digits
 */
function powered(size, digits) {
  const [front, power] = size.toExponential(digits - 1).split("e");
  return `${Number(front)} × 10${[...power].map(sign => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;
}
/**
 * A number with three significant digits, as the pages' own filter writes it.
 * @param {number | null | undefined} value
 */
export function short(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  while (size < 1 && Number(size.toPrecision(digits)) >= 1 && digits < 5) digits += 1; // 0.9996 is not 1
  const text = size === 0 ? "0" : size >= 99.5 ? Math.round(size).toLocaleString("en") : size < 1e-4 ? powered(size, digits) : String(Number(size.toPrecision(digits)));
  return value < 0 ? `−${text}` : text;
}
/** @param {number | null | undefined} value */
export const whole = value => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
/**
 * A number with four significant digits, as the pages to choose on write it; what is no number is written as it is.
 * @param {any} value
 */
export const number = value => (typeof value !== "number" || Number.isInteger(value) || Math.abs(value) < 1e-3 || Math.abs(value) >= 999.95 ? short(value, 4) : value.toPrecision(4).replace("-", "−"));
