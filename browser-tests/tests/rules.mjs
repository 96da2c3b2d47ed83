// The form of a limit, and the list of limits.
import { api, logIn } from "../browser.mjs";
import { assert, faultOf, path, shows } from "../expect.mjs";
import { until } from "../until.mjs";

/** Asks a node until it denies; how long after `began` that was. */
async function deniedAfter(fleet, app, key, began) {
  await until(`${app} ${key} is limited`, async () => {
    const replies = await Promise.all(fleet.nodes.map((node) => fleet.check(node, app, key, 3)));
    return replies.every((it) => it.outcome === "deny");
  });
  return Math.round(performance.now() - began);
}

async function everyRejectionIsBesideItsField({ fleet, kept, note }) {
  const page = kept.admin;
  await page.goto(`${fleet.url}/rules/new`);
  const fill = async (values) => {
    for (const [name, value] of Object.entries(values)) await page.locator(`#${name}`).fill(value);
  };
  const submit = () => page.getByRole("button", { name: "Create", exact: true }).click();
  await fill({ app: "", key: "a*", max_permits: "0", rate: "1.5" });
  await submit();
  for (const field of ["app", "key", "max_permits", "rate", "terms"]) {
    await until(`a fault beside ${field}`, async () => (await faultOf(page, field)) !== "");
  }
  assert.equal(await page.locator("#key").inputValue(), "a*", "what was entered is kept");
  assert.equal(await page.locator("#rate").getAttribute("aria-invalid"), "true");

  await page.locator("#preset").fill("2");
  await page.getByRole("button", { name: "Fill in" }).click();
  assert.deepEqual(
    [await page.locator("#max_permits").inputValue(), await page.locator("#rate").inputValue()],
    ["2", "2"],
  );
  // To protect a third party: the same numbers as a queue, and not as a bucket that passes its burst at once.
  await fill({ app: "SIP_HOTEL", key: "pushGeoHotelList", max_permits: "50" });
  await page.getByRole("button", { name: "Use a queue instead" }).click();
  await page.waitForURL((at) => at.pathname === "/files/new");
  const file = await page.locator("#text").inputValue();
  for (const line of [
    "algorithm: leaky_bucket",
    "form: queue",
    "requests_per_unit: 2",
    "capacity: 50",
    'value: "pushGeoHotelList"',
  ]) {
    assert.ok(
      file.split("\n").some((it) => it.trim() === line),
      `${line} in ${file}`,
    );
  }
  assert.equal(await page.locator("#app").inputValue(), "SIP_HOTEL");
  await page.goto(`${fleet.url}/rules/new`);
  await fill({ app: "SIP_HOTEL", key: "pushGeoHotelList", max_permits: "2", rate: "2", description: "42" });
  await page.locator("#terms").check();
  const began = performance.now();
  await submit();
  await shows(page, "live on 3 of 3 nodes");
  const shown = Math.round(performance.now() - began);
  const denied = await deniedAfter(fleet, "SIP_HOTEL", "pushGeoHotelList", began);
  note(`all three nodes deny ${denied} ms after the click; the page says so after ${shown} ms`);

  await page.goto(`${fleet.url}/rules/new`);
  await fill({ app: "SIP_HOTEL", key: "pushGeoHotelList" });
  await page.locator("#terms").check();
  await submit();
  await until("a duplicate is rejected beside the key", async () => (await faultOf(page, "key")) !== "");
}

/** Rows 93 and 97 to 104 of the list of requirements, letter by letter. */
async function theTextsThatArePrescribed({ fleet, kept, window }) {
  const page = await window({ lang: "zh", storageState: await kept.admin.context().storageState() });
  await page.context().addCookies([{ name: "lang", value: "zh", url: fleet.url }]);
  const texts = async (selector) => (await page.locator(selector).allInnerTexts()).map((it) => it.trim());
  await page.goto(`${fleet.url}/rules/new`);
  assert.deepEqual(await texts("main .crumb"), ["限流 / 限流新增"]);
  const labels = (await texts("main form.card > .field > label, main form.card > .pair label")).map((it) =>
    it.replace(/ ?\*$/, ""),
  );
  assert.deepEqual(labels, ["应用标识", "请求标识", "桶突发度", "令牌添加速度", "QPS 预设", "接入描述"]);
  for (const [field, part] of [
    ["app", "SIP_HOTEL"],
    ["key", "pushGeoHotelList"],
    ["max_permits", "正整数"],
    ["rate", "正整数"],
  ]) {
    assert.ok((await page.locator(`#${field}-hint`).innerText()).includes(part), `the help of ${field}`);
  }
  assert.equal(await page.locator("#rate").inputValue(), "1", "the default");
  for (const text of [
    "接受接入条款",
    "接入说明",
    "应用标识与请求标识的组合全局唯一",
    "保护自己的服务",
    "保护第三方",
  ])
    await shows(page, text);
  assert.equal(await page.getByRole("button", { name: "新增", exact: true }).count(), 1);
  await page.locator(".menu a[aria-current=page]", { hasText: "限流新增" }).waitFor();

  await page.goto(`${fleet.url}/rules`);
  assert.deepEqual(await texts("main .crumb"), ["限流管理 / 限流信息列表"]);
  assert.deepEqual(
    (await texts("main thead th")).map((it) => it.replace(/ ↑$/, "")),
    [
      "应用标识",
      "请求标识",
      "桶突发度",
      "令牌添加速率",
      "当前令牌数",
      "描述信息",
      "最近一次更新时间",
      "删除",
    ],
  );
  assert.deepEqual(await texts("#size option"), ["10", "25", "50", "100"]);
  assert.deepEqual(await texts("label[for=size]"), ["每页", "条"]);
  const total = (await api(page, "GET", `${fleet.url}/api/v1/rules?size=1`)).body.total;
  const counts = `显示第 1 到 ${Math.min(10, total)} 条，共 ${total.toLocaleString("en")} 条`;
  assert.equal((await texts(".foot > span"))[0], counts);
  for (const text of ["上一页", "下一页"]) await shows(page, text);
}

