// ---------------------------------------------------------------- the explorer whose page this is

if (explorer && explorers[explorer.name]) {
  const broken = error => document.getElementById("main").prepend(make("p", { class: "broken", role: "alert", text: `This page could not be shown. ${error}` }));
  Promise.resolve().then(explorers[explorer.name]).catch(broken);
}
