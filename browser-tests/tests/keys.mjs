// Looking up a key, resetting it, blocking it for a time.
import { api } from "../browser.mjs";
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";

async function lookUpResetAndBlock({ fleet, kept }) {
  const page = kept.admin;
  await api(page, "POST", `${fleet.url}/api/v1/apps/LOOK/rules`, {
    key: "up",
    max_permits: 5,
    rate: 1,
    per: "provider",
  });
  const ask = (node, hits) =>
    fleet.ask(
      node,
      "LOOK",
      [
        { key: "key", value: "up" },
        { key: "provider", value: "agoda" },
      ],
      hits,
    );
  for (const node of fleet.nodes) {
    await until("the rule is in force", async () => (await ask(node, 0)).limit !== null);
    await ask(node, 5);
  }
  await page.goto(`${fleet.url}/keys`);
  await page.locator("#domain").fill("LOOK");
  await page.locator("#entries").fill("key=up\nprovider=agoda");
  await page.getByRole("button", { name: "Look up" }).click();
  const tokens = async () => (await page.locator("td.n").allInnerTexts()).map((it) => it.trim());
  await until("what each node counts, and their sum", async () => (await tokens()).length === 4);
  assert.ok(
    (await tokens()).slice(0, 3).every((it) => /^[0-4] \/ 5$/.test(it)),
    (await tokens()).join(", "),
  );
  await page.getByRole("button", { name: "Reset" }).click();
  await shows(page, "Reset: its next request finds a full quota");
  await page.getByRole("link", { name: "Block or allow this key" }).click();
  assert.equal(await page.locator("#domain").inputValue(), "LOOK", "the form names the key");

  await page.locator("#minutes").fill("5");
  await page.locator("#reason").fill("B8");
  const began = performance.now();
  await page.getByRole("button", { name: "New block or allowance" }).click();
  await shows(page, "Rules that it goes before");
  await page.getByRole("button", { name: "Block", exact: true }).click();
  // The question before has the same address as the list.
  await page.getByRole("button", { name: "End now" }).first().waitFor();
  for (const node of fleet.nodes) {
    await until(
      "every node denies",
      async () => (await ask(node, 0)).outcome === "deny" || (await ask(node, 1)).outcome === "deny",
    );
  }
  assert.ok(performance.now() - began < 5_000);
  await page.goto(`${fleet.url}/keys?domain=LOOK&entries=key%3Dup%0Aprovider%3Dagoda`);
  await shows(page, "Block · Time left");
  await page.goto(`${fleet.url}/overrides`);
  await page.getByRole("button", { name: "End now" }).first().click();
  await shows(page, "Nothing is blocked or allowed");
  for (const node of fleet.nodes) {
    await until("no node denies", async () => (await ask(node, 1)).outcome !== "deny");
  }
}

export default [
  { id: "B8", name: "a key is looked up, reset, blocked and let go again", run: lookUpResetAndBlock },
];
