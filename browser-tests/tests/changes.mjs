// Change sets: from a draft to every node, and both sides of a conflict.
import { api } from "../browser.mjs";
import { draft, invite } from "../data.mjs";
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";

const BEA = { name: "bea", password: "another good password", role: "approver" };

async function fromADraftToEveryNode({ fleet, kept, window }) {
  const { admin } = kept;
  const app = `${fleet.url}/api/v1/apps/FOUR`;
  await api(admin, "POST", `${app}/rules`, { key: "eyes", max_permits: 10, rate: 10 });
  const { etag } = await api(admin, "GET", app);
  await api(admin, "PUT", app, { approvals: 1 }, { "If-Match": etag ?? "" });
  const approver = await invite(admin, fleet, window, BEA);

  await admin.goto(`${fleet.url}/apps/FOUR/rules/eyes`);
  await admin.locator("#rate").fill("2");
  await admin.locator("#max_permits").fill("2");
  await admin.getByRole("button", { name: "Save to draft" }).click();
  await admin.waitForURL(/\/changes\//);
  const target = admin.url();
  for (const [before, after] of [["10", "2"]]) {
    await until("the difference by field", async () => {
      const [gone, come] = [admin.locator("del").allInnerTexts(), admin.locator("ins").allInnerTexts()];
      return (
        (await gone).every((it) => it === before) &&
        (await come).every((it) => it === after) &&
        (await come).length === 2
      );
    });
  }
  await admin.getByRole("link", { name: "YAML, side by side" }).click();
  await shows(admin, "rate: 2");
  await admin.goto(target);
  await admin.getByRole("button", { name: "Submit" }).click();
  await shows(admin, "waiting for approval");
  assert.equal(
    await admin.getByRole("button", { name: "Approve" }).count(),
    0,
    "nobody approves an own change",
  );
  assert.equal(await admin.getByRole("button", { name: "Publish" }).count(), 0);

  await approver.goto(`${fleet.url}/`);
  await approver.getByRole("link", { name: "eyes" }).first().click();
  await approver.locator("#comment").fill("Agreed with the supplier");
  await approver.getByRole("button", { name: "Approve" }).click();
  await shows(approver, "approved");
  await approver.getByRole("button", { name: "Publish" }).click();
  await shows(approver, "published");
  await shows(approver, "Agreed with the supplier");
  const denies = async (node) => (await fleet.check(node, "FOUR", "eyes", 3)).outcome === "deny";
  for (const node of fleet.nodes) await until(`${node.label} denies`, () => denies(node));
}

async function bothSidesOfAConflict({ fleet, kept }) {
  const page = kept.admin;
  const rule = `${fleet.url}/api/v1/apps/SIDES/rules/both`;
  await api(page, "POST", `${fleet.url}/api/v1/apps/SIDES/rules`, { key: "both", max_permits: 10, rate: 10 });
  const made = await draft(page, fleet, "SIDES", "both", (it) => (it.rate = 20), "Twice as fast");
  const now = await api(page, "GET", rule);
  await api(page, "PUT", rule, { ...now.body, rate: 30 }, { "If-Match": now.etag ?? "" });

  await page.goto(`${fleet.url}/changes/${made.body.id}`);
  await shows(page, "Others changed these rules meanwhile");
  const sides = page.getByRole("row", { name: /Rate/ });
  assert.deepEqual((await sides.locator("td").allInnerTexts()).map((it) => it.trim()).slice(1), [
    "10",
    "30",
    "20",
  ]);
  await page.getByRole("button", { name: "Publish" }).click();
  await shows(page, "Others changed these rules meanwhile");
  assert.equal(
    (await api(page, "GET", rule)).body.rate,
    30,
    "nothing is overwritten before somebody decides",
  );
  await page.getByLabel("Use yours").check();
  await page.getByRole("button", { name: "Resolve" }).click();
  await page.getByRole("button", { name: "Publish" }).click();
  await shows(page, "published");
  await until("it is published", async () => (await api(page, "GET", rule)).body.rate === 20);
}

async function theEditorChecksWhileYouType({ fleet, kept }) {
  const page = kept.admin;
  await page.goto(`${fleet.url}/files/new?example=queue`);
  await page.locator("#app").fill("TYPED");
  const faults = page.locator("[data-faults]");
  assert.ok(!(await faults.isVisible()));
  await page
    .locator("#text")
    .fill("domain: typed\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, limit: 5}\n");
  await until(
    "a fault with its line",
    async () => (await faults.isVisible()) && /^4:/m.test(await faults.innerText()),
  );
  assert.equal(await page.locator(".gutter .bad").innerText(), "4", "its line is marked");
  await page
    .locator("#text")
    .fill(
      "domain: typed\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n",
    );
  await until(
    "no fault",
    async () => !(await faults.isVisible()) && (await page.locator(".gutter .bad").count()) === 0,
  );
  await page.keyboard.press("Control+s");
  await page.waitForURL(/\/changes\//);
  await shows(page, "draft");
}

export default [
  {
    id: "B4",
    name: "a draft is approved by somebody else and published to every node",
    run: fromADraftToEveryNode,
  },
  {
    id: "B4-editor",
    name: "the editor marks faulty lines while you type, and Ctrl+S saves a draft",
    run: theEditorChecksWhileYouType,
  },
  {
    id: "B5-conflict",
    name: "a draft that others have overtaken shows both sides",
    run: bothSidesOfAConflict,
  },
];
