// Other numbers in shadow beside those in force: started, compared, dropped and adopted by one click each.
import { api } from "../browser.mjs";
import { invite } from "../data.mjs";
import { assert, shows } from "../expect.mjs";
import { until } from "../until.mjs";
import { WORDS, lookAt } from "./screens.mjs";

const APP = "TRIAL";
const KEY = "push";

async function aTrial({ fleet, kept, window, note }) {
  const admin = kept.admin;
  const rule = `${fleet.url}/api/v1/apps/${APP}/rules/${KEY}`;
  const node = fleet.nodes[0];
  const made = { key: KEY, max_permits: 1000, rate: 1 };
  await api(admin, "POST", `${fleet.url}/api/v1/apps/${APP}/rules`, made);
  const hit = (hits) => fleet.check(node, APP, KEY, hits);
  await until("the rule is in force", async () => (await hit(0)).limit === 1000);
  assert.equal((await hit(900)).outcome, "admit");

  // Started without JavaScript, after a number that a bucket cannot have.
  const storageState = await admin.context().storageState();
  const plain = await window({ storageState, javaScriptEnabled: false });
  const place = `${fleet.url}/apps/${APP}/rules/${KEY}`;
  await plain.goto(place);
  await plain.getByText("Try other numbers").click();
  const [burst, rate] = [plain.locator("#try_max_permits"), plain.locator("#try_rate")];
  assert.deepEqual([await burst.inputValue(), await rate.inputValue()], ["1000", "1"], "as in force");
  await burst.fill("0");
  await plain.getByRole("button", { name: "Start the trial" }).click();
  await shows(plain, "Expected a whole number from 1 to 1000000000");
  assert.equal(await burst.inputValue(), "0", "what was entered stays");
  await burst.fill("1200");
  await rate.fill("2");
  await plain.getByRole("button", { name: "Start the trial" }).click();
  await plain.locator("#trial .tag", { hasText: "running" }).waitFor();
  assert.match(await plain.locator("pre").innerText(), /name: trial, shadow: true/);
  const versions = async () => {
    const nodes = (await api(admin, "GET", `${fleet.url}/api/v1/nodes`)).body.nodes;
    return nodes.map((it) => it.apps.find((app) => app.app === APP)?.acked);
  };
  const inForce = (version) =>
    until(`version ${version} is in force`, async () => (await versions()).every((it) => it === version));
  await inForce(2);
  const kept1 = (await hit(0)).remaining;
  assert.ok(kept1 >= 100 && kept1 < 300, `${kept1} of 1,000 remain: nothing was reset`);
  const live = (await api(admin, "GET", `${fleet.url}/api/v1/apps/${APP}/live?key=${KEY}`)).body.keys[0];
  assert.ok(live.tokens < 300 && live.tokens_most <= 1000, "live tokens are those of the limit in force");

  // What came in the same row of ten seconds as the start is no comparison, and is left out.
  const { since } = (await api(admin, "GET", `${rule}/trial`)).body.trial;
  await until("a row after the start", () => Date.now() > since + 16_000);
  // The limit in force denies 30 requests of 400; the trial, with 1,200 permits, those after the first three.
  const page = await window({ storageState });
  await page.goto(place);
  await page.locator("#trial").waitFor();
  for (let count = 0; count < 30; count++) {
    assert.equal((await hit(400)).outcome, "deny", "the trial never admits what the limit denies");
  }
  const cells = async (name) => {
    const row = page.locator("#trial tr", { hasText: name }).first();
    return (await row.locator("td").allInnerTexts()).map((it) => Number(it.split(" ")[0].replaceAll(",", "")));
  };
  const began = performance.now();
  await until(
    "the page shows both, without loading it again",
    async () => (await page.locator("#trial figure.chart").count()) > 0 && (await cells("Denied"))[0] === 30,
    { seconds: 40 },
  );
  note(`compared on the page after ${((performance.now() - began) / 1000).toFixed(0)} s`);
  assert.deepEqual(await cells("Denied"), [30, 27]);
  assert.deepEqual(await cells("Denied by these alone"), [3, 0]);
  const compared = (await api(admin, "GET", `${rule}/trial`)).body.trial;
  const { denied, trial_denied, both_denied, is_running } = compared;
  assert.deepEqual({ denied, trial_denied, both_denied, is_running }, {
    denied: 30,
    trial_denied: 27,
    both_denied: 27,
    is_running: true,
  });
  await page.goto(`${place}/history`);
  await shows(page, "Trial: Denials per second");
  const failures = [];
  const words = new Set([...WORDS, "SIP_HOTEL", "pushGeoHotelList", APP, KEY, "trial", "vera"]);
  await lookAt(page, "-trial", fleet.url, `/apps/${APP}/rules/${KEY}`, words, failures);
  await lookAt(page, "-trial-history", fleet.url, `/apps/${APP}/rules/${KEY}/history`, words, failures);
  assert.deepEqual(failures, []);

  // Viewers see the figures, and no buttons.
  const vera = await invite(admin, fleet, window, {
    name: "vera",
    password: "another good password",
    role: "viewer",
    app: APP,
  });
  await vera.goto(place);
  await vera.locator("#trial table").first().waitFor();
  assert.equal(await vera.getByRole("button", { name: "Adopt" }).count(), 0);

  // Dropped, and started again with the numbers that are adopted.
  await wearEnglish(page, fleet);
  await page.goto(place);
  await page.getByRole("button", { name: "Drop" }).click();
  await page.getByText("Try other numbers").waitFor();
  await inForce(3);
  const kept2 = (await hit(0)).remaining;
  assert.ok(kept2 >= 100 && kept2 < 400, `${kept2} of 1,000 remain`);
  await page.getByText("Try other numbers").click();
  await page.locator("#try_max_permits").fill("2000");
  await page.getByRole("button", { name: "Start the trial" }).click();
  await page.locator("#trial .tag", { hasText: "running" }).waitFor();
  await page.getByRole("button", { name: "Adopt" }).click();
  await page.getByText("Try other numbers").waitFor();
  await inForce(5);
  assert.equal(await page.locator("#max_permits").inputValue(), "2000");
  const larger = await hit(0);
  assert.ok(larger.limit === 2000 && larger.remaining >= 1100 && larger.remaining < 1500, "what was taken stays");
  const { body } = await api(admin, "GET", rule);
  assert.deepEqual([body.max_permits, body.trial_rate, body.trial_max_permits], [2000, null, null]);
}

async function wearEnglish(page, fleet) {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.context().addCookies([{ name: "lang", value: "en", url: fleet.url }]);
}

export default [
  {
    id: "B-trial",
    name: "numbers are tried in shadow, compared, dropped and adopted, and no count is lost",
    run: aTrial,
  },
];
