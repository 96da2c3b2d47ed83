// The numbers beside an editor's lines follow what is typed; those that the server marked keep their mark.
for (const area of /** @type {NodeListOf<HTMLTextAreaElement>} */ (document.querySelectorAll(".editor textarea"))) {
  const gutter = area.previousElementSibling;
  if (!gutter?.classList.contains("gutter")) continue;
  const number = () => {
    const lines = area.value.split("\n").length;
    while (gutter.childElementCount > lines) gutter.lastElementChild?.remove();
    while (gutter.childElementCount < lines) {
      const line = document.createElement("span");
      line.textContent = String(gutter.childElementCount + 1);
      gutter.append(line);
    }
  };
  number();
  area.addEventListener("input", number);
  area.addEventListener("scroll", () => (gutter.scrollTop = area.scrollTop));
}
