// The pictures of the README and of docs/console.md: `node screenshots.mjs FOLDER`.
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ADMIN, Browser, api } from "./browser.mjs";
import { wear } from "./inspect.mjs";
import { patterns, places } from "./routes.mjs";
import { Fleet } from "./servers.mjs";
import { until } from "./until.mjs";

const folder = process.argv[2] ?? "docs/images";
mkdirSync(folder, { recursive: true });

/** App, key, burst, rate, state, English and Chinese description. */
const RULES = [
  ["HOTEL_SIP", "addHotelInfo", 10, 5, "on", "Adds a hotel"],
  ["HOTEL_SIP", "alterHotelInfo", 10, 5, "on", "Changes a hotel"],
  ["HOTEL_SIP", "deleteHotel", 10, 5, "shadow", "Deletes a hotel"],
  ["HOTEL_SIP", "pushGeoHotelList", 100, 40, "on", "Pushes positions; agreed with the supplier"],
  ["SHOP", "search", 500, 200, "on", "Search of the shop"],
  ["SHOP", "checkout", 50, 20, "on", "Payments: the provider allows 20 a second"],
];

/** Name of the picture, the screen, its look. A screen that does not exist yet is left out. */
const PICTURES = [
  ["list", "/rules", { lang: "en", theme: "light" }],
  ["list-zh-dark", "/rules", { lang: "zh", theme: "dark" }],
  ["overview", "/", { lang: "en", theme: "light" }],
  ["new", "/rules/new", { lang: "en", theme: "light" }],
  ["rule", "/apps/{app}/rules/{key}", { lang: "en", theme: "light" }],
  ["change", "/changes/{id}", { lang: "en", theme: "light" }],
  ["rollout", "/rollouts/{id}", { lang: "en", theme: "light" }],
  ["keys", "/keys", { lang: "en", theme: "light" }],
  ["nodes", "/nodes", { lang: "en", theme: "light" }],
  ["audit", "/audit", { lang: "en", theme: "dark" }],
];

const browser = await Browser.launch(join(folder, ".."));
const fleet = await Fleet.start(3);
let isOver = false;
try {
  const page = await browser.window({ viewport: { width: 1280, height: 800 } });
  await page.goto(fleet.setupLink);
  for (const [field, value] of [["name", ADMIN.name], ["password", ADMIN.password], ["again", ADMIN.password]]) {
    await page.locator(`#${field}`).fill(value);
  }
  await page.locator("button.primary").click();
  await page.waitForURL((at) => !at.pathname.startsWith("/setup"));
  for (const [app, key, max_permits, rate, state, description] of RULES) {
    await api(page, "POST", `${fleet.url}/api/v1/apps/${app}/rules`, { key, max_permits, rate, state, description });
  }
  const traffic = Promise.all(fleet.nodes.map(send));
  await until("the rules limit", async () => (await fleet.check(fleet.nodes[0], "SHOP", "checkout", 0)).limit !== null);
  // History is drawn in steps of ten seconds.
  await new Promise((done) => setTimeout(done, Number(process.env.TRAFFIC_SECONDS ?? 60) * 1000));
  const found = await places(page, fleet.url, patterns());
  found.set("/", "/");
  for (const [name, pattern, look] of PICTURES) {
    const target = found.get(pattern);
    if (!target) {
      console.log(`no screen ${pattern}`);
      continue;
    }
    await wear(page, fleet.url, { ...look, width: 1280 });
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(fleet.url + target);
    const file = join(folder, `${name}.png`);
    await page.screenshot({ path: file });
    compress(file);
  }
  isOver = true;
  await traffic;
} finally {
  isOver = true;
  await fleet.stop();
  await browser.close();
}

/** Requests of every rule, somewhat more than they admit. */
async function send(node) {
  while (!isOver) {
    for (const [app, key, , rate] of RULES) {
      await fleet.check(node, app, key, Math.ceil((rate / 25) * (0.6 + Math.random()))).catch(() => null);
    }
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** A palette makes a third of a picture of text. */
function compress(file) {
  try {
    execFileSync("pngquant", ["--force", "--skip-if-larger", "--ext", ".png", "--quality", "80-100", file]);
  } catch {
    console.log(`${file} is as Chromium wrote it; install pngquant for smaller ones`);
  }
}
