import { setTimeout as delay } from "node:timers/promises";
import type { Report } from "../support/report.js";
import { CallFailure } from "./call-failure.js";
import { HttpClient, type HttpRequest } from "./http-client.js";

/** So many callers send each of the requests. */
const callersOfEach = 4;
const deadlineMs = 5_000;

/** Without a body, and with one in chunks, as clients of Connect send it: a server that drains must still read it. */
const requests: readonly HttpRequest[] = [
  { path: "/markets/data", deadlineMs },
  {
    method: "POST",
    path: "/datanode.api.v2.TradingDataService/ListLatestMarketData",
    headers: { "content-type": "application/json", "transfer-encoding": "chunked" },
    body: Buffer.from("{}"),
    deadlineMs,
  },
];

/** What came of the calls. */
interface Outcome {
  answered: number;
  /** Ended without a response, on a connection that had served one. */
  reset: number;
  /** Any other call without a response of 200. */
  failed: number;
  readonly examples: string[];
}

/** Callers whose HTTP/1.1 connection always waits for a response: the next request follows the last response at once. */
export class BusyCallers {
  readonly #outcome: Outcome = { answered: 0, reset: 0, failed: 0, examples: [] };
  readonly #loops: Promise<void>[];
  #ended = false;

  constructor(port: number) {
    const eachOfThem = Array.from({ length: callersOfEach }, () => requests).flat();
    this.#loops = eachOfThem.map((request) => this.#call(new HttpClient(port), request));
  }

  async end(): Promise<Outcome> {
    this.#ended = true;
    await Promise.all(this.#loops);
    return this.#outcome;
  }

  checkNoneReset({ reset, answered, examples }: Outcome, signal: string, report: Report): void {
    const why = `${reset} of ${answered + reset} calls: ${examples.join("; ")}`;
    report.check(`${signal} resets no connection that waits for a response`, reset === 0, why);
  }

  checkNoneFailed(outcome: Outcome, signal: string, report: Report): void {
    this.checkNoneReset(outcome, signal, report);
    const { failed, answered, examples } = outcome;
    report.check(
      `${signal} fails no call`,
      failed === 0,
      `${failed} of ${answered + failed} calls: ${examples.join("; ")}`,
    );
  }

  async #call(client: HttpClient, request: HttpRequest): Promise<void> {
    const outcome = this.#outcome;
    while (!this.#ended) {
      try {
        const { status } = await client.exchange(request);
        if (status === 200) outcome.answered++;
        else this.#note("failed", `status ${status}`);
        if (status !== 200) await delay(50);
      } catch (error) {
        const failure = error instanceof CallFailure ? error : new CallFailure("malformed", String(error));
        this.#note(failure.kind === "broken" && failure.reused ? "reset" : "failed", failure.summary);
        await delay(50);
      }
    }
    client.close();
  }

  #note(kind: "reset" | "failed", text: string): void {
    this.#outcome[kind]++;
    if (this.#outcome.examples.length < 3) this.#outcome.examples.push(text);
  }
}
