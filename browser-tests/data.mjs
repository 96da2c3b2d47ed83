// What a fleet in use looks like: apps, rules, files, people, changes that wait, blocks, traffic.
import { ADMIN, api, logIn } from "./browser.mjs";
import { until } from "./until.mjs";

/**
 * App, key, burst, rate, state, description, further members.
 * @type {[string, string, number, number, string, string, any?][]}
 */
const RULES = [
  ["HOTEL_SIP", "addHotelInfo", 10, 5, "on", "新增酒店信息"],
  ["HOTEL_SIP", "alterHotelInfo", 10, 5, "on", "修改酒店信息"],
  ["HOTEL_SIP", "deleteHotel", 10, 5, "shadow", "删除酒店；先试运行一周，再决定是否生效"],
  ["HOTEL_SIP", "pushGeoHotelList", 100, 40, "on", "供应商推送酒店坐标", { per: "provider" }],
  ["HOTEL_SIP", "TEST", 2, 1, "off", "测试"],
  ["SHOP", "search", 500, 200, "on", "Search of the shop"],
  ["SHOP", "checkout", 50, 20, "on", "Payments: the provider allows 20 a second", { pre_permits: 10 }],
  ["SHOP", "recommend", 400, 150, "on", "Recommendations on the start page"],
  ["SHOP", "uploadPicture", 20, 5, "on", "Pictures of reviews; each costs five", { need_permits: 5 }],
  ["ORDERS", "create", 80, 30, "on", "Orders of all channels"],
  ["ORDERS", "cancel", 40, 10, "on", "Cancellations"],
  [
    "ORDERS",
    "exportDailyReportOfAllWarehousesForTheAccountingDepartment",
    2,
    1,
    "on",
    "One report at a time",
  ],
  ["PARTNER_API", "quote", 1000, 400, "on", "Quotes for partners", { per: "partner" }],
  [
    "PARTNER_API",
    "book",
    60,
    25,
    "on",
    "合作伙伴预订接口：合同约定每秒不超过二十五次，超出部分由合作伙伴自行重试；节假日期间经双方确认可临时上调，负责人王小明",
  ],
  ["PARTNER_API", "webhook", 200, 100, "on", "Callbacks", { extras: { owner: "team-partners" } }],
];

const FILE = `domain: login
descriptors:
  - key: remote_address
    rate_limit:
      unit: minute
      requests_per_unit: 20
  - key: user
    rate_limit:
      algorithm: token_bucket
      unit: minute
      requests_per_unit: 5
`;

/** The people besides the admin. */
export const PEOPLE = [
  { name: "bea", password: "another good password", role: "approver" },
  { name: "vic", password: "another good password", role: "viewer" },
];

async function must(page, method, url, body, headers) {
  const reply = await api(page, method, url, body, headers);
  if (reply.status >= 300) throw new Error(`${method} ${url}: ${reply.status} ${JSON.stringify(reply.body)}`);
  return reply;
}

/** Makes the first admin by the form, and leaves the page logged in. */
export async function setUp(page, fleet) {
  await page.goto(fleet.setupLink);
  for (const [field, value] of [
    ["name", ADMIN.name],
    ["password", ADMIN.password],
    ["again", ADMIN.password],
  ]) {
    await page.locator(`#${field}`).fill(value);
  }
  await page.locator("button.primary").click();
  await page.waitForURL((at) => !at.pathname.startsWith("/setup"));
}

/** Makes a user who has chosen the password by the one-time link, and returns a window with the login. */
export async function invite(admin, fleet, window, { name, password, role, app = "*" }) {
  const made = await must(admin, "POST", `${fleet.url}/api/v1/users`, { name, role, app });
  const page = await window();
  await page.goto(fleet.url + made.body.link);
  await page.locator("#password").fill(password);
  await page.locator("#again").fill(password);
  await page.locator("button.primary").click();
  await page.waitForURL((at) => at.pathname !== "/link");
  return page;
}

