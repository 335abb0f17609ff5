// Asks for news every two seconds while the page is visible and not paused, and draws what this tab has seen.
"use strict";
(() => {
  const INTERVAL_MS = 2000, QUIET_MS = 15000, MAX_POINTS = 600, KEY = "headgate-samples";
  const pause = document.getElementById("pause");
  const status = document.getElementById("status");
  let isPaused = sessionStorage.getItem("headgate-paused") === "1";
  let lastNews = null, saidAt = 0;

  const show = () => {
    pause.hidden = false;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "Updates are paused" : "Pause updates";
  };
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    sessionStorage.setItem("headgate-paused", isPaused ? "1" : "0");
    show();
  });
  show();
  setInterval(() => {
    if (!isPaused && document.visibilityState === "visible") htmx.trigger(document.body, "tick");
  }, INTERVAL_MS);

  // Screen readers hear of changes that matter, and of no more than one every QUIET_MS.
  const tell = () => {
    const news = document.getElementById("news");
    if (news === null) return;
    const text = news.textContent.trim();
    if (lastNews === null) lastNews = text;
    if (text !== lastNews && Date.now() - saidAt > QUIET_MS) {
      status.textContent = lastNews = text;
      saidAt = Date.now();
    }
  };

  const charts = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const chart = (id, labels, data) => {
    const place = document.getElementById(id);
    if (place === null) return;
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 } };
    const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);  // UTC, as all times on these pages
    const names = ["--first", "--second"];
    const series = labels.map((label, at) => ({ label, stroke: colour(names[at]), width: 2, dash: at ? [6, 4] : [] }));
    if (!charts.has(id)) {
      const options = {
        width: Math.min(460, document.documentElement.clientWidth - 40), height: 190, series: [{}, ...series], axes: [{ ...axis, space: 90, values: (_, times) => times.map(clock) }, { ...axis, size: 60 }],
        scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } }, cursor: { show: false }, legend: { live: false },
      };
      charts.set(id, new uPlot(options, data, place));
    } else charts.get(id).setData(data);
    const last = labels.map((label, at) => `${label} ${data[at + 1].at(-1)}`).join(", ");
    place.setAttribute("aria-label", `Chart of ${data[0].length} samples, the last: ${last}`);
  };
  const draw = () => {
    const sample = document.getElementById("sample");
    if (sample === null) return;
    let kept = [];
    try { kept = JSON.parse(sessionStorage.getItem(KEY)) || []; } catch { kept = []; }
    const { running, waiting, arrivals } = sample.dataset;
    kept.push([Date.now() / 1000, Number(running), Number(waiting), Number(arrivals)]);
    kept = kept.slice(-MAX_POINTS);
    sessionStorage.setItem(KEY, JSON.stringify(kept));
    document.getElementById("charts").hidden = false;
    const column = (at) => kept.map((each) => each[at]);
    chart("chart-requests", ["running", "queued"], [column(0), column(1), column(2)]);
    chart("chart-arrivals", ["per second"], [column(0), column(3)]);
  };
  const settled = () => { tell(); draw(); };
  document.body.addEventListener("htmx:afterSettle", settled);
  // What this page was shown for may have ended: the server asks to sign in again.
  document.body.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) location.reload();
    else status.textContent = `The gateway answered ${event.detail.xhr.status}; the figures are old.`;
  });
  document.body.addEventListener("htmx:sendError", () => { status.textContent = "The gateway does not answer; the figures are old."; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    charts.forEach((each) => each.destroy());
    charts.clear();
    draw();
  });
  settled();
})();
