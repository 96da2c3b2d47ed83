// The pictures of the README and of docs/console.md: `node screenshots.mjs FOLDER`.
// With `--all`, every screen in every look, for people who work on the console.
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Browser } from "./browser.mjs";
import { fill, inForce, setUp, traffic } from "./data.mjs";
import { LOOKS, nameOf, wear } from "./inspect.mjs";
import { patterns, places } from "./routes.mjs";
import { Fleet } from "./servers.mjs";

const isAll = process.argv.includes("--all");
const folder = process.argv.slice(2).find((it) => !it.startsWith("--")) ?? "docs/pictures";
mkdirSync(folder, { recursive: true });

/** Name of the picture, the screen (or a place of it), its look. */
const PICTURES = [
  ["console-overview", "/", { lang: "en", theme: "light" }],
  ["console-list", "/rules", { lang: "en", theme: "light", width: 1440 }],
  ["console-list-zh", "/rules", { lang: "zh", theme: "dark", width: 1440 }],
  ["console-new", "/rules/new", { lang: "en", theme: "light" }],
  ["console-rule", "/apps/SHOP/rules/checkout", { lang: "en", theme: "light" }],
  ["console-change", "/changes/{id}", { lang: "en", theme: "light" }],
  ["console-keys", "/keys?domain=SHOP&entries=key%3Dcheckout", { lang: "en", theme: "light" }],
  ["console-nodes", "/nodes", { lang: "zh", theme: "light" }],
  ["console-overview-zh", "/", { lang: "zh", theme: "light" }],
  ["console-rule-zh", "/apps/SHOP/rules/checkout", { lang: "zh", theme: "light" }],
  ["console-change-zh", "/changes/{id}", { lang: "zh", theme: "light" }],
  ["console-keys-zh", "/keys?domain=SHOP&entries=key%3Dcheckout", { lang: "zh", theme: "light" }],
];

const browser = await Browser.launch(join(folder, ".."));
const fleet = await Fleet.start(3);
let isOver = false;
try {
  const window = (options) => browser.window(options);
  const page = await window({ viewport: { width: 1280, height: 800 } });
  await setUp(page, fleet);
  await fill(page, fleet, window);
  await inForce(fleet);
  const sending = traffic(fleet, () => isOver);
  // History is drawn in steps of ten seconds, over 15 minutes.
  await new Promise((done) => setTimeout(done, Number(process.env.TRAFFIC_SECONDS ?? 60) * 1000));
  const found = await places(page, fleet.url, patterns());
  for (const [name, target, look] of isAll ? everything(found) : PICTURES) {
    await wear(page, fleet.url, { width: 1280, ...look });
    if (!isAll) await page.setViewportSize({ width: look.width ?? 1280, height: 800 });
    await page.goto(fleet.url + (found.get(target) ?? target));
    // Figures that scripts ask of the nodes.
    if (target === "/rules") await page.locator("td.tokens .meter").first().waitFor();
    const path = join(folder, `${name}.png`);
    await page.screenshot({ path, fullPage: isAll });
    if (!isAll) compress(path);
  }
  isOver = true;
  await sending;
} finally {
  isOver = true;
  await fleet.stop();
  await browser.close();
}

function* everything(found) {
  for (const pattern of found.keys()) {
    const name = pattern.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "") || "overview";
    for (const look of LOOKS) yield [`${name}-${nameOf(look)}`, pattern, look];
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
