"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const follow = (selector) => {
    const link = document.querySelector(selector);
    if (link) location.assign(link.href);
  };

  // Rows of a list, or the steps of a trajectory: what j and k go through.
  const stops = () => {
    const rows = [...document.querySelectorAll("[data-row] a:first-of-type")].filter((each) => each.closest("th, td:first-child, li"));
    const first = new Map();
    for (const link of rows) {
      const row = link.closest("[data-row]");
      if (!first.has(row)) first.set(row, link);
    }
    const steps = [...document.querySelectorAll(".turn[id]")];
    return steps.length ? steps : [...first.values()];
  };

  const step = (by) => {
    const all = stops();
    if (!all.length) return;
    const active = document.activeElement;
    let at = all.findIndex((each) => each === active || each.contains(active) || (each.tagName === "A" && each.closest("[data-row]").contains(active)));
    if (at < 0) {
      at = all.findIndex((each) => each.getBoundingClientRect().top >= 0);
      at = at < 0 ? 0 : by > 0 ? at - 1 : at;
    }
    const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: next.tagName === "A" ? "nearest" : "start" });
  };

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    n: () => follow("a[rel=next]"),
    p: () => follow("a[rel=prev]"),
    u: () => follow("a[rel=up]"),
    "?": () => byId("help").showModal(),
    "/": () => {
      const find = byId("find");
      if (find) find.select();
      else location.assign("/trials");
    },
    Enter: () => {
      const turn = document.activeElement.closest(".turn[id]");
      if (turn && turn === document.activeElement) turn.querySelector(".under a").click();
    },
  };

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) && document.activeElement.type !== "radio";
    if (event.key === "Escape" && typing) document.activeElement.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const act = keys[event.key];
    if (!act) return;
    if (event.key !== "Enter") event.preventDefault();
    act();
  });

  byId("keys").addEventListener("click", () => byId("help").showModal());

  // Figures take longer to draw than the page that they are of.
  const fill = () => {
    for (const place of document.querySelectorAll("[data-fill]")) {
      const from = place.dataset.fill;
      place.removeAttribute("data-fill");
      fetch(from, { credentials: "same-origin" })
        .then((answer) => (answer.ok ? answer.text() : ""))
        .then((text) => {
          const page = new DOMParser().parseFromString(text, "text/html");
          place.replaceChildren(...page.body.childNodes);
          document.body.dataset.filled = "yes";
        });
    }
  };
  const parts = () => document.querySelectorAll("[data-refresh]");
  const originals = new Map();
  for (const part of parts()) originals.set(part.dataset.refresh, part.innerHTML);
  fill();

  // What changes: the parts of the page that are marked are taken from the page as it is now.
  const address = document.body.dataset.events;
  if (!address) return;
  let known = null;
  let waiting = false;
  let last = 0;
  let pause = 2000;

  const renew = async () => {
    const began = Date.now();
    const answer = await fetch(location.href, { credentials: "same-origin" });
    waiting = false;
    last = Date.now();
    pause = Math.max(2000, 10 * (last - began)); // a large job is made anew less often
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts()) {
      const now = page.querySelector(`[data-refresh="${part.dataset.refresh}"]`);
      const busy = part.contains(document.activeElement) || part.querySelector("input:checked, details[open]");
      if (!now || busy || now.innerHTML === originals.get(part.dataset.refresh)) continue;
      originals.set(part.dataset.refresh, now.innerHTML);
      part.replaceWith(document.adoptNode(now));
    }
    fill();
    document.body.dataset.renewed = String(Number(document.body.dataset.renewed || 0) + 1);
  };

  const source = new EventSource(address);
  source.addEventListener("message", (event) => {
    const state = JSON.parse(event.data);
    const bar = byId("progress");
    if (bar && state.total) {
      bar.max = state.total;
      bar.value = state.done;
      byId("done").textContent = state.done.toLocaleString("en");
    }
    const version = JSON.stringify(state);
    if (known !== null && known !== version && !waiting) {
      waiting = true;
      setTimeout(renew, Math.max(0, pause - (Date.now() - last)));
    }
    known = version;
  });
  window.addEventListener("pagehide", () => source.close());
})();
