// Runs the tests in order on one control plane and three nodes. `node run.mjs B2 B13` runs these only, after
// the setup.
import { existsSync } from "node:fs";
import { Browser, shot } from "./browser.mjs";
import { Fleet } from "./servers.mjs";
import access from "./tests/access.mjs";
import away from "./tests/away.mjs";
import changes from "./tests/changes.mjs";
import keys from "./tests/keys.mjs";
import replay from "./tests/replay.mjs";
import reports from "./tests/reports.mjs";
import rollouts from "./tests/rollouts.mjs";
import rules from "./tests/rules.mjs";
import screens, { before } from "./tests/screens.mjs";
import transfer from "./tests/transfer.mjs";
import trial from "./tests/trial.mjs";
import versions from "./tests/versions.mjs";

const only = process.argv.slice(2);
const tests = [
  ...before,
  ...access,
  ...rules,
  ...trial,
  ...changes,
  ...versions,
  ...rollouts,
  ...keys,
  ...replay,
  ...reports,
  ...transfer,
  ...screens,
  ...away,
];
const folder = process.env.TOLLGATE_SCREENSHOTS ?? "target/browser";
const binary = process.env.TOLLGATE_BIN ?? "target/debug/tollgate";
if (!existsSync(binary)) {
  console.log(`there is no ${binary}: run cargo build, or set TOLLGATE_BIN`);
  process.exit(2);
}

const counts = { passed: 0, failed: 0 };
const browser = await Browser.launch(folder);
let fleet;
try {
  fleet = await Fleet.start(3);
  const kept = {}; // what a test leaves for those after it: the admin's window
  for (const test of tests) {
    if (only.length > 0 && !test.isSetup && !only.includes(test.id)) continue;
    await run(test, { browser, fleet, kept });
    if (test.isSetup && counts.failed > 0) break; // nothing else can pass
  }
} finally {
  await fleet?.stop();
  await browser.close();
}
console.log(`${counts.passed} passed, ${counts.failed} failed, 0 skipped`);
process.exitCode = counts.failed > 0 ? 1 : 0;

async function run(test, world) {
  const began = performance.now();
  const pages = [];
  const window = async (options) => {
    const page = await world.browser.window(options);
    pages.push(page);
    return page;
  };
  const notes = [];
  let fault = null;
  try {
    await test.run({ ...world, window, note: (text) => notes.push(text) });
    const faults = pages.flatMap((page) => page.faults);
    if (faults.length > 0) throw new Error(faults.join("\n"));
  } catch (error) {
    fault = error;
    const open = [...new Set([...pages, ...(world.kept.admin ? [world.kept.admin] : [])])];
    for (const [index, page] of open.entries()) await shot(page, folder, `failed-${test.id}-${index}`);
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    [`${fault ? "FAIL" : "PASS"} [${seconds}s] ${test.id} ${test.name}`, ...notes].join("\n    "),
  );
  if (fault) console.log(`${fault.stack ?? fault}\n    screenshots in ${folder}`);
  counts[fault ? "failed" : "passed"]++;
  for (const page of pages) if (page !== world.kept.admin) await page.context().close();
}
