// Numbers for people, by the rules of reporter.core.numbers; both are tested with tests/core/typesetting.json.

const MOST_DECIMALS = 5, MOST_DIGITS = 4;
const isNull = value => typeof value !== "number" || Number.isNaN(value);

// As powers of ten are printed.
function powered(size, digits) {
  const [front, power] = size.toExponential(digits - 1).split("e");
  return `${Number(front)} × 10${[...power].map(sign => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;
}
// A number with three significant digits; less than 1 is never written as 1.
export function short(value, digits = 3) {
  if (isNull(value)) return "–";
  const size = Math.abs(value);
  while (size < 1 && Number(size.toPrecision(digits)) >= 1 && digits < MOST_DIGITS + 1) digits += 1;
  const text = size === Infinity ? "∞" : size === 0 ? "0" : size >= 99.5 ? Math.round(size).toLocaleString("en") : size < 1e-4 ? powered(size, digits) : String(Number(size.toPrecision(digits)));
  return value < 0 ? `−${text}` : text;
}
export const whole = value => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

function fixed(value, decimals) {
  const places = Math.max(decimals, 0), rounded = Number(value.toFixed(places)) || 0;  // never −0
  return rounded.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }).replace("-", "−");
}
// How many decimals of a number its interval leaves certain; null without an interval.
function decimalsOf(value, low, high) {
  if ([value, low, high].some(isNull) || !(high > low)) return null;
  let decimals = Math.max(Math.ceil(-Math.log10(high - low)), 1 - Math.floor(Math.log10(Math.max(...[value, low, high].map(Math.abs)))));
  for (let i = 0; i < 2; i++) decimals += Number([low, high].some(end => end !== 0 && Number(end.toFixed(Math.max(decimals, 0))) === 0));
  return decimals;
}
// A number with its interval, `0.27 [0.26, 0.28]`: as many decimals as the interval leaves certain, or as others have.
/** @type {(value: any, low?: any, high?: any, decimals?: number | null) => string} */
export function estimate(value, low = null, high = null, decimals = null) {
  const own = decimalsOf(value, low, high), known = own === null || Math.abs(value) >= 999.5 ? own : decimals ?? own;  // no decimals of thousands for a small one
  if (known !== null && known <= MOST_DECIMALS) return `${fixed(value, known)} [${fixed(low, known)}, ${fixed(high, known)}]`;
  if (decimals === null || isNull(value) || decimals > MOST_DECIMALS) return known === null ? short(value) : `${short(value)} [${short(low)}, ${short(high)}]`;
  return fixed(value, decimals);
}
const mostCertain = numbers => {
  const known = numbers.map(number => decimalsOf(...number)).filter(decimals => decimals !== null);
  return known.length ? Math.max(...known) : null;
};
// Numbers that readers compare, each with the ends of its interval, with the decimals of the most certain one.
export const estimates = numbers => numbers.map(([value, low, high]) => estimate(value, low, high, mostCertain(numbers)));
// The decimals of two numbers without intervals: those of the finer one, four digits of the larger at most.
function decimalsTogether(a, b) {
  const size = Math.max(Math.abs(a), Math.abs(b));
  if (isNull(a) || isNull(b) || !(size >= 1e-4)) return null;
  const decimals = Math.max(...[a, b].map(number => (short(number).split(".")[1] ?? "").length));
  return Math.min(decimals, Math.max(0, 3 - Math.floor(Math.log10(size))));
}
// Two numbers and the first minus the second, which is the difference of the numbers as they are written. They get one
// decimal more where that difference would else not be the measured one, rounded.
export function compared(a, b, difference) {
  const fewest = mostCertain([a, b, difference]) ?? decimalsTogether(a[0], b[0]);
  if (fewest === null || fewest > MOST_DECIMALS || [a, b, difference].some(number => isNull(number[0]))) return [a, b, difference].map(([value, low, high]) => estimate(value, low, high));
  const rounded = (value, decimals) => Number(value.toFixed(Math.max(decimals, 0)));
  const shown = decimals => rounded(a[0], decimals) - rounded(b[0], decimals);
  const enough = decimals => decimals <= MOST_DECIMALS && fixed(shown(decimals), decimals) === fixed(difference[0], decimals);
  const decimals = [fewest, fewest + 1].find(enough) ?? fewest;
  return [[...a], [...b], [shown(decimals), ...difference.slice(1)]].map(([value, low, high]) => estimate(value, low, high, decimals));
}
// Numbers of a column without intervals with as many decimals each: significant digits of the largest, none beside
// hundreds. A number that would read as 0 or, beside hundreds, as 1, has its own digits.
export function inOnePrecision(values, digits = 3) {
  const numbers = values.filter(value => !isNull(value)), largest = Math.max(...numbers.map(Math.abs)), wide = largest >= 99.5;
  if (!(largest >= 1e-4) || numbers.every(Number.isInteger)) return values.map(value => short(value, digits));
  let decimals = wide ? 0 : digits - 1 - Math.floor(Math.log10(largest)) + Number(largest === 1);
  const rises = value => Math.abs(value) < 1 && Number(Math.abs(value).toFixed(decimals)) >= 1;
  while (!wide && decimals < MOST_DECIMALS && numbers.some(rises)) decimals += 1;
  decimals = Math.min(decimals, MOST_DECIMALS);
  const own = value => isNull(value) || value !== 0 && (wide ? Math.abs(value) < 1 : Number(value.toFixed(decimals)) === 0);
  return values.map(value => (own(value) ? short(value, digits) : fixed(value, decimals)));
}
// A column of values with the ends of their intervals.
export const column = numbers => (mostCertain(numbers) === null ? inOnePrecision(numbers.map(([value]) => value)) : estimates(numbers));
