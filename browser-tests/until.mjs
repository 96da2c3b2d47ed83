// Waiting for what a test needs, with a deadline.

/**
 * Asks `condition` until it says something true, for at most 20 seconds or as many as are given.
 * @template T
 * @param {string} what
 * @param {() => T | Promise<T>} condition
 * @param {{ explain?: () => string, isHopeless?: () => boolean, seconds?: number }} [options]
 */
export async function until(what, condition, options = {}) {
  const deadline = Date.now() + (options.seconds ?? 20) * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline || options.isHopeless?.()) {
      throw new Error(`never happened: ${what}\n${options.explain?.() ?? ""}`);
    }
    await new Promise((done) => setTimeout(done, 20));
  }
}
