// The loader of a report in one file. It is no module: it stands in the page itself, before the script is unpacked.

(() => {
  "use strict";
  // What is packed together stands under all its names, and has a null character between one and the next.
  const packed = /** @type {Map<string, [Element, number]>} */ (new Map());
  for (const element of document.querySelectorAll("script[data-packed]")) {
    String(element.getAttribute("data-packed")).split(" ").forEach((name, place) => packed.set(name, [element, place]));
  }
  const unpack = async name => {
    const [element, place] = packed.get(name) ?? [document.body, 0];
    const bytes = Uint8Array.from(atob(String(element.textContent)), letter => letter.charCodeAt(0));
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    return text.split("\0")[place];
  };
  window.reporterPacked = name => (packed.has(name) ? unpack(name) : null);
  window.reporterHolds = name => packed.has(name);

  // The other pages of the study are this file with another question mark.
  const pages = [...packed.keys()].filter(name => name.endsWith(".html"));
  const asked = `${new URLSearchParams(location.search).get("page") ?? "index"}.html`;
  const lead = link => {
    const [, page, query, place] = (link.getAttribute("href") ?? "").match(/^([\w.-]+\.html)?(?:\?([^#]*))?(#.*)?$/) ?? [];
    if (page && pages.includes(page)) link.setAttribute("href", `?page=${page.replace(/\.html$/, "")}${query ? `&${query}` : ""}${place ?? ""}`);
  };
  // also links that a script has made since
  for (const kind of ["pointerdown", "focusin", "click"]) {
    document.addEventListener(kind, event => { const link = event.target instanceof Element && event.target.closest("a"); if (link) lead(link); }, true);
  }

  async function show() {
    const page = new DOMParser().parseFromString(await unpack(pages.includes(asked) ? asked : "index.html"), "text/html");
    const script = document.createElement("script");
    script.textContent = await unpack("reporter.js");
    for (const link of page.querySelectorAll("a.home")) link.remove();  // there is no list of studies
    for (const link of page.querySelectorAll("a[href]")) lead(link);
    document.title = page.title;
    document.head.append(...page.head.querySelectorAll("style"));  // the study's own
    document.body.replaceChildren(...page.body.childNodes);
    document.body.className = "";
    document.body.append(script);
  }
  show().catch(error => {
    document.body.className = "";
    document.getElementById("alone")?.append(` (It could not be unpacked here: ${error})`);
  });
})();
