// Two comforts; every page works without them. "/" puts the cursor into the search field, and a page with
// data-refresh reloads itself, unless somebody types, reads a detail, selects text or looks elsewhere.
"use strict";
const search = document.querySelector("#search");
const typing = (at) => at && at.matches("input, select, textarea");

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && search && !event.ctrlKey && !event.metaKey && !event.altKey && !typing(document.activeElement)) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});

const places = () => [...document.querySelectorAll("a, button, input, select, summary, [tabindex]")];
const key = "leveret-focus";
const button = document.querySelector("#hold");
const seconds = Number(document.body.dataset.refresh || 0);

if (seconds > 0) {
  const kept = JSON.parse(sessionStorage.getItem(key) || "null");
  sessionStorage.removeItem(key);
  if (kept && kept.path === location.pathname && places()[kept.index]) {
    places()[kept.index].focus({ preventScroll: true });
  }
  let held = sessionStorage.getItem("leveret-held") === "yes";
  const show = () => { button.textContent = held ? "Resume updates" : "Pause updates"; };
  if (button) {
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      held = !held;
      sessionStorage.setItem("leveret-held", held ? "yes" : "no");
      show();
    });
  }
  setInterval(() => {
    const at = document.activeElement;
    const busy = held || document.hidden || typing(at) || document.querySelector("details[open]") || String(getSelection());
    if (!busy) {
      const index = places().indexOf(at);
      if (index >= 0) sessionStorage.setItem(key, JSON.stringify({ path: location.pathname, index }));
      location.reload();
    }
  }, seconds * 1000);
}
