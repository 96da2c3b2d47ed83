// The control plane is killed while a form is open.
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";

async function killedWhileAFormIsOpen({ fleet, window, kept }) {
  const page = await window({ storageState: await kept.admin.context().storageState() });
  await page.goto(`${fleet.url}/rules/new`);
  for (const [name, value] of [["app", "AWAY"], ["key", "late"], ["description", "kept"]]) {
    await page.locator(`#${name}`).fill(value);
  }
  await page.locator("#terms").check();
  await fleet.control.kill();
  page.expectsFailures = true;
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await shows(page, "The control plane cannot be reached");
  assert.equal(await page.locator("#description").inputValue(), "kept");
  for (const node of fleet.nodes) {
    assert.notEqual((await fleet.check(node, "SIP_HOTEL", "pushGeoHotelList")).limit, null, "nodes keep their rules");
  }
  await fleet.startControl();
  await until("the notice is gone", async () => (await page.locator("main > .note[role=alert]").count()) === 0);
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

export default [
  { id: "B15", name: "what was entered survives a control plane that is killed", run: killedWhileAFormIsOpen },
];
