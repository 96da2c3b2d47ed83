// Live pages: when a topic changes, parts with `data-swap` are replaced by those of the page as it is now,
// or removed with them.
// What was opened stays open, and what has the focus stays.
{
  const live = /** @type {HTMLElement | null} */ (document.querySelector("[data-topics]"));
  const topics = live?.dataset.topics ?? "";
  let lastOpen = Date.now();
  let isSwapping = false;

  /** @param {HTMLElement} part @param {Document} page */
  const swapPart = (part, page) => {
    const now = page.querySelector(`[data-swap="${part.dataset.swap}"]`);
    if (part.contains(document.activeElement)) return;
    if (!now) return part.remove();
    if (now.innerHTML === part.innerHTML) return;
    for (const it of part.querySelectorAll("details[open][data-keep]")) {
      const name = /** @type {HTMLElement} */ (it).dataset.keep;
      now.querySelector(`details[data-keep="${name}"]`)?.setAttribute("open", "");
    }
    part.replaceWith(now);
  };

  const swap = async () => {
    if (isSwapping || document.hidden) return;
    isSwapping = true;
    const reply = await fetch(location.href).catch(() => null);
    if (reply?.ok && !reply.redirected) {
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      for (const part of document.querySelectorAll("[data-swap]")) {
        swapPart(/** @type {HTMLElement} */ (part), page);
      }
    }
    isSwapping = false;
  };

  const listen = () => {
    const after = encodeURIComponent(live?.dataset.after ?? "");
    const source = new EventSource(`/api/v1/events?topics=${topics}&after=${after}`);
    for (const topic of topics.split(",")) source.addEventListener(topic, swap);
    source.addEventListener("open", () => (lastOpen = Date.now()));
    // After a reply that is an error, a source stays closed.
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
    });
  };

  if (live) {
    listen();
    document.addEventListener("visibilitychange", swap);
    // Replies end every ten seconds; without one for longer, the page is not up to date.
    const lost = /** @type {HTMLElement | null} */ (document.querySelector("[data-lost]"));
    setInterval(() => lost && (lost.hidden = Date.now() - lastOpen < 20000), 2000);
  }
}
