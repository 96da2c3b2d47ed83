// A form is only sent while the control plane can be reached; otherwise the input stays, under a notice.
{
  /** @type {HTMLElement | null} */
  let notice = null;
  let isChecked = false;

  const isThere = async () => {
    const reply = await fetch("/assets/icon.svg?now", { cache: "no-store" }).catch(() => null);
    return reply !== null;
  };

  const waitForIt = async () => {
    if (await isThere()) {
      notice?.remove();
      notice = null;
    } else {
      setTimeout(waitForIt, 1000);
    }
  };

  const showNotice = () => {
    if (notice) return;
    notice = document.createElement("p");
    notice.className = "note bad";
    notice.setAttribute("role", "alert");
    notice.textContent = document.body.dataset.away ?? "";
    document.querySelector("main")?.prepend(notice);
    notice.scrollIntoView({ block: "nearest" });
    setTimeout(waitForIt, 1000);
  };

  document.addEventListener("submit", async (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if (form.method !== "post" || isChecked || event.defaultPrevented) return;
    event.preventDefault();
    if (await isThere()) {
      isChecked = true;
      form.requestSubmit(/** @type {SubmitEvent} */ (event).submitter);
      isChecked = false;
    } else {
      showNotice();
    }
  });
}
