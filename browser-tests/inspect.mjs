// What every screen must be: accessible, in one language, within the window, without a fault.
import { api, violations } from "./browser.mjs";

/** Each combination in which a screen is looked at. */
export const LOOKS = ["zh", "en"].flatMap((lang) =>
  ["light", "dark"].flatMap((theme) => [360, 1440].map((width) => ({ lang, theme, width }))),
);

export const nameOf = ({ lang, theme, width }) => `${lang}-${theme}-${width}`;

/** Shows pages of this window in one look. */
export async function wear(page, url, { lang, theme, width }) {
  await page.setViewportSize({ width, height: 900 });
  await page.context().addCookies([
    { name: "lang", value: lang, url },
    { name: "theme", value: theme, url },
  ]);
}

/** Words that are written alike in both languages. */
const SHARED = new Set(
  `Tollgate QPS JSON YAML API REST IP URL TLS CSP SSE CPU ID UTC SHA CSV NDJSON HTTP HTTPS gRPC Redis
   SQLite mTLS CAR GET POST PUT Asia Shanghai ci-deploy key value ms GB MB KB kB MiB KiB GiB Ctrl Enter
   Esc OIDC p50 p99 ok n k g j s h d G U S V English Envoy RFC curl PEM tgl
   post_paid true`
    .split(/\s+/)
    .filter(Boolean),
);

/** Members of the API's objects that hold what users entered. */
const ENTERED = [
  "app",
  "key",
  "name",
  "domain",
  "entries",
  "description",
  "title",
  "comment",
  "reason",
  "author",
  "per",
];

/** Every word that users entered, as the API returns it. */
export async function enteredWords(page, url) {
  const words = new Set();
  const read = (value, isEntered) => {
    if (typeof value === "string" && isEntered)
      for (const word of [...wordsOf(value), ...(value.match(CHINESE) ?? [])]) words.add(word);
    if (value === null || typeof value !== "object") return;
    for (const [name, inner] of Object.entries(value)) {
      read(inner, Array.isArray(value) ? isEntered : ENTERED.includes(name));
    }
  };
  const lists = ["apps?limit=500", "rules?size=500", "users", "tokens", "overrides", "changes?limit=500"];
  const { apps } = (await api(page, "GET", `${url}/api/v1/apps`)).body;
  for (const { app } of apps) lists.push(`apps/${app}/files`, `apps/${app}/versions`);
  for (const list of lists) read((await api(page, "GET", `${url}/api/v1/${list}`)).body, false);
  return words;
}

const CHINESE = /[\u4e00-\u9fff]+/g;

const wordsOf = (text) =>
  (text.match(/[A-Za-z][A-Za-z0-9_.-]*/g) ?? []).map((it) => it.replace(/[.-]+$/, ""));

/** What is wrong with the page as it is shown now. `data` holds the words that users entered. */
export async function faultsOf(page, lang, data) {
  const faults = [...page.faults.splice(0), ...(await violations(page))];
  const seen = await page.evaluate(readTexts);
  if (seen.lang !== (lang === "zh" ? "zh-CN" : "en")) faults.push(`the page says that it is in ${seen.lang}`);
  if (seen.overflow > 0) faults.push(`${seen.overflow} px wider than the window`);
  for (const text of seen.texts) {
    const foreign =
      lang === "zh"
        ? englishIn(text, data)
        : (text.replace("中文", "").match(CHINESE) ?? []).filter((it) => !data.has(it));
    if (foreign.length > 0) faults.push(`not in ${lang}: ${foreign.join(" ")} (in ${JSON.stringify(text)})`);
  }
  return faults;
}

function englishIn(text, data) {
  return wordsOf(text).filter((it) => !SHARED.has(it) && !data.has(it));
}

/** Runs in the page: its language, how much too wide it is, and its texts except code. */
function readTexts() {
  const isCode = (element) =>
    element.closest(
      "code, pre, kbd, samp, textarea, script, style, time, svg text, noscript, .diff td, .mono, html [lang]",
    );
  const texts = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent.trim();
    if (text !== "" && !isCode(node.parentElement)) texts.push(text);
  }
  for (const element of document.body.querySelectorAll("[aria-label], [title], [placeholder], [alt]")) {
    if (isCode(element)) continue;
    for (const name of ["aria-label", "title", "placeholder", "alt"]) {
      const value = element.getAttribute(name);
      if (value && !/^([0-9a-f]{32,}|[0-9a-f]{8}-[0-9]+)$/.test(value)) texts.push(value);
    }
  }
  const overflow = document.documentElement.scrollWidth - window.innerWidth;
  return { lang: document.documentElement.lang, overflow, texts };
}
