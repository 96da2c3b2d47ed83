// What the pages do better with JavaScript. Everything works without it.
const $ = (selector) => document.querySelector(selector);

// Times are shown in the reader's zone from the next page on.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes(`zone=${zone}`)) {
  document.cookie = `zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax`;
}

// The size of a page takes effect at once.
document.querySelectorAll("select[data-submit]").forEach((select) => {
  select.addEventListener("change", () => select.form.requestSubmit());
});

// One number fills the rate and the burst.
$("[data-preset]")?.addEventListener("click", (event) => {
  const number = $("#preset").value.trim();
  if (!/^[1-9][0-9]{0,9}$/.test(number)) return;
  event.preventDefault();
  $("#max_permits").value = number;
  $("#rate").value = number;
  $("#rate").focus();
});

// Keys: `/` searches, `n` begins a new rule.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,select,textarea")) return;
  if (event.key === "/" && $("input[type=search]")) {
    event.preventDefault();
    $("input[type=search]").focus();
  } else if (event.key === "n" && $("a[data-new]")) {
    $("a[data-new]").click();
  }
});

// After a change: shows the nodes catching up, for some seconds.
async function follow(rounds) {
  const reply = await fetch(location.href);
  if (!reply.ok) return;
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const selector of ["p[role=status]", ".tools .live"]) {
    const now = page.querySelector(selector);
    if (now) $(selector)?.replaceWith(now);
  }
  if ($("p.note.warn[role=status]") && rounds > 1) setTimeout(() => follow(rounds - 1), 500);
}
if ($("p.note.warn[role=status]")) setTimeout(() => follow(20), 200);

// Live pages: when a topic changes, the parts that carry `data-swap` are replaced by those of the page as it is
// now. What was opened stays open, and what has the focus keeps it.
async function swap() {
  const reply = await fetch(location.href);
  if (!reply.ok) return;
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  document.querySelectorAll("[data-swap]").forEach((part) => {
    const now = page.querySelector(`[data-swap="${part.dataset.swap}"]`);
    if (!now || now.innerHTML === part.innerHTML || part.contains(document.activeElement)) return;
    part.querySelectorAll("details[open][data-keep]").forEach((it) => {
      const same = now.querySelector(`details[data-keep="${it.dataset.keep}"]`);
      if (same) same.open = true;
    });
    part.replaceWith(now);
  });
}
const live = $("[data-topics]");
if (live) {
  const { topics, after } = live.dataset;
  let lastOpen = Date.now();
  let isSwapping = false;
  const swapOnce = async () => {
    if (isSwapping || document.hidden) return;
    isSwapping = true;
    try {
      await swap();
    } catch {
      // The next event tries again.
    } finally {
      isSwapping = false;
    }
  };
  const open = () => {
    const source = new EventSource(`/api/v1/events?topics=${topics}&after=${encodeURIComponent(after)}`);
    for (const topic of topics.split(",")) source.addEventListener(topic, swapOnce);
    source.addEventListener("open", () => (lastOpen = Date.now()));
    // After an error reply a source stays closed.
    source.addEventListener("error", () => source.readyState === EventSource.CLOSED && setTimeout(open, 5000));
  };
  open();
  document.addEventListener("visibilitychange", swapOnce);
  // Replies end every ten seconds; without one for longer, the data are old.
  setInterval(() => ($("[data-lost]").hidden = Date.now() - lastOpen < 20000), 2000);
}
