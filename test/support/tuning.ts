/**
 * Whether this run has the adjustments of Node and V8. vitest.config.ts runs some tests once without, and says so as an
 * operator would: processes that a test starts are without them too.
 */
export const tuning = process.env["MARKETD_TUNING"] !== "off";
