"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const list = byId("list");
  if (!list) return;
  const trials = Array.from(list.children);
  const [find, status, category, run, only] = ["find", "status", "category", "run", "only"].map(byId);
  const texts = new Map();

  const textOf = (element) => {
    if (!texts.has(element)) texts.set(element, element.textContent.toLowerCase());
    return texts.get(element);
  };

  const matches = (trial, words) =>
    (!status.value || trial.dataset.status === status.value) &&
    (!run || !run.value || trial.dataset.run === run.value) &&
    (!category.value || JSON.parse(trial.dataset.groups).includes(category.value)) &&
    words.every((word) => textOf(trial).includes(word));

  const narrow = (trial, words) => {
    for (const turn of trial.querySelectorAll(".turn")) {
      turn.hidden = only.checked && words.length > 0 && !words.every((word) => textOf(turn).includes(word));
    }
  };

  const apply = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const trial of trials) {
      trial.hidden = !matches(trial, words);
      if (!trial.hidden) {
        shown += 1;
        if (trial.open) narrow(trial, words);
      }
    }
    byId("none").hidden = shown > 0;
    byId("count").textContent = `${shown} of ${trials.length} shown`;
  };

  const reset = () => {
    find.value = status.value = category.value = "";
    if (run) run.value = "";
    only.checked = false;
  };

  let waiting = 0;
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 120);
  });
  for (const each of [status, category, run, only]) if (each) each.addEventListener("change", apply);
  byId("reset").addEventListener("click", () => { reset(); apply(); find.focus(); });
  list.addEventListener("toggle", (event) => {
    if (event.target.open && event.target.parentNode === list) apply();
  }, true);

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      find.focus();
    } else if (event.key === "Escape" && document.activeElement === find) {
      find.value = "";
      apply();
    }
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-category], a[data-find]");
    if (!link) return;
    reset();
    if (link.dataset.category) category.value = link.dataset.category;
    if (link.dataset.find) find.value = link.dataset.find;
    apply();
  });

  const visit = () => {
    const target = byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target.hidden) { reset(); apply(); }
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", visit);

  document.querySelector(".filters").hidden = false;
  apply();
  visit();
})();
