// Logging in, and what those with fewer rights cannot do.
import { ADMIN, api, logIn } from "../browser.mjs";
import { assert, faultOf, path, shows } from "../expect.mjs";
import { until } from "../until.mjs";

const VIEWER = { name: "vic", password: "another good password" };

async function setUpAndLogIn({ fleet, window, kept }) {
  const page = await window();
  await page.goto(`${fleet.url}/`);
  assert.equal(path(page), "/setup", "without a user, everything leads to the setup");
  await page.goto(fleet.setupLink);
  assert.notEqual(await page.locator("#code").inputValue(), "");
  await page.locator("#name").fill(ADMIN.name);
  await page.locator("#password").fill("short");
  await page.locator("#again").fill("short");
  await page.locator("button.primary").click();
  await until("a fault beside the password", async () => (await faultOf(page, "password")) !== "");
  await page.locator("#password").fill(ADMIN.password);
  await page.locator("#again").fill(ADMIN.password);
  await page.locator("button.primary").click();
  await page.waitForURL((at) => !at.pathname.startsWith("/setup"));

  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL(`${fleet.url}/login`);
  await page.locator("#name").fill(ADMIN.name);
  await page.locator("#password").fill("a wrong password");
  await page.locator("button.primary").click();
  await shows(page, "Wrong user name or password");
  assert.equal(await page.locator("#name").inputValue(), ADMIN.name, "the name is kept");
  // A page that needs a login is shown after it.
  await page.goto(`${fleet.url}/nodes`);
  assert.equal(path(page), "/login");
  await page.locator("#name").fill(ADMIN.name);
  await page.locator("#password").fill(ADMIN.password);
  await page.locator("button.primary").click();
  await page.waitForURL(`${fleet.url}/nodes`);
  kept.admin = page;
  await page.goto(fleet.setupLink);
  assert.notEqual(path(page), "/setup", "the code worked once");
}

async function aViewerCannotChangeAnything({ fleet, window, kept }) {
  const { admin } = kept;
  await api(admin, "POST", `${fleet.url}/api/v1/apps/SHOP/rules`, { key: "pay", max_permits: 10, rate: 5 });
  await admin.goto(`${fleet.url}/users`);
  await admin.locator("#name").fill(VIEWER.name);
  await admin.locator("#role").selectOption("viewer");
  await admin.getByRole("button", { name: "Create" }).click();
  const link = (await admin.locator(".note pre").innerText()).trim();
  assert.match(link, /\/link\?code=/, "a one-time link is shown");

  const viewer = await window();
  viewer.expectsFailures = true; // forged requests are denied
  await viewer.goto(link);
  await viewer.locator("#password").fill(VIEWER.password);
  await viewer.locator("#again").fill(VIEWER.password);
  await viewer.locator("button.primary").click();
  await viewer.waitForURL((at) => at.pathname !== "/link");
  const stranger = await window();
  await stranger.goto(link);
  await shows(stranger, "used or expired");
  await viewer.goto(`${fleet.url}/rules`);
  await shows(viewer, "pay");
  for (const text of ["New limit", "Delete", "Users", "Audit"]) {
    const found = viewer.getByRole("link", { name: text, exact: true });
    assert.equal(await found.count(), 0, `a viewer is shown no link ${text}`);
  }
  for (const target of [
    "/rules",
    "/apps/SHOP/rules/pay",
    "/apps/SHOP/rules/pay/yaml",
    "/overrides",
    "/apps/SHOP/versions",
  ]) {
    await viewer.goto(fleet.url + target);
    const buttons = viewer
      .locator("main")
      .locator("button:not([disabled]), a.btn.primary, input[type=checkbox]");
    const texts = (await buttons.allInnerTexts()).filter(
      (it) => !["Search", "Filter", "Fill in"].includes(it),
    );
    assert.deepEqual(texts, [], `a viewer can press nothing at ${target}`);
  }
  for (const [target, form] of [
    ["/rules/new", { app: "SHOP", key: "more", max_permits: "1", rate: "1", terms: "yes", action: "save" }],
    ["/apps/SHOP/rules/pay", { max_permits: "1", rate: "1", etag: "1", action: "save" }],
    ["/apps/SHOP/rules/pay/delete", { etag: "1" }],
    ["/apps/SHOP/versions/1/rollback", { etag: "1", reason: "x" }],
    ["/apps/SHOP/rules/pay/state", { state: "off", etag: "1" }],
    ["/apps/SHOP/rules/pay/yaml", { text: "key: pay", etag: "1" }],
    ["/apps/SHOP/settings", { description: "x", approvals: "0", state: "active", etag: "1" }],
    ["/rules/bulk", { "pick:SHOP/pay": "1", action: "off" }],
    ["/files/new", { app: "SHOP", text: "domain: x\ndescriptors: []", action: "save" }],
    ["/keys/reset", { domain: "SHOP", entries: "key=pay" }],
    ["/overrides", { domain: "SHOP", entries: "key=pay", action: "block", minutes: "5", reason: "x" }],
    ["/users", { name: "eve", role: "admin", app: "*" }],
    ["/users/ann/state", { state: "disabled" }],
    ["/users/vic/roles", { app: "*", role: "admin" }],
    ["/users/ann/link", {}],
    ["/settings", { approvals: "0" }],
  ]) {
    const status = await viewer.evaluate(
      async ([target, form]) =>
        (await fetch(target, { method: "POST", body: new URLSearchParams(form) })).status,
      [target, form],
    );
    assert.equal(status, 403, `a forged post to ${target}`);
  }
  await admin.goto(`${fleet.url}/users/vic`);
  await admin.getByRole("button", { name: "Disable" }).click();
  await shows(admin, "disabled");
  await viewer.goto(`${fleet.url}/rules`);
  assert.equal(path(viewer), "/login", "a disabled user is out at once");
}

export default [
  { id: "B1", name: "setup, wrong password, login, logout", isSetup: true, run: setUpAndLogIn },
  {
    id: "B11",
    name: "a viewer sees no button and forged posts are denied",
    run: aViewerCannotChangeAnything,
  },
];