/** Everything but traffic. `window` opens a window of its own. */
export async function fill(page, fleet, window) {
  const rules = `${fleet.url}/api/v1/apps`;
  for (const [app, key, max_permits, rate, state, description, more] of RULES) {
    await must(page, "POST", `${rules}/${app}/rules`, {
      key,
      max_permits,
      rate,
      state,
      description,
      ...more,
    });
  }
  await must(page, "POST", `${rules}/LOGIN/files`, {
    text: FILE,
    description: "Logins by address and by user",
  });
  const [bea] = await Promise.all([
    invite(page, fleet, window, PEOPLE[0]),
    invite(page, fleet, window, PEOPLE[1]),
  ]);
  await must(page, "POST", `${fleet.url}/api/v1/users`, {
    name: "new-colleague",
    role: "editor",
    app: "SHOP",
  });
  await must(page, "POST", `${fleet.url}/api/v1/tokens`, {
    name: "deploy pipeline",
    rights: [{ app: "SHOP", role: "editor" }],
  });

  // A rule with a past.
  const checkout = `${rules}/SHOP/rules/checkout`;
  for (const rate of [30, 25]) await edit(page, checkout, (rule) => (rule.rate = rate));

  // A draft, one that waits for approval, and one that others have overtaken.
  await must(
    page,
    "PUT",
    `${rules}/PARTNER_API`,
    { approvals: 1 },
    await ifMatch(page, `${rules}/PARTNER_API`),
  );
  await draft(page, fleet, "SHOP", "search", (rule) => (rule.rate = 250), "Search grows before the sale");
  const waits = await draft(
    page,
    fleet,
    "PARTNER_API",
    "book",
    (rule) => (rule.rate = 40),
    "Book faster in December",
  );
  await must(
    page,
    "POST",
    `${fleet.url}/api/v1/changes/${waits.body.id}/submit`,
    {},
    { "If-Match": waits.etag },
  );
  await draft(
    bea,
    fleet,
    "ORDERS",
    "cancel",
    (rule) => (rule.max_permits = 60),
    "More cancellations at once",
  );
  await edit(page, `${rules}/ORDERS/rules/cancel`, (rule) => (rule.max_permits = 30));

  await must(page, "POST", `${fleet.url}/api/v1/overrides`, {
    domain: "SHOP",
    entries: ["key=search"],
    action: "allow",
    minutes: 90,
    reason: "Load test of the search",
  });
  await bea.context().close();
}

async function ifMatch(page, url) {
  return { "If-Match": (await must(page, "GET", url)).etag };
}

async function edit(page, url, change) {
  const { body, etag } = await must(page, "GET", url);
  change(body);
  await must(page, "PUT", url, body, { "If-Match": etag });
}

/** A change set of one rule that is not published yet. */
export async function draft(page, fleet, app, key, change, title) {
  const { body: rule, etag } = await must(page, "GET", `${fleet.url}/api/v1/apps/${app}/rules/${key}`);
  change(rule);
  const ops = [{ op: "put", kind: "car", key, base: Number(etag.replaceAll('"', "")), rule }];
  return must(page, "POST", `${fleet.url}/api/v1/changes`, { app, title, ops });
}

/** Requests of every rule, at times more than it admits, until `isOver`. */
export async function traffic(fleet, isOver) {
  let round = 0;
  const send = async (node) => {
    while (!isOver()) {
      round++;
      const wave = 0.75 + 0.35 * Math.sin(round / 60);
      for (const [app, key, , rate, state, , more] of RULES) {
        if (state === "off") continue;
        const hits = Math.max(
          1,
          Math.round((rate / 14 / (more?.need_permits ?? 1)) * (wave + 0.4 * Math.random())),
        );
        const per = more?.per ? [{ key: more.per, value: ["agoda", "ctrip", "expedia"][round % 3] }] : [];
        await fleet.ask(node, app, [{ key: "key", value: key }, ...per], hits).catch(() => null);
      }
      await fleet
        .ask(node, "login", [{ key: "remote_address", value: `10.1.7.${round % 4}` }])
        .catch(() => null);
      await new Promise((done) => setTimeout(done, 200));
    }
  };
  await Promise.all(fleet.nodes.map(send));
}

/** Waits until nodes decide by the rules. */
export const inForce = (fleet) =>
  until(
    "the rules limit",
    async () => (await fleet.check(fleet.nodes[0], "SHOP", "checkout", 0)).limit !== null,
  );
