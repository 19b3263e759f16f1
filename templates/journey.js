// One journey in one checkpoint: its tokens, its places, and its numbers by what is chosen.

import { columnsOf } from "./columns.js";

export const placeKey = (site, layer) => (site === "final" ? "final" : String(layer));
export const placeName = key => (key === "final" ? "after the closing norm" : key === "0" ? "the embedding" : `layer ${key}`);
export const placeShort = key => (key === "final" ? "norm" : key === "0" ? "emb" : key);
export const bareToken = token => (token ?? "").replace(/^##|[Ġ▁ ]/g, "").normalize("NFKC").toLowerCase();

// One journey in one checkpoint: its texts, its places, and rows by what is chosen.
export class Journey {
  constructor(entry, raw) {
    Object.assign(this, entry);
    this.steps = columnsOf(raw.steps);
    this.near = columnsOf(raw.neighbours);
    this.paths = columnsOf(raw.paths);
    this.rows = new Map();
    this.texts = new Map();
    this.places = { path: new Map(), attention: new Map() };
    this.positions = [...new Set(this.steps.positions)];
    const { text, position, token, token_id, special, followed, positions, site, layer, depth } = this.steps;
    for (let i = 0; i < this.steps.rows; i++) {
      const stretch = site[i] === "attention" ? "attention" : "path";
      const key = placeKey(site[i], layer[i]);
      this.rows.set(`${text[i]}|${position[i]}|${positions[i]}|${stretch}|${key}`, i);
      if (!this.texts.has(text[i])) this.texts.set(text[i], new Map());
      this.texts.get(text[i]).set(position[i], { text: text[i], position: position[i], token: token[i], id: token_id[i], special: !!special[i], followed: !!followed[i] });
      this.places[stretch].set(key, { key, site: site[i], layer: layer[i], depth: depth[i] });
    }
    this.listed = new Map();
    for (let i = 0; i < (this.near?.rows ?? 0); i++) {
      const own = this.near;
      const stretch = own.site[i] === "attention" ? "attention" : "path";
      const key = `${own.text[i]}|${own.position[i]}|${own.positions[i]}|${stretch}|${placeKey(own.site[i], own.layer[i])}|${own.measure[i]}`;
      if (!this.listed.has(key)) this.listed.set(key, []);
      this.listed.get(key).push({ place: own.place[i], id: own.neighbour_id[i], token: own.neighbour[i], cosine: own.cosine[i], distance: own.distance[i] });
    }
  }

  tokens(text) { return [...(this.texts.get(text) ?? new Map()).values()]; }
  // The places of a site, first to last; where the model has none after attention, those of its path.
  stretch(site) { return [...this.places[site].values()]; }
  placesOf(site) { return this.places[site].size ? this.stretch(site) : this.stretch("path"); }
  // The place here that is as deep as one of another model.
  asDeep(place, site) {
    const own = this.placesOf(site);
    if (place.key === "final" && own.some(one => one.key === "final")) return "final";
    return own.filter(one => one.key !== "final").reduce((best, one) => (Math.abs(one.depth - place.depth) < Math.abs(best.depth - place.depth) ? one : best)).key;
  }

  // The row of numbers of a token at a place, or null.
  at(token, positions, site, key) {
    const i = this.rows.get(`${token.text}|${token.position}|${positions}|${site}|${key}`);
    return i === undefined ? null : name => this.steps[name][i];
  }
  nearest(token, positions, site, key, measure) {
    return this.listed.get(`${token.text}|${token.position}|${positions}|${site}|${key}|${measure}`) ?? [];
  }
  // Where each token of a text ends in the text without spaces and special tokens.
  ends(text) {
    let written = "";
    const ends = new Map();
    for (const token of this.tokens(text)) {
      if (token.special) continue;
      written += bareToken(token.token);
      ends.set(token.position, written.length);
    }
    return { written, ends };
  }
  // The token of this model at the same place of the same text as another model's: the piece in which it ends. Where
  // the two do not write the text alike, the one with the same letters, if there is one.
  twin(token, other) {
    const [own, its] = [this.ends(token.text), other.ends(token.text)];
    const end = its.ends.get(token.position);
    if (bareToken(token.token) && end !== undefined && own.written.slice(0, end) === its.written.slice(0, end)) {
      return this.tokens(token.text).find(one => own.ends.get(one.position) >= end) ?? null;
    }
    const alike = journey => journey.tokens(token.text).filter(one => one.special === token.special && bareToken(one.token) === bareToken(token.token));
    return alike(this)[alike(other).findIndex(one => one.position === token.position)] ?? null;
  }
}
