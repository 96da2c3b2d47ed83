// The control plane is killed while a form is open, and comes back with an old copy of its database.
import { cpSync, rmSync } from "node:fs";
import { api } from "../browser.mjs";
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";
import { WORDS, lookAt } from "./screens.mjs";

async function killedWhileAFormIsOpen({ fleet, window, kept }) {
  const page = await window({ storageState: await kept.admin.context().storageState() });
  await page.goto(`${fleet.url}/rules/new`);
  for (const [name, value] of [
    ["app", "AWAY"],
    ["key", "late"],
    ["description", "kept"],
  ]) {
    await page.locator(`#${name}`).fill(value);
  }
  await page.locator("#terms").check();
  await fleet.control.kill();
  page.expectsFailures = true;
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await shows(page, "The control plane cannot be reached");
  assert.equal(await page.locator("#description").inputValue(), "kept");
  for (const node of fleet.nodes) {
    assert.notEqual(
      (await fleet.check(node, "SIP_HOTEL", "pushGeoHotelList")).limit,
      null,
      "nodes keep their rules",
    );
  }
  await fleet.startControl();
  await until(
    "the notice is gone",
    async () => (await page.locator("main > .note[role=alert]").count()) === 0,
  );
  assert.equal(await page.locator("#description").inputValue(), "kept");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.waitForURL((at) => at.pathname === "/rules");
  await shows(page, "late");
  await until("the nodes are back", async () => {
    await page.reload();
    return page.getByText("live on 3 of 3 nodes").first().isVisible();
  });
  page.faults = page.faults.filter((it) => !it.includes("ERR_CONNECTION_REFUSED"));
}

async function anOldCopyOfTheDatabase({ fleet, window, kept }) {
  const page = await window({ storageState: await kept.admin.context().storageState() });
  const rule = `${fleet.url}/api/v1/apps/COPIED/rules/old`;
  await api(page, "POST", `${fleet.url}/api/v1/apps/COPIED/rules`, { key: "old", max_permits: 10, rate: 10 });
  const copy = `${fleet.data}.copy`;
  await fleet.control.kill();
  cpSync(fleet.data, copy, { recursive: true });
  await fleet.startControl();
  await api(page, "PUT", rule, { max_permits: 1, rate: 1 }, { "If-Match": '"1"' });
  const denies = async (node) => (await fleet.check(node, "COPIED", "old", 2)).outcome === "deny";
  for (const node of fleet.nodes) await until(`${node.label} has the second version`, () => denies(node));
  await fleet.control.kill();
  rmSync(fleet.data, { recursive: true });
  cpSync(copy, fleet.data, { recursive: true });
  await fleet.startControl();

  page.expectsFailures = true; // the live parts, until the control plane is back
  const link = page.locator("li", { hasText: "COPIED" }).getByRole("link", { name: "Show" });
  const isFrozen = async () => {
    await page.goto(`${fleet.url}/`);
    return link.first().isVisible();
  };
  await until("the overview says that the app is frozen", isFrozen, { seconds: 90 }); // nodes wait longer each time
  await link.first().click();
  await page.waitForURL(`${fleet.url}/apps/COPIED/frozen`);
  const failures = [];
  await lookAt(page, "-frozen", fleet.url, "/apps/COPIED/frozen", new Set([...WORDS, "COPIED"]), failures);
  assert.deepEqual(failures, []);
  await page.locator("#reason").fill("B15");
  await page.getByRole("button", { name: "Take over from a node" }).click();
  await page.waitForURL((at) => at.pathname === "/versions");
  await until("the rule of the nodes is there", async () => (await api(page, "GET", rule)).body.rate === 1);
  for (const node of fleet.nodes) assert.ok(await denies(node), "nodes kept their rules all the time");
  page.faults = page.faults.filter((it) => !it.includes("ERR_CONNECTION_REFUSED"));
}

export default [
  {
    id: "B15",
    name: "what was entered survives a control plane that is killed",
    run: killedWhileAFormIsOpen,
  },
  {
    id: "B15-restored",
    name: "an old copy of the database freezes an app until somebody decides",
    run: anOldCopyOfTheDatabase,
  },
];