async function byTheKeyboardAlone({ fleet, kept }) {
  const page = kept.admin;
  await page.goto(`${fleet.url}/nodes`);
  await page.keyboard.press("g");
  await page.keyboard.press("l");
  await page.waitForURL(`${fleet.url}/rules`);
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("name")), "search");
  await page.keyboard.type("nothing like it");
  await page.keyboard.press("Enter");
  await shows(page, "No rule matches");
  await page.keyboard.press("?");
  await until("the dialog of shortcuts", () => page.locator("dialog[open]").isVisible());
  await page.keyboard.press("Escape");
  await until("it is gone", async () => (await page.locator("dialog").count()) === 0);
  await page.keyboard.press("n");
  await page.waitForURL(`${fleet.url}/rules/new`);
  // Tab from the start of the page through every control of the form, in reading order.
  await page.locator("a.skip").focus();
  await page.keyboard.press("Enter");
  const tabTo = async (id) => {
    for (let presses = 0; presses < 30; presses++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => ({
        id: document.activeElement?.id ?? "",
        isShown: getComputedStyle(/** @type {Element} */ (document.activeElement)).outlineStyle !== "none",
      }));
      if (at.id === id) return assert.ok(at.isShown, `the focus on ${id} can be seen`);
    }
    assert.fail(`Tab never reaches ${id}`);
  };
  for (const [id, text] of [
    ["app", "SIP_HOTEL"],
    ["key", "byKeys"],
    ["max_permits", "3"],
    ["rate", "1"],
  ]) {
    await tabTo(id);
    await page.keyboard.press("Control+a");
    await page.keyboard.type(text);
  }
  await tabTo("terms");
  await page.keyboard.press("Space");
  await page.keyboard.press("Enter");
  await page.waitForURL((at) => at.pathname === "/rules");
  await shows(page, "byKeys");
  await page.keyboard.press("j");
  const isInRow = () => page.evaluate(() => document.activeElement?.closest("tbody tr") !== null);
  assert.ok(await isInRow(), "j moves to the first row");
  // Turned off, the keys do nothing.
  await page.goto(`${fleet.url}/shortcuts`);
  await page.getByRole("button", { name: "Turn them off" }).click();
  await shows(page, "Shortcuts are off");
  await page.keyboard.press("n");
  await page.keyboard.press("?");
  assert.equal(path(page), "/shortcuts");
  assert.equal(await page.locator("dialog").count(), 0);
  await page.getByRole("button", { name: "Turn them on" }).click();
  await shows(page, "Shortcuts are on");
}

const MANY = 1_234;

