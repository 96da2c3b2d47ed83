// An app as one document, and back on an empty database.
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { api } from "../browser.mjs";
import { setUp } from "../data.mjs";
import { assert, shows } from "../expect.mjs";
import { Fleet } from "../servers.mjs";

const FILE = `domain: carried
# a remark stays
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5}
`;

async function exportAndImport({ fleet, kept, window }) {
  const page = kept.admin;
  const apps = `${fleet.url}/api/v1/apps/CARRY`;
  const extras = '{"b": 1,  "a": "甲"}';
  for (const rule of [
    { key: "plain", max_permits: 7, rate: 3 },
    {
      key: "rich",
      max_permits: 70,
      rate: 30,
      description: "全部字段",
      per: "provider",
      need_permits: 2,
      g: "1.5",
      u: "0.000001",
      state: "shadow",
      extras,
    },
  ]) {
    assert.equal((await api(page, "POST", `${apps}/rules`, rule)).status, 201);
  }
  assert.equal((await api(page, "POST", `${apps}/files`, { text: FILE })).status, 201);
  await page.goto(`${fleet.url}/apps/CARRY/settings`);
  const folder = mkdtempSync(join(tmpdir(), "tollgate-export-"));
  const download = page.waitForEvent("download").catch(() => null);
  const link = page.getByRole("link", { name: "Export as YAML" });
  const yaml = await (await page.context().request.get(fleet.url + (await link.getAttribute("href")))).text();
  await link.click();
  const saved = await download;
  if (saved) {
    await saved.saveAs(join(folder, "app.yaml"));
    assert.equal(readFileSync(join(folder, "app.yaml"), "utf8"), yaml);
  }
  assert.ok(yaml.includes(String.raw`{\"b\": 1,  \"a\": \"甲\"}`) || yaml.includes(extras), yaml);

  const empty = await Fleet.start(0);
  try {
    const other = await window();
    await setUp(other, empty);
    const headers = { "content-type": "application/yaml" };
    const made = await other
      .context()
      .request.fetch(`${empty.url}/api/v1/import`, { method: "POST", data: yaml, headers });
    assert.ok(made.status() < 300, await made.text());
    const again = await other.context().request.get(`${empty.url}/api/v1/export?app=CARRY`);
    assert.equal(await again.text(), yaml, "byte for byte");
    await other.goto(`${empty.url}/rules`);
    await shows(other, "全部字段");
  } finally {
    await empty.stop();
  }
}

export default [
  {
    id: "B17",
    name: "an app is exported and imported on an empty database, and is the same",
    run: exportAndImport,
  },
];
