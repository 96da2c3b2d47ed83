// Assertions that wait, with the page's text in the message.
import assert from "node:assert/strict";
import { until } from "./until.mjs";

export { assert };

/** The page comes to show `text`. */
export const shows = (page, text) =>
  until(`the page shows ${JSON.stringify(text)}`, () => page.getByText(text).first().isVisible(), {
    explain: () => page.url(),
  });

/** The text beside a field that says what is wrong with it; "" when nothing is. */
export const faultOf = async (page, field) => {
  const fault = page.locator(`#${field}-hint .fault, #${field}-hint.fault`);
  return (await fault.count()) > 0 ? (await fault.first().innerText()).trim() : "";
};

/** The path that the page is at. */
export const path = (page) => new URL(page.url()).pathname;
