// The screens that the console has, from its own table, and a place of each that its pages lead to.
import { readFileSync } from "node:fs";

const table = new URL("../crates/control/console/src/pages.rs", import.meta.url);

/** Every path of a page that is read, such as `/apps/{app}/versions`. */
export function patterns() {
  const rows = readFileSync(table, "utf8").matchAll(/\(Method::GET,\s*"([^"]+)"/g);
  return [...new Set([...rows].map((row) => row[1]))];
}

const matcher = (pattern) => new RegExp(`^${pattern.replace(/\{[^}]*\}/g, "[^/?]+")}([?]|$)`);

/**
 * Follows links from the first page until each pattern has a place, and returns the places by pattern.
 * Literal segments win over `{…}`, as they do in the router.
 */
export async function places(page, url, wanted) {
  const matchers = wanted.map((pattern) => [pattern, matcher(pattern)]);
  matchers.sort((a, b) => (a[0].match(/\{/g)?.length ?? 0) - (b[0].match(/\{/g)?.length ?? 0));
  const patternOf = (href) => matchers.find(([, it]) => it.test(href))?.[0];
  const found = new Map();
  const queue = ["/"];
  while (queue.length > 0) {
    await page.goto(url + queue.shift());
    const hrefs = await page.$$eval("a[href^='/']", (links) => links.map((it) => it.getAttribute("href")));
    for (const href of hrefs) {
      const pattern = patternOf(href);
      if (pattern === undefined || found.has(pattern)) continue;
      found.set(pattern, href);
      queue.push(href);
    }
  }
  return found;
}
