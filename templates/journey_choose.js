// @ts-check
// Journeys: the controls.

import { find, make } from "./dom.js";
import { explorer } from "./explorer.js";
import { placeName } from "./journey.js";
import { short, whole } from "./numbers.js";
import { plain, tokenNode } from "./tokens.js";

/**
 * A row of buttons of which one is pressed, as radio buttons that the arrow keys reach.
 * @param {string} name
 * @param {string} label
 * @param {Record<string, string>} choices what each button says, by its value
 * @param {string} chosenNow
 * @param {(value: string) => void} act
 * @param {Record<string, string>} about a title for some of them
 */
function segmented(name, label, choices, chosenNow, act, about = {}) {
  return make("fieldset", { class: "choice" },
    make("legend", { text: label }),
    make("div", { class: "segments" }, Object.entries(choices).map(([value, text]) => {
      const radio = make("input", { type: "radio", name, value, "data-key": `${name}.${value}`, onchange: () => act(value) });
      radio.checked = value === chosenNow;
      return make("label", { title: about[value] }, radio, make("span", { text }));
    })));
}

// A model's line and mark, as in the legend of the study's page.
/** @type {Record<string, string>} */
const SHAPE = { circle: "M16 3a4 4 0 1 1 0 8 4 4 0 1 1 0-8z", square: "M12.4 3.4h7.2v7.2h-7.2z", cross: "M14.4 2.6h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8v-3.2h2.8z", diamond: "M16 1.8l4 5.2-4 5.2-4-5.2z", "triangle-up": "M16 2.4l4.8 8.4h-9.6z", "triangle-down": "M16 11.6l4.8-8.4h-9.6z" };
/** @param {import("./journey.js").Style} style */
export const swatch = style => make("svg:svg", { class: "swatch", viewBox: "0 0 32 14", width: 32, height: 14, "aria-hidden": "true", style: `--light:${style.light};--dark:${style.dark}` },
  make("svg:line", { x1: 1, y1: 7, x2: 31, y2: 7, "stroke-width": 2, "stroke-dasharray": style.dash.length ? style.dash.join(" ") : undefined }),
  style.baseline ? null : make("svg:path", { d: SHAPE[style.shape] ?? SHAPE["triangle-up"] }));

/**
 * @param {HTMLElement} bar
 * @param {import("./journey.js").App} app
 * @param {{ swap: () => void, attention: boolean, positions: string[] }} offered
 */
export function showBar(bar, app, { swap, attention, positions }) {
  const { shared, sides } = app;
  const { layer } = sides.a;
  const places = sides.a.data.placesOf(shared.site);
  const now = places.findIndex(place => place.key === layer);
  const step = by => () => app.choose({ layer: places[Math.max(0, Math.min(places.length - 1, now + by))].key }, "a", by < 0 ? "layer.down" : "layer.up");
  const slider = make("input", { type: "range", id: "layer", min: 0, max: places.length - 1, step: 1, "data-key": "layer", "aria-valuetext": placeName(layer), autocomplete: "off", oninput: event => app.choose({ layer: places[event.target.value].key }, "a", "layer") });
  slider.value = String(now);
  bar.replaceChildren(
    attention ? segmented("site", "Site", { path: "residual stream", attention: "after attention" }, shared.site, site => app.choose({ site }), { path: "What enters the first block, and what each block returns", attention: "The residual stream after each block's attention, before its feed-forward" }) : "",
    segmented("measure", "Nearest by", { cosine: "cosine", distance: "distance" }, shared.measure, measure => app.choose({ measure })),
    positions.length > 1 ? segmented("positions", "Vocabulary vectors", { without: "as they are", with: "with position" }, shared.positions, value => app.choose({ positions: value }), { with: "The position vector of the token's own position is added to each" }) : "",
    make("div", { class: "choice layer" },
      make("label", { for: "layer", text: "Layer " }), make("output", { for: "layer", text: layer === "0" ? "0, the embedding" : layer === "final" ? "after the closing norm" : `${layer} of ${places[places.length - 1].layer}` }),
      make("div", { class: "slide" },
        make("button", { type: "button", "data-key": "layer.down", "aria-label": "One layer back", text: "◀", onclick: step(-1) }),
        slider,
        make("button", { type: "button", "data-key": "layer.up", "aria-label": "One layer on", text: "▶", onclick: step(1) }))),
    make("button", { type: "button", class: "compare", "data-key": "compare", "aria-pressed": String(app.comparing), text: app.comparing ? "Stop comparing" : "Compare", onclick: swap }),
  );
}

