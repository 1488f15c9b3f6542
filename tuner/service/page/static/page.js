// A page that lists what is going on keeps itself fresh; without scripts, loading it again does the same.
"use strict";
document.querySelectorAll("form.filters").forEach((form) =>
  form.addEventListener("submit", () => // what was left empty need not stand in the link
    form.querySelectorAll("input, select").forEach((field) => { field.disabled = field.value === ""; })));

// Parts of this page (data-fresh) come anew from its own address, and live ones (data-live) from theirs, more often. Nothing
// is asked for while the page is hidden, and nothing is replaced that somebody is in.
(function () {
  const EACH_MS = 30000, LIVE_MS = 5000;

  async function read(address) {
    const answer = await fetch(address, { credentials: "same-origin", redirect: "error" });
    return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  }

  function replace(old, fresh) {
    if (!fresh || old.contains(document.activeElement)) return;
    const scrolled = [...old.querySelectorAll(".wide")].map((part) => part.scrollLeft);
    old.replaceWith(fresh);
    fresh.querySelectorAll(".wide").forEach((part, i) => { part.scrollLeft = scrolled[i] ?? 0; });
    localTimes.show(fresh);
  }

  async function refresh() {
    const now = document.querySelectorAll("[data-fresh]"), page = await read(location.href);
    const then = page ? page.querySelectorAll("[data-fresh]") : [];
    if (now.length === then.length) now.forEach((part, i) => replace(part, then[i]));
  }

  async function refreshLive() {
    for (const part of document.querySelectorAll("[data-live]")) {
      const page = await read(part.dataset.live);
      if (page) replace(part, page.querySelector("[data-live]"));
    }
  }

  function repeat(work, selector, each) { // the next one begins when one has ended
    if (!document.querySelector(selector)) return;
    let timer = null, busy = false;
    const run = async () => {
      if (busy || document.hidden) return;
      clearTimeout(timer);
      busy = true;
      try { await work(); } catch (error) { /* the service is away for now; what is shown stays */ }
      busy = false;
      if (!document.hidden) timer = setTimeout(run, each);
    };
    timer = setTimeout(run, each);
    document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else run(); });
  }

  repeat(refresh, "[data-fresh]", EACH_MS);
  repeat(refreshLive, "[data-live]", LIVE_MS);
})();
