// Runs before anything is shown, so that the page does not flash in the wrong colours.
try {
  const kept = localStorage.getItem("tercet-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch (error) {
  // The browser has no storage for files: follow the system's setting.
}