async function aListOfManyRules({ fleet, kept, note }) {
  const page = kept.admin;
  const began = performance.now();
  const there = (await api(page, "GET", `${fleet.url}/api/v1/rules?size=1`)).body.total;
  for (let first = there; first < MANY; first += 100) {
    const numbers = Array.from({ length: Math.min(100, MANY - first) }, (_, index) => first + index);
    const rows = numbers.map((number) => {
      const key = `key-${String(number).padStart(4, "0")}`;
      return `  - key: "${key}"\n    rate: ${number + 1}\n    max_permits: ${number + 1}\n`;
    });
    const yaml = `tollgate: 1\napp: "MANY-${String(first).padStart(4, "0")}"\ncar:\n${rows.join("")}`;
    const headers = { "content-type": "application/yaml" };
    const made = await page
      .context()
      .request.fetch(`${fleet.url}/api/v1/import`, { method: "POST", data: yaml, headers });
    assert.ok(made.status() < 300, await made.text());
  }
  note(`${MANY - there} rules imported in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  await page.goto(`${fleet.url}/rules`);
  const head = await page.locator("main thead th").allInnerTexts();
  const eight = ["App", "Request key", "Burst", "Rate", "Tokens now", "Description", "Last update", "Delete"];
  assert.deepEqual(head.filter((it) => eight.includes(it.trim())).length, 8, head.join(", "));
  const counts = async () => (await page.locator(".foot > span").innerText()).trim();
  assert.match(await counts(), /^Showing 1 to 10 of 1,234 entries/);
  await page.locator("#size").selectOption("100");
  await page.waitForURL(/size=100/);
  assert.equal(await page.locator("main tbody tr").count(), 100);
  assert.match(await counts(), /^Showing 1 to 100 of 1,234 entries/);
  await page.getByRole("link", { name: "Next" }).click();
  await page.waitForURL(/page=2/);
  assert.match(await counts(), /^Showing 101 to 200 of 1,234 entries/);
  await page.getByRole("link", { name: "Rate" }).click();
  await page.waitForURL(/sort=rate/);
  await shows(page, "key-1233");
  await page.locator("input[name=search]").fill("KEY-00");
  await page.locator("input[name=search]").press("Enter");
  await page.waitForURL(/search=/);
  assert.match(await counts(), /of [0-9]+ entries \(filtered from 1,234\)/);

  await page.goto(`${fleet.url}/rules?search=key-0500`);
  const row = page.locator("main tbody tr[data-key]");
  const app = (await row.getAttribute("data-app")) ?? "";
  await page.getByRole("link", { name: /^Delete / }).click();
  for (const text of ["key-0500", app]) await shows(page, text);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.waitForURL((at) => at.pathname === "/rules");
  await page.goto(`${fleet.url}/rules?search=key-0500`);
  await shows(page, "No rule matches");
  // A rollback brings it back.
  await page.goto(`${fleet.url}/apps/${app}/versions`);
  await page.getByRole("link", { name: "Roll back" }).first().click();
  await page.locator("#reason").fill("B3");
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.waitForURL((at) => at.pathname === "/rules");
  await page.goto(`${fleet.url}/rules?search=key-0500`);
  assert.equal(await page.locator("main tbody tr").count(), 1);
}

async function liveTokens({ fleet, kept, window }) {
  await api(kept.admin, "POST", `${fleet.url}/api/v1/apps/LIVE/rules`, {
    key: "slow",
    max_permits: 1000,
    rate: 1,
  });
  const page = await window();
  await logIn(page, fleet.url);
  const [one, other] = fleet.nodes;
  for (const node of [one, other]) {
    await until(
      "the rule is in force",
      async () => (await fleet.check(node, "LIVE", "slow", 1)).limit !== null,
    );
  }
  await page.goto(`${fleet.url}/rules?app=LIVE`);
  const text = async () => {
    const tokens = page.locator("main tbody tr .meter");
    return (await tokens.count()) > 0 ? tokens.first().innerText() : "";
  };
  // Each node counts by itself here, so that the list shows the least and the most.
  const least = async () => Number(/^[0-9,]+/.exec(await text())?.[0].replaceAll(",", ""));
  await until("the tokens are shown", async () => (await least()) > 900);
  await fleet.check(one, "LIVE", "slow", 600);
  await until("fewer tokens, without loading the page", async () => (await least()) < 500);
  assert.match(await text(), /^[0-9]+–(1,000|99[0-9]) \(3 nodes\)$/);
  await fleet.check(one, "LIVE", "slow", 300);
  await until("and fewer", async () => (await least()) < 200);
  // The last use comes with reports, every five seconds.
  const time = page.locator("main tbody td.time [title]");
  await until("the last use is shown", async () => (await time.count()) > 0);
  assert.match(
    (await time.getAttribute("title")) ?? "",
    /^[0-9]{13}$/,
    "the milliseconds are shown on hover",
  );
  assert.match(await time.innerText(), /^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$/);
}

async function severalAtOnce({ fleet, kept }) {
  const page = kept.admin;
  for (const key of ["one", "two"]) {
    await api(page, "POST", `${fleet.url}/api/v1/apps/BULK/rules`, { key, max_permits: 5, rate: 1 });
  }
  await page.goto(`${fleet.url}/rules?app=BULK`);
  const bulk = page.getByRole("button", { name: "Off", exact: true });
  assert.ok(!(await bulk.isVisible()), "the actions appear with the first selected rule");
  await page.getByRole("checkbox", { name: "Select all on this page" }).check();
  await bulk.click();
  await page.waitForURL(/saved=BULK/);
  await page.goto(`${fleet.url}/rules?app=BULK&state=off`);
  assert.equal(await page.locator("main tbody tr").count(), 2);
  await page.goto(`${fleet.url}/rules?app=BULK&state=on`);
  await shows(page, "No rule matches");
}

export default [
  {
    id: "B2",
    name: "every rejection is beside its field; then all nodes deny",
    run: everyRejectionIsBesideItsField,
  },
  { id: "B2-zh", name: "form and list have the prescribed texts", run: theTextsThatArePrescribed },
  { id: "B14", name: "by the keyboard alone", run: byTheKeyboardAlone },
  { id: "B3", name: "a list of 1,234 rules: pages, search, order, delete and undo", run: aListOfManyRules },
  { id: "B3-live", name: "tokens fall while requests run", run: liveTokens },
  { id: "B3-bulk", name: "several rules are switched off at once", run: severalAtOnce },
];
