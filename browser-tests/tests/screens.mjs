// Every screen in both languages, both themes, narrow and wide.
import { gzipSync } from "node:zlib";
import { api, logIn, shot } from "../browser.mjs";
import { assert, path, shows } from "../expect.mjs";
import { LOOKS, enteredWords, faultsOf, nameOf, wear } from "../inspect.mjs";
import { patterns, places } from "../routes.mjs";

/** Pages that are not looked at through links, and why. */
const APART = {
  "/login": "looked at without a login",
  "/link": "looked at without a login",
  "/setup": "looked at before the first user",
  "/apps/{app}/frozen": "looked at by B15-restored, when an app is frozen",
};

/** Words that no list of the API has. */
export const WORDS = [
  "ann",
  "system",
  "provider",
  "agoda",
  "node-1",
  "node-2",
  "node-3",
  "tollgate",
  "Chromium",
];

const FILE =
  "domain: login\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n";

/** Each language is loaded; theme and width change on the page. */
export async function lookAt(page, name, url, target, data, failures) {
  for (const look of LOOKS) {
    const isLoaded = page.url() === url + target && page.lang === look.lang;
    if (!isLoaded) {
      await wear(page, url, look);
      await page.goto(url + target);
      page.lang = look.lang;
    }
    await page.setViewportSize({ width: look.width, height: 900 });
    await page.evaluate((theme) => (document.documentElement.dataset.theme = theme), look.theme);
    const faults = await faultsOf(page, look.lang, data);
    if (faults.length === 0) continue;
    failures.push(`${target} ${nameOf(look)}:\n  ${[...new Set(faults)].join("\n  ")}`);
    await shot(
      page,
      process.env.TOLLGATE_SCREENSHOTS ?? "target/browser",
      `failed-B13${name}-${nameOf(look)}`,
    );
  }
}

const flat = (pattern) => pattern.replace(/[^a-z0-9]+/gi, "-").replace(/-$/, "");

async function beforeTheFirstUser({ fleet, window }) {
  const failures = [];
  const page = await window();
  await lookAt(page, "-setup", fleet.url, new URL(fleet.setupLink).pathname, new Set(WORDS), failures);
  assert.deepEqual(failures, []);
}

async function everyScreen({ fleet, window, kept, note }) {
  const wanted = patterns().filter((it) => !(it in APART));
  const storageState = await kept.admin.context().storageState();
  await api(kept.admin, "POST", `${fleet.url}/api/v1/apps/SHOP/files`, { text: FILE });
  const found = await places(await window({ storageState }), fleet.url, wanted);
  found.set("/apps/{app}/versions/diff", "/apps/BACK/versions/diff?against=1&version=2"); // a form
  assert.deepEqual(
    wanted.filter((it) => !found.has(it)),
    [],
    "screens that no link leads to",
  );
  const failures = [];
  const data = new Set([...WORDS, ...(await enteredWords(kept.admin, fleet.url))]);
  const queue = [...found, ["/missing", "/missing"]];
  const [first, second, outside] = [
    await window({ storageState }),
    await window({ storageState }),
    await window(),
  ];
  const work = async (page) => {
    for (let next = queue.pop(); next; next = queue.pop()) {
      await lookAt(page, flat(next[0]), fleet.url, next[1], data, failures);
    }
  };
  await Promise.all([work(first), work(second)]);
  for (const target of ["/login", "/link?code=unknown"]) {
    await lookAt(outside, flat(target), fleet.url, target, data, failures);
  }
  note(`${found.size + 4} screens, ${LOOKS.length} looks of each`);
  assert.equal(failures.length, 0, failures.join("\n"));
}

async function theMenuOfNarrowScreens({ fleet, window, kept }) {
  // Also without JavaScript.
  const page = await window({
    storageState: await kept.admin.context().storageState(),
    javaScriptEnabled: false,
  });
  await page.setViewportSize({ width: 360, height: 800 });
  await page.goto(`${fleet.url}/rules`);
  const link = page.getByRole("link", { name: "Nodes", exact: true });
  assert.ok(!(await link.isVisible()));
  await page.getByRole("button", { name: "Menu" }).click();
  await link.click();
  await page.waitForURL(`${fleet.url}/nodes`);
}

async function ourOwnErrorPages({ fleet, window }) {
  const viewer = await window();
  await logIn(viewer, fleet.url);
  for (const { target, status } of [
    { target: "/nowhere", status: 404 },
    { target: "/apps/NONE/rules/none", status: 404 },
    { target: "/apps/BACK/versions/999/rollback", status: 404 },
    { target: "/nodes/none", status: 404 },
  ]) {
    const reply = await viewer.goto(fleet.url + target);
    assert.equal(reply.status(), status, target);
    const id = reply.headers()["x-request-id"];
    await shows(viewer, id);
    assert.ok((await viewer.locator("main a").count()) > 0, "there is a way back");
  }
  const outside = await window();
  await outside.goto(`${fleet.url}/nowhere`);
  assert.ok(["/login", "/nowhere"].includes(path(outside)));
}

async function bytesOfTheFirstLoad({ fleet, window, kept, note }) {
  const page = await window({ storageState: await kept.admin.context().storageState() });
  let sizes = [];
  page.on("response", (it) => sizes.push(it.request().sizes()));
  const bytesOf = async (target) => {
    sizes = [];
    await page.goto(fleet.url + target, { waitUntil: "networkidle" });
    const all = await Promise.all(sizes);
    return all.reduce((sum, it) => sum + it.responseBodySize + it.responseHeadersSize, 0);
  };
  const first = await bytesOf("/rules?size=100");
  const later = await bytesOf("/versions");
  const kB = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;
  note(`the list of 100 rules with its live tokens loads ${kB(first)}, the page after it ${kB(later)}`);
  assert.ok(first < 80_000, `${first} bytes`);
  assert.ok(later < 20_000, `${later} bytes: style and script are kept`);
  const style = await (await fetch(`${fleet.url}/assets/console.css`)).text();
  assert.ok(gzipSync(style).length < 20_000, "the style sheet stays small");
}

export const before = [
  { id: "B13-setup", name: "the setup in every look", isSetup: true, run: beforeTheFirstUser },
];

export default [
  { id: "B13", name: "every screen: axe, language, width, no error", run: everyScreen },
  { id: "B13-menu", name: "the menu of narrow screens, without JavaScript", run: theMenuOfNarrowScreens },
  { id: "B12", name: "our own error pages", run: ourOwnErrorPages },
  { id: "B16", name: "bytes of the first load", run: bytesOfTheFirstLoad },
];
