// Where the script of all pages begins: each page takes from it what it has the elements for.

import "./controls.js";
import { make } from "./dom.js";
import { showExhibits } from "./exhibits.js";
import { explorer } from "./explorer.js";
import { showJourneys } from "./journeys.js";

const explorers = { journeys: showJourneys, vocabulary: showExhibits, sentences: showExhibits };

if (explorer && explorers[explorer.name]) {
  const broken = error => document.getElementById("main").prepend(make("p", { class: "broken", role: "alert", text: `This page could not be shown. ${error}` }));
  Promise.resolve().then(explorers[explorer.name]).catch(broken);
}
