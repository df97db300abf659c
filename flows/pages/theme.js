// Before anything is shown, so that the page does not flash in the other colours.
try {
  const kept = localStorage.getItem("tercet-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch (error) {
  // A browser that keeps nothing for files: the system's choice holds.
}
