// The list of rules: the tokens of the rows that can be seen, asked of the nodes every two seconds.
{
  const table = /** @type {HTMLElement | null} */ (document.querySelector("[data-live-tokens]"));
  const lost = /** @type {HTMLElement | null} */ (document.querySelector("[data-tokens-lost]"));
  const numbers = new Intl.NumberFormat("en");
  let failures = 0;

  /**
   * A bucket, as the API returns it.
   * @typedef {{ key: string, nodes: number, tokens: number?, tokens_most: number?, last_used: number? }} Live
   */

  /** @param {number} value */
  const written = (value) => numbers.format(value).replace("-", "−");

  /** @param {Live} live */
  const inWords = ({ tokens, tokens_most: most, nodes }) => {
    const [least, top] = [tokens ?? 0, most ?? tokens ?? 0];
    if (top !== least) return `${written(least)}–${written(top)} (${nodes} ${table?.dataset.nodes})`;
    return least < 0 ? `${written(least)} ${table?.dataset.overdrawn}` : written(least);
  };

  /** @param {HTMLElement} row @param {Live} live */
  const show = (row, live) => {
    const cell = row.querySelector("td.tokens");
    if (!cell || live.tokens === null) return;
    if (!cell.querySelector(".meter")) {
      const bar = "http://www.w3.org/2000/svg";
      const [meter, svg, rect, text] = [
        document.createElement("span"),
        document.createElementNS(bar, "svg"),
        document.createElementNS(bar, "rect"),
        document.createElement("span"),
      ];
      meter.className = "meter";
      for (const [name, value] of [
        ["viewBox", "0 0 64 6"],
        ["preserveAspectRatio", "none"],
        ["aria-hidden", "true"],
      ]) {
        svg.setAttribute(name, value);
      }
      rect.setAttribute("height", "6");
      svg.append(rect);
      meter.append(svg, text);
      cell.replaceChildren(meter);
    }
    const share = Math.min(1, Math.max(0, (live.tokens_most ?? live.tokens) / Number(row.dataset.max)));
    cell.querySelector("rect")?.setAttribute("width", String(Math.round(share * 64)));
    cell.querySelector(".meter")?.classList.toggle("bad", live.tokens <= 0);
    const text = cell.querySelector(".meter > span");
    if (text) text.textContent = inWords(live);
    const time = row.querySelector("td.time");
    if (time && live.last_used !== null) {
      const used = document.createElement("span");
      used.title = String(live.last_used);
      used.textContent = new Date(live.last_used).toLocaleString("sv-SE", { timeZone: table?.dataset.zone });
      time.replaceChildren(used);
    }
  };

  /** Rows that are on the screen, by app. */
  const rowsByApp = () => {
    /** @type {Map<string, Map<string, HTMLElement>>} */
    const apps = new Map();
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (
      document.querySelectorAll("tr[data-key]:not([data-per])")
    )) {
      const { top, bottom } = row.getBoundingClientRect();
      if (bottom < 0 || top > innerHeight) continue;
      const rows = apps.get(row.dataset.app ?? "") ?? new Map();
      apps.set(row.dataset.app ?? "", rows.set(row.dataset.key ?? "", row));
    }
    return apps;
  };

  /** @param {string} app @param {Map<string, HTMLElement>} rows */
  const ask = async (app, rows) => {
    const keys = [...rows.keys()].slice(0, 100).map((key) => `key=${encodeURIComponent(key)}`);
    const reply = await fetch(`/api/v1/apps/${encodeURIComponent(app)}/live?${keys.join("&")}`).catch(
      () => null,
    );
    if (!reply?.ok) return false;
    /** @type {Live[]} */
    const found = (await reply.json()).keys;
    for (const live of found) {
      const row = rows.get(live.key);
      if (row) show(row, live);
    }
    return found.some((live) => live.tokens !== null);
  };

  const round = async () => {
    if (!document.hidden) {
      const apps = [...rowsByApp()];
      const answered = await Promise.all(apps.map(([app, rows]) => ask(app, rows)));
      failures = answered.length === 0 || answered.includes(true) ? 0 : failures + 1;
      const wereShown = document.querySelector("td.tokens .meter") !== null;
      if (lost) lost.hidden = failures < 5 || !wereShown;
    }
    setTimeout(round, 2000);
  };

  if (table) void round();
}
