/** Enough calls for V8 to compile `process.nextTick`; some milliseconds. */
const ticks = 3_000;

/**
 * Lets V8 compile `process.nextTick`, of which each answer needs several, before the service begins. In two processes of
 * five it otherwise settles, while all starts at once, on code that makes the record of each tick by a call into the
 * runtime, and stays with it: a fifth more CPU for every answer, for as long as the process lives (docs/performance.md,
 * "Settings of Node").
 */
export async function warmUpTicks(): Promise<void> {
  for (let i = 0; i < ticks; i++) process.nextTick(nothing);
  await new Promise((resolve) => setImmediate(resolve));
}

function nothing(): void {}
