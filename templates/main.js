// @ts-check
// Where the script of all pages begins: each page takes from it what it has the elements for.

import "./controls.js";
import { find, make } from "./dom.js";
import { explorer } from "./page.js";
import "./figures.js";
import { showJourneys } from "./journeys.js";
import "./paper.js";
import { showSlots } from "./slots.js";
import "./tables.js";

const show = explorer?.name === "journeys" ? showJourneys : explorer?.who ? showSlots : null;

if (show) {
  const broken = error => find("#main").prepend(make("p", { class: "broken", role: "alert", text: `This page could not be shown. ${error}` }));
  Promise.resolve().then(show).catch(broken);
}