/**
 * Selects of journey and checkpoint, the models, the tokens of the texts, and a sentence.
 * @param {HTMLElement} slot
 * @param {import("./journey.js").Side} side
 * @param {import("./journey.js").App} app
 * @param {import("./journey.js").SideName} name
 */
export function showChoose(slot, side, app, name) {
  const { data } = side;
  const key = what => `${name}.${what}`;
  const entries = explorer.entries.filter(entry => entry.journey === side.journey);
  const models = [...new Set(entries.map(entry => entry.model))];
  const checkpoints = entries.filter(entry => entry.model === side.model);
  const select = (what, label, choices, now) => {
    const own = make("select", { "data-key": key(what), autocomplete: "off", onchange: event => app.choose({ [what]: event.target.value }, name) }, choices.map(one => make("option", { value: one, text: one })));
    own.value = now;
    return make("label", { class: "pick" }, `${label} `, own);
  };
  const chips = make("div", { class: "chips", role: "radiogroup", "aria-label": "Model" }, models.map(model => {
    const radio = make("input", { type: "radio", name: key("model"), value: model, "data-key": key(`model.${model}`), onchange: () => app.choose({ model, checkpoint: undefined }, name) });
    radio.checked = model === side.model;
    return make("label", { class: "chip", title: model }, radio, make("span", {}, swatch(app.styleOf(model)), make("b", { text: model })));
  }));
  const tokens = [...data.texts.keys()].flatMap(text => data.tokens(text));
  const go = by => {
    const next = tokens[Math.max(0, Math.min(tokens.length - 1, tokens.indexOf(side.token) + by))];
    app.choose({ token: next }, name, key(`token.${next.text}.${next.position}`));
  };
  const keys = event => {
    const places = data.placesOf(app.shared.site);
    const layer = by => app.choose({ layer: (places[places.findIndex(place => place.key === side.layer) + by] ?? { key: side.layer }).key }, name);
    const acts = { ArrowRight: () => go(1), ArrowLeft: () => go(-1), ArrowDown: () => layer(1), ArrowUp: () => layer(-1), Home: () => go(-tokens.length), End: () => go(tokens.length) };
    if (acts[event.key] && !event.altKey && !event.ctrlKey && !event.metaKey) { event.preventDefault(); acts[event.key](); }
  };
  // pieces of one word stand close together, where the tokenizer marks which begin a word or which go on
  const marks = tokens.some(token => /^␣/.test(token.token ?? ""));
  const glued = (token, i) => i > 0 && !token.special && !/^[␣ ]/.test(token.token ?? "") && (marks ? !tokens[i - 1].special : (token.token ?? "").startsWith("##"));
  const some = tokens.some(token => !token.followed);
  const words = make("div", { class: "texts", role: "radiogroup", "aria-label": "Token: left and right choose a token, up and down a layer", onkeydown: keys }, [...data.texts.keys()].map((text, number) =>
    make("p", { class: `text text-${number % 2}` },
      data.texts.size > 1 ? make("span", { class: "text-name", text: `Text ${number + 1}` }) : "",
      data.tokens(text).map((token, i) => {
        const chosenNow = token === side.token;
        return make("button", {
          type: "button", role: "radio", class: `word${glued(token, i) ? " glued" : ""}${token.special ? " special" : ""}${some && token.followed ? " followed" : ""}`,
          "aria-checked": String(chosenNow), tabindex: chosenNow ? 0 : -1, "data-key": key(`token.${token.text}.${token.position}`),
          title: `${plain(token.token)} · position ${token.position}, id ${token.id}${token.followed ? "" : " · its nearest tokens are not listed"}`,
          onclick: () => app.choose({ token }, name, key(`token.${token.text}.${token.position}`)),
        }, tokenNode(token.token));
      }))));
  slot.replaceChildren(
    make("div", { class: "journey-who" },
      app.comparing ? make("span", { class: "badge", "aria-label": `Side ${name.toUpperCase()}`, text: name.toUpperCase() }) : "",
      explorer.journeys.length > 1 ? select("journey", "Journey", explorer.journeys, side.journey) : make("span", { class: "pick", text: side.journey }),
      chips,
      checkpoints.length > 1 ? select("checkpoint", "Checkpoint", checkpoints.map(entry => entry.checkpoint), side.checkpoint) : ""),
    words,
    make("p", { class: "journey-told" }, ...told(side, app)),
    name === "a" ? make("p", { class: "hint keys" }, make("kbd", { text: "←" }), make("kbd", { text: "→" }), " another token ", make("kbd", { text: "↑" }), make("kbd", { text: "↓" }), " another layer") : "",
  );
  if (name === "a") find(".sr").textContent = `${plain(side.token.token)}, ${placeName(side.layer)}: ${find(".journey-told", slot).textContent}`;
}

