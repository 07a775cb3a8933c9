import { expect, it, vi } from "vitest";

it("fetch refuses none of the ports that harnesses are given", async () => {
  // A harness is no worker of a test run, which have numbers from 1 on.
  vi.stubEnv("VITEST_POOL_ID", "0");
  const { freePort } = await import("../support/free-port.js");
  vi.unstubAllEnvs();
  const ports = new Set<number>();
  for (let call = 0; call < 600; call++) ports.add(await freePort());
  const responses = [...ports].map((port) => fetch(`http://127.0.0.1:${port}`).catch(({ cause }) => String(cause)));
  const refusals = (await Promise.all(responses)).filter((response) => /bad port/.test(String(response)));
  expect([ports.size > 400, refusals]).toEqual([true, []]);
});
