// Where the script of all pages begins: each page takes from it what it has the elements for.

import "./controls.js";
import "./cursor.js";
import "./legend.js";
import { find, make } from "./dom.js";
import { explorer } from "./page.js";
import "./figures.js";
import { showJourneys } from "./journeys.js";
import { showSlots } from "./panels.js";
import "./searched.js";
import "./tables.js";

const show = explorer?.entries ? showJourneys : explorer?.who ? showSlots : null;

if (show) Promise.resolve().then(show).catch(error => {
  find("#main").prepend(make("p", { class: "broken", role: "alert", text: `This page could not be shown. ${error}` }));
});
