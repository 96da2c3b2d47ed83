// The pages that `tollgate replay --html` and `tollgate simulate --html` write: opened from the disk, where
// nothing serves them, in both languages, narrow and wide, light and dark.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { violations } from "../browser.mjs";
import { assert } from "../expect.mjs";

const tollgate = (...args) =>
  execFileSync(process.env.TOLLGATE_BIN ?? "target/debug/tollgate", args, { encoding: "utf8" });

const rule = (numbers) =>
  `domain: web\ndescriptors:\n  - {key: remote_address, rate_limit: {unit: minute, ${numbers}}}\n`;

const LOOKS = ["light", "dark"].flatMap((colorScheme) =>
  [360, 1440].map((width) => ({ colorScheme, viewport: { width, height: 900 } })),
);

/** Opens a file in one look; what it asks of a network is a fault. */
async function open(window, file, look) {
  const page = await window(look);
  page.on("request", (request) => {
    if (!request.url().startsWith("file:")) page.faults.push(`it asks for ${request.url()}`);
  });
  await page.goto(pathToFileURL(file).href);
  return page;
}

/** Runs in the page: what of its charts is not within them, or within the window. */
function misplaced() {
  const faults = [];
  const tooWide = document.documentElement.scrollWidth - window.innerWidth;
  if (tooWide > 0) faults.push(`the page is ${tooWide} px wider than the window`);
  for (const svg of document.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    const name = svg.querySelector("title")?.textContent;
    if (box.width < 300 || box.height < 60) faults.push(`${name} is ${box.width} by ${box.height} px`);
    for (const part of svg.querySelectorAll("text, path, rect, circle")) {
      const at = part.getBoundingClientRect();
      const isOut = at.left < box.left - 1 || at.right > box.right + 1 || at.bottom > box.bottom + 1;
      if (isOut) faults.push(`${name}: ${part.textContent || part.getAttribute("class")} is out of it`);
    }
    const texts = [...svg.querySelectorAll("text")].map((it) => ({
      text: it.textContent,
      box: it.getBoundingClientRect(),
    }));
    for (const [index, { text, box: a }] of texts.entries()) {
      for (const { text: other, box: b } of texts.slice(index + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) faults.push(`${name}: "${text}" is over "${other}"`);
      }
    }
  }
  return faults;
}

async function aReportOpensFromTheDisk({ window }) {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-report-"));
  try {
    const at = (name) => join(folder, name);
    const attack = ["--generate", "boundary", "--requests", "4000", "--clients", "10", "--rate", "34"];
    const trace = tollgate("replay", ...attack);
    writeFileSync(at("trace.csv"), `${trace}no time,c1\n`);
    writeFileSync(at("a.yaml"), rule("requests_per_unit: 100, algorithm: fixed_window"));
    writeFileSync(at("b.yaml"), rule("requests_per_unit: 50, algorithm: token_bucket"));
    const rules = ["--rules", at("a.yaml"), "--rules", at("b.yaml")];
    for (const [lang, words] of [
      ["en", ["Replay report", "Requests over time", "Algorithms compared", "Worst windows"]],
      ["zh-CN", ["流量回放报告", "请求随时间的变化", "算法对比", "最差窗口"]],
    ]) {
      const file = at(`${lang}.html`);
      const args = [at("trace.csv"), ...rules, "--html", file, "--lang", lang, "--json"];
      const report = JSON.parse(tollgate("replay", ...args));
      for (const look of LOOKS) {
        const page = await open(window, file, look);
        assert.equal(await page.title(), words[0]);
        for (const word of words) assert.ok(await page.getByText(word).first().isVisible(), word);
        assert.equal(await page.evaluate(() => document.documentElement.lang), lang);
        await shows(page, report);
        assert.deepEqual(await page.evaluate(misplaced), []);
        assert.deepEqual(await violations(page), []);
        await page.context().close();
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The page has the figures of the report: of its rules, its algorithms, its spans. */
async function shows(page, report) {
  const cells = await page.locator("td, dd").allInnerTexts();
  for (const side of report.rules) {
    for (const it of side.rules) {
      for (const figure of [it.offered, it.admitted, it.denied, it.near, it.keys_denied])
        assert.ok(cells.includes(String(figure)), `${figure} of ${side.rules.length} rules`);
    }
  }
  assert.equal(await page.locator("figure svg path.line").count(), 4, "offered, admitted, denied by A and by B");
  assert.equal(await page.locator("figure svg rect.bar").count(), 10, "five algorithms of two rules");
  const [worst, ...others] = report.rules[0].rules[0].algorithms
    .map((it) => it.worst_window.admitted)
    .sort((a, b) => b - a);
  assert.equal(worst, 200, "a fixed window around its edge");
  const widths = await page
    .locator("figure svg")
    .nth(1)
    .locator("rect.bar")
    .evaluateAll((bars) => bars.map((bar) => Number(bar.getAttribute("width"))).sort((a, b) => b - a));
  for (const [index, other] of others.entries())
    assert.ok(Math.abs(widths[index + 1] / widths[0] - other / worst) < 0.02, `bars of ${widths}`);
  // The numbers of a chart are under it, closed until they are wanted.
  await page.locator("details summary").first().click();
  const spans = await page.locator("details").first().locator("tbody tr").count();
  assert.equal(spans, report.timeline.spans.length);
}

async function aSimulationOpensFromTheDisk({ window }) {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-report-"));
  try {
    for (const [lang, subject] of ["en", "zh-CN"].flatMap((lang) => [
      [lang, "all"],
      [lang, "fleet"],
    ])) {
      const file = join(folder, `${subject}-${lang}.html`);
      tollgate("simulate", subject, "--html", file, "--lang", lang);
      assert.ok(!readFileSync(file, "utf8").includes("<script"));
      for (const look of LOOKS) {
        const page = await open(window, file, look);
        assert.ok((await page.locator("figure svg").count()) >= 3, `charts of ${subject}`);
        assert.deepEqual(await page.evaluate(misplaced), []);
        assert.deepEqual(await violations(page), []);
        await page.context().close();
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export default [
  {
    id: "B18-report",
    name: "a report of a replay opens from the disk, in both languages, narrow and wide, light and dark",
    run: aReportOpensFromTheDisk,
  },
  {
    id: "B18-simulation",
    name: "so do the charts of a simulation",
    run: aSimulationOpensFromTheDisk,
  },
];