/**
 * What the numbers say about a token, in a sentence or two.
 * @param {import("./journey.js").Side} side
 * @param {import("./journey.js").App} app
 * @returns {(Node | string)[]}
 */
function told(side, app) {
  const { shared } = app;
  const { data, token } = side;
  const places = data.stretch(shared.site);
  const rows = places.flatMap(({ key }) => {
    const row = data.at(token, shared.positions, shared.site, key);
    return row ? [{ key, rank: row(app.rank) }] : [];
  });
  if (!rows.length) return [make("span", { text: shared.site === "attention" ? "This model has no numbers after attention." : "No numbers for this choice." })];
  const ranks = rows.filter(({ key }) => key !== "final");
  if (ranks.every(({ rank }) => rank === null)) return [make("span", { text: "Its states cannot be compared with the vocabulary: no ranks." })];
  const left = ranks.findIndex(({ rank }) => rank !== null && rank > 0);
  const name = make("b", {}, tokenNode(token.token));
  const first = left === 1 ? ` is nearest to itself only at ${placeName(ranks[0].key)}.` : left < 0 ? " is nearest to itself at every layer." : left === 0 ? ` is not nearest to itself even at ${placeName(ranks[0].key)}.` : ` stays nearest to itself up to ${placeName(ranks[left - 1].key)}.`;
  const here = data.at(token, shared.positions, shared.site, side.layer);
  if (!here) return [name, first];
  const nearest = data.nearest(token, shared.positions, shared.site, side.layer, shared.measure)[0];
  const rank = here(app.rank);
  const tail = rank !== null && rank > 0 && nearest ? ["; nearest is ", make("b", {}, tokenNode(nearest.token))] : [];
  const at = placeName(side.layer);
  return [name, first, ` ${at[0].toUpperCase()}${at.slice(1)}: ${shared.measure} ${short(here(shared.measure))}, ${rank === 0 ? "itself the nearest" : `${whole(rank)} ${rank === 1 ? "token is" : "tokens are"} nearer`}`, ...tail, "."];
}

/**
 * The controls of single figures.
 * @param {import("./journey.js").App} app
 */
export function showOwn(app) {
  const { shared } = app;
  const several = app.sides.a.data.texts.size > 1 && !app.comparing;
  find("[data-control=heat]").replaceChildren(segmented("heat", "Shows", { rank: "rank", value: shared.measure }, shared.heat, heat => app.choose({ heat })));
  find("[data-control=path]").replaceChildren(
    segmented("last", "Plane", { with: "all layers", without: "without the last" }, shared.last, last => app.choose({ last }), { without: "The last layer often lies far off and takes the plane for itself" }),
    segmented("zoom", "Frame", { all: "all tokens", chosen: "the chosen one" }, shared.zoom, zoom => app.choose({ zoom })),
    several ? segmented("texts", "Texts", { over: "in one", beside: "side by side" }, shared.texts, texts => app.choose({ texts })) : "");
}
