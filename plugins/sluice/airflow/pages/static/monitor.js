"use strict";
// Light or dark as in Airflow, refreshing while the page is seen, and links that leave the frame. All pages work without.

const root = document.documentElement;

function theme() {
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage is closed to us: as the system has it */ }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  else delete root.dataset.theme;
}
theme();
addEventListener("storage", theme);

// The frame that Airflow shows plugins in may not navigate Airflow itself; Airflow's own document may.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-airflow]");
  if (!link || window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const outside = window.parent.document.createElement("a");
  outside.href = link.href;
  window.parent.document.body.append(outside);
  outside.click();
  outside.remove();
});

const live = document.getElementById("live");
const word = document.getElementById("refreshed");
const every = Number(live?.dataset.poll || 0) * 1000;
let timer = null, asking = null, last = Date.now();

function say(text, stale) {
  if (word.textContent !== text) word.textContent = text;
  word.classList.toggle("stale", stale);
}

function part(address) {
  const url = new URL(address);
  url.searchParams.set("part", "live");
  return url;
}

// What a refresh replaces is found again by its id, its address or the part of the page that it is in, and its number
// among those that have the same.
function places(selector) {
  const seen = new Map();
  return [...live.querySelectorAll(selector)].map((one) => {
    const key = `${one.tagName} ${one.id || one.getAttribute("href") || one.closest("[id]").id}`;
    seen.set(key, (seen.get(key) || 0) + 1);
    return [`${key} ${seen.get(key)}`, one];
  });
}

const FOCUSABLE = "a[href], button, summary, [tabindex]";

function put(html) {
  const folded = new Map([...live.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  const scrolled = new Map(places(".scroll, .log").map(([key, one]) => [key, [one.scrollLeft, one.scrollTop]]));
  const inside = live.contains(document.activeElement);
  const focused = inside && places(FOCUSABLE).find(([, one]) => one === document.activeElement)?.[0];
  live.innerHTML = html;
  live.querySelectorAll("details[id]").forEach((one) => { one.open = folded.get(one.id) ?? one.open; });
  places(".scroll, .log").forEach(([key, one]) => { [one.scrollLeft, one.scrollTop] = scrolled.get(key) || [0, 0]; });
  if (!inside) return;
  const same = places(FOCUSABLE).find(([key]) => key === focused)?.[1] || document.getElementById("main");
  same.focus({ preventScroll: true });
}

async function refresh() {
  asking?.abort();
  asking = new AbortController();
  const mine = asking;
  try {
    const answer = await fetch(part(location.href), { signal: mine.signal, headers: { Accept: "text/html" } });
    if (answer.status === 401 || answer.status === 403) { say("You are logged out: reload the page", true); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const html = await answer.text();
    const selecting = getSelection()?.toString() && live.contains(getSelection().anchorNode);
    const writing = live.contains(document.activeElement) && /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (!selecting && !writing) put(html);
    last = Date.now();
    say("", false);
  } catch (error) {
    if (error.name === "AbortError") return;
    say(`Airflow has not answered since ${new Date(last).toISOString().slice(11, 19)} UTC`, true);
  }
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (every && document.visibilityState === "visible") timer = setTimeout(refresh, every);
}
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && every) refresh(); else clearTimeout(timer);
});
schedule();

const find = document.getElementById("find");
let typed = null;
find?.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => {
    const url = new URL(location.href);
    if (find.value) url.searchParams.set("find", find.value); else url.searchParams.delete("find");
    history.replaceState(null, "", url);
    refresh();
  }, 200);
});
