// A limit on a recorded trace: what other numbers would have done, taken over by one click, and undone.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { api } from "../browser.mjs";
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";

async function aTraceRecommendsNumbers({ fleet, kept }) {
  const page = kept.admin;
  await api(page, "POST", `${fleet.url}/api/v1/apps/TRACE/rules`, { key: "sale", max_permits: 10, rate: 2 });
  const rule = `${fleet.url}/apps/TRACE/rules/sale`;
  const folder = join(fleet.data, "traces");
  await page.goto(`${rule}/replay`);
  await shows(page, "No traces yet");
  await shows(page, folder);
  mkdirSync(folder);
  // Ten buyers come once a second, for a minute.
  const lines = Array.from({ length: 600 }, (_, nth) => `${nth * 100},buyer-${nth % 10}`);
  writeFileSync(join(folder, "sale.csv"), ["t_ms,client", ...lines, ""].join("\n"));

  await page.goto(rule);
  await page.getByRole("navigation", { name: "TRACE / sale" }).getByRole("link", { name: "Replay" }).click();
  await page.locator("#rate").fill("10");
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  const cells = (name) =>
    page.locator("#result tr").filter({ has: page.getByRole("rowheader", { name, exact: true }) });
  // 10 at once, and 2 a second for 59.9 s: 129 of 600.
  await until("the result", async () => (await cells("Admitted").count()) === 1);
  assert.deepEqual(await cells("Admitted").locator("td").allInnerTexts(), ["129 (21.5 %)", "600 (100.0 %)"]);
  assert.deepEqual(await cells("Denied").locator("td").allInnerTexts(), ["471 (78.5 %)", "0 (0.0 %)"]);
  assert.equal(await page.locator("figure.chart svg path.line").count(), 3, "a curve for each outcome");
  const height = await page.locator("figure.chart svg").evaluate((it) => it.getBoundingClientRect().height);
  assert.ok(height > 50, `the chart is drawn, ${height} pixels high`);

  // One click fills in the form, a second saves, and a rollback undoes it.
  await page.getByRole("link", { name: "Fill in the form with these numbers" }).click();
  assert.equal(await page.locator("#rate").inputValue(), "10");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.waitForURL(/saved=TRACE/); // a page that is still on its way would end the next visit
  const rates = async () => (await api(page, "GET", `${fleet.url}/api/v1/apps/TRACE/rules/sale`)).body.rate;
  await until("the new rate is in force", async () => (await rates()) === 10);
  await page.goto(`${fleet.url}/apps/TRACE/versions/1/rollback`);
  await page.locator("#reason").fill("the sale is over");
  await page.getByRole("button", { name: "Roll back", exact: true }).click();
  await page.waitForURL((at) => at.pathname === "/rules");
  await until("the old rate is back", async () => (await rates()) === 2);

  const zh = await page.context().newPage();
  await zh.context().addCookies([{ name: "lang", value: "zh", url: fleet.url }]);
  await zh.goto(`${rule}/replay`);
  await zh.getByRole("button", { name: "回放", exact: true }).click();
  await shows(zh, "仅因突发度而放行");
  await zh.context().addCookies([{ name: "lang", value: "en", url: fleet.url }]);
  await zh.close();
}

export default [
  {
    id: "B18",
    name: "a trace shows what other numbers would do; one click takes them, and a rollback undoes it",
    run: aTraceRecommendsNumbers,
  },
];
