// @ts-check
// One journey in one checkpoint: its tokens, its places, and its numbers by what is chosen.

import { columnsOf } from "./columns.js";

/**
 * @param {string} site
 * @param {number} layer
 */
export const placeKey = (site, layer) => (site === "final" ? "final" : String(layer));
/** @param {string} key */
export const placeName = key => (key === "final" ? "after the closing norm" : key === "0" ? "the embedding" : `layer ${key}`);
/** @param {string} key */
export const placeShort = key => (key === "final" ? "norm" : key === "0" ? "emb" : key);
/**
 * The letters of a token without what a tokenizer adds to them.
 * @param {string | null | undefined} token
 */
export const bareToken = token => (token ?? "").replace(/^##|[␣ ]/g, "").normalize("NFKC").toLowerCase();

const NOTHING = { rows: 0, columns: {} };

/**
 * @typedef {{ text: number, position: number, token: string, id: number, special: boolean, followed: boolean }} Token
 * @typedef {{ key: string, site: string, layer: number, depth: number }} Place key is the layer, or "final"
 * @typedef {{ place: number, id: number, token: string, cosine: number | null, distance: number | null }} Neighbour
 * @typedef {"path" | "attention"} Site
 * @typedef {"a" | "b"} SideName
 * @typedef {{ journey: string, model: string, checkpoint: string, layer: string, token: Token, data: Journey }} Side what is chosen on one side of a comparison, or alone
 * @typedef {{ site: Site, measure: "cosine" | "distance", positions: string, heat: string, last: string, texts: string, zoom: string }} Shared what is chosen for both sides
 * @typedef {{ model: string, light: string, dark: string, dash: number[], shape: string, baseline?: boolean }} Style how a model is drawn
 * @typedef {object} App what the figures of the page are given
 * @property {Shared} shared
 * @property {{ a: Side, b: Side | null }} sides
 * @property {(model: string) => Style} styleOf
 * @property {boolean} comparing whether there is a side B
 * @property {Side[]} both A, and B where there is one
 * @property {string} rank the column of ranks by the chosen measure
 * @property {Journey[]} others the models of side A's journey, each at the checkpoint of its side or at its last one
 * @property {(change: object, side?: SideName | null, focus?: string | null) => Promise<void>} choose chooses something on a side or for both; focus is the data-key of the element that has it then
 */

/** One journey in one checkpoint: its texts, its places, and rows by what is chosen. */
export class Journey {
  /**
   * @param {{ journey: string, model: string, checkpoint: string }} entry
   * @param {Record<"steps" | "neighbours" | "paths", import("./columns.js").Packed | null>} raw
   */
  constructor({ journey, model, checkpoint }, raw) {
    this.journey = journey;
    this.model = model;
    this.checkpoint = checkpoint;
    this.steps = columnsOf(raw.steps ?? NOTHING);
    this.paths = columnsOf(raw.paths ?? NOTHING);
    /** @type {Map<string, number>} */
    this.rows = new Map();
    /** @type {Map<number, Map<number, Token>>} */
    this.texts = new Map();
    /** @type {Record<Site, Map<string, Place>>} */
    this.places = { path: new Map(), attention: new Map() };
    /** @type {string[]} */
    this.positions = [...new Set(this.steps.positions)];
    const { text, position, token, token_id, special, followed, positions, site, layer, depth } = this.steps;
    for (let i = 0; i < this.steps.rows; i++) {
      const stretch = site[i] === "attention" ? "attention" : "path";
      const key = placeKey(site[i], layer[i]);
      this.rows.set(`${text[i]}|${position[i]}|${positions[i]}|${stretch}|${key}`, i);
      const tokens = this.texts.get(text[i]) ?? new Map();
      this.texts.set(text[i], tokens);
      tokens.set(position[i], { text: text[i], position: position[i], token: token[i], id: token_id[i], special: !!special[i], followed: !!followed[i] });
      this.places[stretch].set(key, { key, site: site[i], layer: layer[i], depth: depth[i] });
    }
    /** @type {Map<string, Neighbour[]>} */
    this.listed = new Map();
    const own = columnsOf(raw.neighbours ?? NOTHING);
    for (let i = 0; i < own.rows; i++) {
      const stretch = own.site[i] === "attention" ? "attention" : "path";
      const key = `${own.text[i]}|${own.position[i]}|${own.positions[i]}|${stretch}|${placeKey(own.site[i], own.layer[i])}|${own.measure[i]}`;
      const listed = this.listed.get(key) ?? [];
      this.listed.set(key, listed);
      listed.push({ place: own.place[i], id: own.neighbour_id[i], token: own.neighbour[i], cosine: own.cosine[i], distance: own.distance[i] });
    }
  }

  /**
   * @param {number} text
   * @returns {Token[]}
   */
  tokens(text) { return [...(this.texts.get(text) ?? new Map()).values()]; }
  /**
   * The places of a site, first to last.
   * @param {Site} site
   */
  stretch(site) { return [...this.places[site].values()]; }
  /**
   * The same, or the places of the path where the model has none after attention.
   * @param {Site} site
   */
  placesOf(site) { return this.places[site].size ? this.stretch(site) : this.stretch("path"); }
  /**
   * The key of the place here that is as deep as one of another model.
   * @param {Place} place
   * @param {Site} site
   */
  asDeep(place, site) {
    const own = this.placesOf(site);
    if (place.key === "final" && own.some(one => one.key === "final")) return "final";
    return own.filter(one => one.key !== "final").reduce((best, one) => (Math.abs(one.depth - place.depth) < Math.abs(best.depth - place.depth) ? one : best)).key;
  }

  /**
   * The numbers of a token at a place, by the name of their column; null where there are none.
   * @param {Token} token
   * @param {string} positions
   * @param {Site} site
   * @param {string} key
   * @returns {((column: string) => number | null) | null}
   */
  at(token, positions, site, key) {
    const i = this.rows.get(`${token.text}|${token.position}|${positions}|${site}|${key}`);
    return i === undefined ? null : name => this.steps[name][i];
  }
  /**
   * The vocabulary tokens nearest to a token at a place, the nearest first.
   * @param {Token} token
   * @param {string} positions
   * @param {Site} site
   * @param {string} key
   * @param {"cosine" | "distance"} measure
   */
  nearest(token, positions, site, key, measure) {
    return this.listed.get(`${token.text}|${token.position}|${positions}|${site}|${key}|${measure}`) ?? [];
  }
  /**
   * Where each token of a text ends in the text without spaces and special tokens.
   * @param {number} text
   */
  ends(text) {
    let written = "";
    /** @type {Map<number, number>} by position */
    const ends = new Map();
    for (const token of this.tokens(text)) {
      if (token.special) continue;
      written += bareToken(token.token);
      ends.set(token.position, written.length);
    }
    return { written, ends };
  }
  /**
   * The token of this model at the same place of the same text as another model's: the piece in which it ends. Where
   * the two do not write the text alike, the one with the same letters, if there is one.
   * @param {Token} token
   * @param {Journey} other
   */
  twin(token, other) {
    const [own, its] = [this.ends(token.text), other.ends(token.text)];
    const end = its.ends.get(token.position);
    if (bareToken(token.token) && end !== undefined && own.written.slice(0, end) === its.written.slice(0, end)) {
      return this.tokens(token.text).find(one => (own.ends.get(one.position) ?? 0) >= end) ?? null;
    }
    /** @param {Journey} journey */
    const alike = journey => journey.tokens(token.text).filter(one => one.special === token.special && bareToken(one.token) === bareToken(token.token));
    return alike(this)[alike(other).findIndex(one => one.position === token.position)] ?? null;
  }
}
