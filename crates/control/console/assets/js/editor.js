// Editors: numbers beside the lines, and the server's opinion of the text 300 ms after the last key.
for (const area of /** @type {NodeListOf<HTMLTextAreaElement>} */ (
  document.querySelectorAll(".editor textarea")
)) {
  const gutter = area.previousElementSibling;
  if (!gutter?.classList.contains("gutter")) continue;
  const list = /** @type {HTMLElement | null} */ (document.querySelector("[data-faults]"));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  /** @typedef {{ line?: number, column?: number, pointer?: string, message: string }} Fault */

  const number = () => {
    const lines = area.value.split("\n").length;
    while (gutter.childElementCount > lines) gutter.lastElementChild?.remove();
    while (gutter.childElementCount < lines) {
      const line = document.createElement("span");
      line.textContent = String(gutter.childElementCount + 1);
      gutter.append(line);
    }
  };

  /** @param {Fault[]} faults */
  const show = (faults) => {
    for (const [index, line] of [...gutter.children].entries()) {
      line.classList.toggle(
        "bad",
        faults.some((it) => it.line === index + 1),
      );
    }
    area.setAttribute("aria-invalid", String(faults.length > 0));
    if (!list) return;
    list.hidden = faults.length === 0;
    const items = faults.slice(0, 20).map(({ line, column, pointer, message }) => {
      const item = document.createElement("li");
      item.className = "mono";
      item.textContent = [line ? `${line}:${column}` : "", pointer ?? "", message].filter(Boolean).join(": ");
      return item;
    });
    list.querySelector("ul")?.replaceChildren(...items);
  };

  const check = async () => {
    const { app, kind, key } = area.dataset;
    const text = area.value;
    const content = kind === "file" ? { file: { text } } : { yaml: text };
    const ops = [{ op: "put", kind, key: key ?? "", ...content }];
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ app: app || "new", ops });
    const reply = await fetch("/api/v1/check", { method: "POST", headers, body }).catch(() => null);
    // A reply to an older text is not shown. That an app is not there yet is not a fault of the text.
    if (!reply || area.value !== text || ![200, 404].includes(reply.status)) return;
    show(reply.ok ? (await reply.json()).errors : []);
  };

  number();
  area.addEventListener("input", () => {
    number();
    if (!area.dataset.kind || area.readOnly) return;
    clearTimeout(timer);
    timer = setTimeout(check, 300);
  });
  area.addEventListener("scroll", () => (gutter.scrollTop = area.scrollTop));
}
