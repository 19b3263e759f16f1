// @ts-check
// Where the script of all pages begins: each page takes from it what it has the elements for.

import "./controls.js";
import { find, make } from "./dom.js";
import { showExhibits } from "./exhibits.js";
import { explorer } from "./explorer.js";
import { showJourneys } from "./journeys.js";

/** @type {Record<string, () => unknown>} */
const explorers = { journeys: showJourneys, vocabulary: showExhibits, sentences: showExhibits };

if (explorer && explorers[explorer.name]) {
  /** @param {unknown} error */
  const broken = error => find("#main").prepend(make("p", { class: "broken", role: "alert", text: `This page could not be shown. ${error}` }));
  Promise.resolve().then(explorers[explorer.name]).catch(broken);
}
