// What stands in the head of each page, so that it is never seen in the wrong theme.
try {
  const theme = localStorage.getItem("reporter-theme");
  if (theme === "system") delete document.documentElement.dataset.theme;
  else if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}
document.documentElement.classList.add("scripted");
