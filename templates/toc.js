// @ts-check
// The table of contents: always there beside the charts, behind a lid above them on a narrow screen.

import { all } from "./dom.js";

const narrow = matchMedia("(max-width: 1079px)");
const lids = all("details.toc");
const fold = () => { for (const lid of lids) lid.open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();
for (const lid of lids) lid.addEventListener("click", event => { if (narrow.matches && /** @type {Element} */ (event.target).closest("a")) lid.open = false; });
