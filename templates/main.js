// @ts-check
// Where the script of all pages begins: each page takes from it what it has the elements for.

import "./controls.js";
import { find, make } from "./dom.js";
import { explorer } from "./explorer.js";
import { showJourneys } from "./journeys.js";
import { showSlots } from "./slots.js";

const show = explorer?.name === "journeys" ? showJourneys : explorer?.who ? showSlots : null;

if (show) {
  /** @param {unknown} error */
  const broken = error => find("#main").prepend(make("p", { class: "broken", role: "alert", text: `This page could not be shown. ${error}` }));
  Promise.resolve().then(show).catch(broken);
}
