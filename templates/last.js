// What stands at the end of each page: it loads the script of all pages, or says that it is not there.
{
  const script = document.createElement("script");
  script.src = "assets/reporter.js";
  script.addEventListener("error", () => document.getElementById("alone")?.removeAttribute("hidden"));
  document.body.append(script);
}
