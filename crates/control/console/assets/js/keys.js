// Keys: `/` searches, `g` and a letter goes to a screen, `n` creates, `j` and `k` move along rows,
// `?` shows them all.
{
  const isOff = document.body.dataset.keys === "off";
  let afterG = false;

  /** @param {string} selector @returns {HTMLElement | null} */
  const find = (selector) => document.querySelector(selector);

  /** @param {number} step */
  const moveRow = (step) => {
    const rows = [...document.querySelectorAll("main tbody tr")].filter((row) =>
      row.querySelector("a, button"),
    );
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
    /** @type {HTMLElement | null | undefined} */ (next?.querySelector("a, button"))?.focus();
  };

  const showHelp = async () => {
    const link = /** @type {HTMLAnchorElement | null} */ (find("a[data-help]"));
    if (!link || find("dialog[open]")) return;
    const reply = await fetch(link.href).catch(() => null);
    if (!reply?.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const [title, keys] = [page.querySelector("h1"), page.querySelector("#keys")];
    if (!title || !keys) return;
    const [dialog, head, close] = ["dialog", "header", "button"].map((it) => document.createElement(it));
    title.id = "dialog-title";
    dialog.setAttribute("aria-labelledby", title.id);
    close.className = "btn small";
    close.textContent = link.dataset.help ?? "";
    close.addEventListener("click", () => dialog.remove());
    dialog.addEventListener("close", () => dialog.remove());
    head.append(title, close);
    dialog.append(head, keys);
    document.body.append(dialog);
    /** @type {HTMLDialogElement} */ (dialog).showModal();
  };

  /** @param {string} key */
  const act = (key) => {
    if (afterG) {
      afterG = false;
      find(`nav a[data-go="${CSS.escape(key)}"]`)?.click();
      return true;
    }
    const search = find("main input[type=search]");
    const create = find("main a[data-new]") ?? find('nav a[data-go="e"]');
    switch (key) {
      case "g":
        afterG = true;
        setTimeout(() => (afterG = false), 1500);
        return true;
      case "/":
        search?.focus();
        return search !== null;
      case "n":
        create?.click();
        return create !== null;
      case "j":
        moveRow(1);
        return true;
      case "k":
        moveRow(-1);
        return true;
      case "?":
        void showHelp();
        return true;
      default:
        return false;
    }
  };

  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    const isSave = (event.ctrlKey || event.metaKey) && event.key === "s";
    if (isSave && find("button[data-draft]")) {
      event.preventDefault();
      find("button[data-draft]")?.click();
      return;
    }
    if (isOff || event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
    if (target.closest("input:not([type=checkbox]):not([type=radio]), select, textarea, [contenteditable]"))
      return;
    if (act(event.key)) event.preventDefault();
  });
}
