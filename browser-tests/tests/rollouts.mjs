// A version that reaches one node first, seen live, and withdrawn because that node denies too much.
import { api } from "../browser.mjs";
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";

/** Gives an app a plan by its form. */
async function plan(page, fleet, app, steps, seconds) {
  await page.goto(`${fleet.url}/apps/${app}/settings`);
  await page.locator("#steps").fill(steps);
  await page.locator("#soak_s").fill(String(seconds));
  await page.getByRole("button", { name: "Save" }).click();
  await shows(page, "Saved");
}

async function withdrawnByAGate({ fleet, kept, note }) {
  const page = kept.admin;
  const rules = `${fleet.url}/api/v1/apps/STEPS/rules`;
  const generous = { key: "quote", max_permits: 1000000, rate: 1000000 };
  const { etag } = await api(page, "POST", rules, generous);
  await until("it is in force", async () => {
    const limits = await Promise.all(fleet.nodes.map((node) => fleet.check(node, "STEPS", "quote")));
    return limits.every((it) => it.limit !== null);
  });
  await page.goto(`${fleet.url}/apps/STEPS/settings`);
  await page.locator("#steps").fill("1 node\n50 %");
  await page.getByRole("button", { name: "Save" }).click();
  await shows(page, "the last step, and only the last one, must be all");
  await plan(page, fleet, "STEPS", "1 node\nall", 8);

  const op = { op: "put", kind: "car", key: "quote", base: Number((etag ?? "").replaceAll('"', "")) };
  const rule = { ...generous, max_permits: 1, rate: 1 };
  const made = await api(page, "POST", `${fleet.url}/api/v1/changes`, {
    app: "STEPS",
    title: "Far too strict",
    ops: [{ ...op, rule }],
  });
  await page.goto(`${fleet.url}/changes/${made.body.id}`);
  await page.getByText("1 node → all nodes").click();
  assert.ok(await page.locator("#steps").isVisible(), "another plan can be chosen");
  // 100 decisions per request, so that a slow machine makes enough of them to compare too.
  let isOver = false;
  const asking = fleet.nodes.map(async (node) => {
    while (!isOver) await fleet.checkMany(node, "STEPS", "quote", 100).catch(() => null);
  });
  try {
    await page.getByRole("button", { name: "Publish" }).click();
    await page.waitForURL(/\/apps\/STEPS\/rollout/);
    // Everything from here on appears by itself.
    const stages = (name) => page.locator("[data-swap=nodes] .tag", { hasText: name }).count();
    await until("one node has it", async () => (await stages("new version")) === 1);
    assert.equal(await stages("version before"), 2);
    await until("it is withdrawn", async () => (await stages("version before")) === 3);
  } finally {
    isOver = true;
    await Promise.all(asking);
  }
  await shows(page, "the chosen nodes deny");
  await until("nothing is left to do", async () => (await page.getByLabel("Reason to withdraw").count()) === 0);
  note(await page.locator("[data-swap=steps] .note").innerText());
  for (const node of fleet.nodes) {
    const admits = async () => (await fleet.check(node, "STEPS", "quote", 5)).outcome === "admit";
    await until(`${node.label} admits as before`, admits);
  }
  await page.goto(`${fleet.url}/`);
  await shows(page, "The rollout of version 2 of STEPS was withdrawn");
}

async function movedOnByAnOperator({ fleet, kept }) {
  const page = kept.admin;
  const rules = `${fleet.url}/api/v1/apps/MOVED/rules`;
  await api(page, "POST", rules, { key: "first", max_permits: 1000, rate: 1000 });
  await plan(page, fleet, "MOVED", "1 node\n2 nodes\nall", 3600);
  await api(page, "POST", rules, { key: "second", max_permits: 1000, rate: 1000 });
  await page.goto(`${fleet.url}/rollouts`);
  await page.getByRole("link", { name: "MOVED" }).click();
  const stages = (name) => page.locator("[data-swap=nodes] .tag", { hasText: name }).count();
  const have = (nodes) => until(`${nodes} have it`, async () => (await stages("new version")) === nodes);
  await have(1);
  await page.getByRole("button", { name: "Pause" }).click();
  await shows(page, "paused");
  await page.getByRole("button", { name: "Resume" }).click();
  await shows(page, "running");
  await page.getByRole("button", { name: "Next step" }).click();
  await have(2);
  await page.getByRole("button", { name: "Withdraw" }).click();
  await page.locator("#reason-hint .fault").waitFor(); // it wants a reason
  await have(2);
}

export default [
  {
    id: "B4-rollout",
    name: "a version is rolled out to one node, seen live, and withdrawn by a gate",
    run: withdrawnByAGate,
  },
  { id: "B4-moved", name: "an operator pauses, resumes and moves a rollout on", run: movedOnByAnOperator },
];
