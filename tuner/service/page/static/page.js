// A page that lists what is going on keeps itself fresh; without scripts, loading it again does the same.
"use strict";
document.querySelectorAll("form.filters").forEach((form) =>
  form.addEventListener("submit", () => // what was left empty need not stand in the link
    form.querySelectorAll("input, select").forEach((field) => { field.disabled = field.value === ""; })));
(function () {
  const EACH_MS = 30000;
  if (!document.querySelector("[data-fresh]")) return;
  async function refresh() {
    if (document.hidden || document.activeElement.closest("main")) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const now = document.querySelectorAll("[data-fresh]"), then = fresh.querySelectorAll("[data-fresh]");
      if (now.length === then.length) now.forEach((part, i) => { part.replaceWith(then[i]); localTimes.show(then[i]); });
    } catch (error) { /* the service is away for now; what is shown stays */ }
  }
  setInterval(refresh, EACH_MS);
})();
