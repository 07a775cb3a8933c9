/** A running database server for tests. */
export interface TestServer {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** The server that MARKETD_TEST_SERVER_URL names, or a private one of this run's own. */
export async function startTestServer(): Promise<TestServer> {
  const url = process.env["MARKETD_TEST_SERVER_URL"];
  if (url !== undefined && url !== "") return { url, stop: async () => {} };
  throw new Error("embedded server not there yet: set MARKETD_TEST_SERVER_URL");
}
