// What pages do better with JavaScript. Everything works without it.
{
  // Times are shown in the reader's zone from the next page on.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes(`zone=${zone}`)) {
    document.cookie = `zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax`;
  }

  // A choice that decides what is shown takes effect at once.
  for (const select of /** @type {NodeListOf<HTMLSelectElement>} */ (
    document.querySelectorAll("select[data-submit]")
  )) {
    select.addEventListener("change", () => select.form?.requestSubmit());
  }

  // One number fills the rate and the burst.
  /** @param {string} id */
  const input = (id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
  document.querySelector("[data-preset]")?.addEventListener("click", (event) => {
    const number = input("preset").value.trim();
    if (!/^[1-9][0-9]{0,9}$/.test(number)) return;
    event.preventDefault();
    input("max_permits").value = number;
    input("rate").value = number;
    input("rate").focus();
  });

  // Commands are copied with one click.
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-copy]"))) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling?.textContent?.trim() ?? "");
      const text = button.textContent;
      button.textContent = button.dataset.copy || "✓";
      setTimeout(() => (button.textContent = text), 1500);
    });
  }

  // The box in the head of a table ticks all of its rows.
  for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (
    document.querySelectorAll("th .pick input")
  )) {
    box.addEventListener("change", () => {
      for (const it of box.closest("table")?.querySelectorAll("td .pick input") ?? []) {
        /** @type {HTMLInputElement} */ (it).checked = box.checked;
      }
    });
  }

  // After a change: shows the nodes catching up, for some seconds.
  /** @param {number} rounds */
  const follow = async (rounds) => {
    const reply = await fetch(location.href).catch(() => null);
    if (!reply?.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    for (const selector of ["p[role=status]", ".tools .live"]) {
      const now = page.querySelector(selector);
      if (now) document.querySelector(selector)?.replaceWith(now);
    }
    if (document.querySelector("p.note.warn[role=status]") && rounds > 1)
      setTimeout(() => follow(rounds - 1), 500);
  };
  if (document.querySelector("p.note.warn[role=status]")) setTimeout(() => follow(20), 200);
}
