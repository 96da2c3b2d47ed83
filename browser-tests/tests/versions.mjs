// Two editors of a rule, and going back to a version.
import { api, logIn } from "../browser.mjs";
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";

async function twoEditors({ fleet, kept, window }) {
  const rule = { key: "shared", max_permits: 100, rate: 5 };
  await api(kept.admin, "POST", `${fleet.url}/api/v1/apps/EDIT/rules`, rule);
  const [first, second] = [kept.admin, await window()];
  await logIn(second, fleet.url);
  const target = `${fleet.url}/apps/EDIT/rules/shared`;
  await Promise.all([first.goto(target), second.goto(target)]);
  for (const [page, rate] of [
    [first, "7"],
    [second, "9"],
  ])
    await page.locator("#rate").fill(rate);
  await first.getByRole("button", { name: "Save", exact: true }).click();
  await first.waitForURL((at) => at.pathname === "/rules");
  await second.getByRole("button", { name: "Save", exact: true }).click();
  await shows(second, "was changed while you edited it");
  assert.equal(await second.locator("#rate").inputValue(), "9", "what the second entered is kept");
  await shows(second, "Rate per second 7");
}

async function goingBack({ fleet, kept }) {
  const page = kept.admin;
  const rules = `${fleet.url}/api/v1/apps/BACK/rules`;
  await api(page, "POST", rules, { key: "quote", max_permits: 1000, rate: 1000 });
  await api(page, "PUT", `${rules}/quote`, { max_permits: 2, rate: 1 }, { "If-Match": '"1"' });
  const denies = async () => (await fleet.check(fleet.nodes[0], "BACK", "quote", 3)).outcome === "deny";
  await until("the lower limit is in force", denies);
  await page.goto(`${fleet.url}/apps/BACK/versions`);
  await page.getByRole("link", { name: "Roll back" }).first().click();
  await page.getByRole("button", { name: "Roll back" }).click();
  assert.match(page.url(), /rollback/, "a reason is required");
  await page.locator("#reason").fill("too low");
  await page.getByRole("button", { name: "Roll back" }).click();
  await shows(page, "live on 3 of 3 nodes");
  await until("the higher limit is back", async () => !(await denies()));
  await page.goto(`${fleet.url}/apps/BACK/versions`);
  await shows(page, "too low");
}

export default [
  { id: "B5", name: "of two editors the second sees the change of the first", run: twoEditors },
  { id: "B6", name: "a rollback is a new version, in force on all nodes", run: goingBack },
];
