// Pages of a real Chromium that remember what went wrong in them.
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
export const ADMIN = { name: "ann", password: "correct horse battery" };

/** @typedef {{ faults?: string[], expectsFailures?: boolean, lang?: string }} Remembered */
/** @typedef {import("playwright-core").Page & Remembered} Page */

export class Browser {
  /** @type {import("playwright-core").Browser} */ chromium;
  /** Where screenshots go. */
  folder = "";

  static async launch(outputFolder) {
    const it = new Browser();
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    it.chromium = await chromium.launch({
      executablePath,
      args: ["--no-sandbox", "--disable-dev-shm-usage"],
    });
    it.folder = outputFolder;
    mkdirSync(outputFolder, { recursive: true });
    return it;
  }

  /** A window of its own, with its own cookies. `options` are Playwright's, and `lang`. */
  async window(options = {}) {
    const { lang = "en", ...others } = options;
    const context = await this.chromium.newContext({
      locale: lang === "zh" ? "zh-CN" : "en-GB",
      timezoneId: "Asia/Shanghai",
      viewport: { width: 1440, height: 900 },
      reducedMotion: "reduce",
      ...others,
    });
    context.setDefaultTimeout(10_000);
    /** @type {Page} */
    const page = await context.newPage();
    page.faults = [];
    watch(page);
    return page;
  }

  async close() {
    await this.chromium.close();
  }
}

function watch(page) {
  page.on("pageerror", (error) => page.faults.push(`script: ${error.message}`));
  page.on("console", (message) => {
    // Chromium reports a page's own 404 or 422 here too; those of what it loads are found below.
    const isStatus = message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !isStatus)
      page.faults.push(`console: ${message.text()}`);
  });
  page.on("response", (response) => {
    const isPart = !response.request().isNavigationRequest() && response.status() >= 400;
    if (isPart && !page.expectsFailures) page.faults.push(`${response.status()} ${response.url()}`);
  });
}

/** What axe-core finds on the page, one line each. */
export async function violations(page) {
  await page.evaluate(`if (!window.axe) { ${axe} }`);
  const found = await page.evaluate((tags) => globalThis["axe"].run(document, { runOnly: tags }), RULES);
  return found.violations.flatMap((rule) =>
    rule.nodes.map((node) => `axe ${rule.id}: ${node.target} ${node.any[0]?.message ?? rule.help}`),
  );
}

/** Logs in, wherever the page is. */
export async function logIn(page, url, user = ADMIN) {
  await page.goto(`${url}/login`);
  await page.locator("#name").fill(user.name);
  await page.locator("#password").fill(user.password);
  await page.locator("#password").press("Enter");
  await page.waitForURL((at) => !at.pathname.startsWith("/login"));
}

/** Calls the API with the cookies of the page. */
export async function api(page, method, url, body, headers = {}) {
  const reply = await page
    .context()
    .request.fetch(url, { method, data: body, headers, failOnStatusCode: false });
  const text = await reply.text();
  return { status: reply.status(), etag: reply.headers().etag, body: text ? JSON.parse(text) : null };
}

export const shot = (page, folder, name) =>
  page.screenshot({ path: join(folder, `${name}.png`), fullPage: true }).catch(() => null);
