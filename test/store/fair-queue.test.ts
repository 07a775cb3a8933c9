import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Failure } from "../../src/domain/failure.js";
import { FairQueue, type QueueLimits, type WorkClass } from "../../src/store/connection/fair-queue.js";

const defaults: QueueLimits = { slots: 2, waitingMax: 4, waitMsMax: 60_000 };

/** Requests at a queue, each ended by hand. */
class Requests {
  readonly queue: FairQueue;
  /** Names of requests, in the order in which their work started. */
  readonly started: string[] = [];
  readonly outcomes = new Map<string, unknown>();
  readonly #ends = new Map<string, () => void>();
  readonly #aborts = new Map<string, AbortController>();
  readonly #running = new Map<string, string>();

  constructor(limits: Partial<QueueLimits> = {}) {
    this.queue = new FairQueue({ ...defaults, ...limits });
  }

  /** A request of an address: `a1`, `a2` … are of address `a`. */
  ask(name: string, started = false, address = name.replace(/\d+$/, ""), workClass: WorkClass = "ledger"): void {
    const controller = new AbortController();
    this.#aborts.set(name, controller);
    const work = (): Promise<string> => {
      this.started.push(name);
      this.#running.set(name, address);
      return new Promise((resolve) => this.#ends.set(name, () => resolve("done")));
    };
    const keep = (outcome: unknown): void => void this.outcomes.set(name, outcome);
    const call = { signal: controller.signal, clientAddress: address, requestHeaders: {} };
    this.queue.run({ class: workClass, call, started }, work).then(keep, keep);
  }

  abort(name: string, reason?: unknown): void {
    this.#aborts.get(name)?.abort(reason);
  }

  /** Ends the work of a request. */
  finish(name: string): void {
    this.#running.delete(name);
    this.#ends.get(name)?.();
  }

  /** Requests of an address whose work has not ended. */
  runningOf(address: string): number {
    return [...this.#running.values()].filter((each) => each === address).length;
  }

  /** Addresses with such requests. */
  get clientsAtWork(): number {
    return new Set(this.#running.values()).size;
  }

  /** Ends all work, until nothing waits. */
  async finishAll(): Promise<void> {
    for (let turns = 0; turns < 10_000 && this.queue.running + this.queue.waiting > 0; turns++) {
      for (const name of this.started) this.finish(name);
      await nextTurn();
    }
    await nextTurn();
  }

  /** Ends the work of a request; resolves when the queue has let the next one in. */
  async end(name: string): Promise<void> {
    const before = this.queue.running;
    const { length } = this.started;
    this.finish(name);
    await expect.poll(() => this.queue.running < before || this.started.length > length).toBe(true);
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe("the queue for the database", () => {
  test("lets so many in, lets so many wait in their order, and refuses the rest at once", async () => {
    const requests = new Requests({ slots: 10, waitingMax: 3 });
    for (let n = 1; n <= 13; n++) requests.ask(`a${n}`);
    await nextTurn();
    expect(requests.started).toHaveLength(8);
    expect([requests.queue.running, requests.queue.waiting]).toEqual([8, 3]);
    const busy = { code: "unavailable", reason: "SERVER_BUSY", retryAfterMs: 1000 };
    expect([...requests.outcomes]).toEqual([
      ["a12", expect.objectContaining(busy)],
      ["a13", expect.objectContaining(busy)],
    ]);
    expect(requests.queue.refused("SERVER_BUSY")).toBe(2);
    await requests.end("a3");
    await requests.end("a1");
    expect(requests.started.slice(8)).toEqual(["a9", "a10"]);
  });

  test("one address never holds all slots", async () => {
    const requests = new Requests({ slots: 5, waitingMax: 100 });
    for (let n = 1; n <= 20; n++) requests.ask(`a${n}`);
    requests.ask("b1");
    await nextTurn();
    expect(requests.started).toEqual(["a1", "a2", "a3", "a4", "b1"]);
  });

  test("one address never holds all slots, also if its first request had to wait", async () => {
    const requests = new Requests({ slots: 5, waitingMax: 100 });
    for (const name of ["b1", "b2", "b3", "b4", "c1", "a1"]) requests.ask(name);
    await requests.end("b1");
    expect([requests.started.at(-1), requests.queue.clients]).toEqual(["a1", 3]);
    for (let n = 2; n <= 20; n++) requests.ask(`a${n}`);
    for (const name of ["b2", "b3", "b4", "c1"]) await requests.end(name);
    expect(requests.started.slice(5)).toEqual(["a1", "a2", "a3", "a4"]);
    requests.ask("b5");
    expect([requests.started.at(-1), requests.queue.clients]).toEqual(["b5", 2]);
    await requests.end("a1");
    expect([requests.started.at(-1), requests.queue.clients]).toEqual(["a5", 2]);
  });

  test("exports never hold all slots, and other work goes past those that wait", async () => {
    const requests = new Requests({ slots: 5, waitingMax: 100 });
    for (let n = 1; n <= 4; n++) requests.ask(`a${n}`, false, `10.0.0.${n}`, "export");
    for (let n = 5; n <= 7; n++) requests.ask(`a${n}`, n === 5, "10.0.0.1", "export");
    await nextTurn();
    expect([requests.started, requests.queue.waiting]).toEqual([["a1", "a2", "a3", "a4"], 3]);
    requests.ask("page", false, "10.0.0.1");
    requests.ask("page2", false, "10.0.0.1");
    await nextTurn();
    expect(requests.started.slice(4)).toEqual(["page"]);
    await requests.end("page");
    expect(requests.started.slice(5)).toEqual(["page2"]);
    await requests.end("a1");
    expect(requests.started.slice(6)).toEqual(["a5"]);
  });

  test("the process's own work has no share, waits without a limit, and holds no slot longer than its work", async () => {
    const queue = new FairQueue({ slots: 2, waitingMax: 0, waitMsMax: 1 });
    const own = { class: "internal", call: undefined } as const;
    const nested = await queue.run(own, () => queue.run(own, async () => queue.running));
    expect(nested).toBe(2);
    let release = (): void => {};
    const held = [1, 2].map(() =>
      queue.run(
        own,
        () =>
          new Promise<void>((resolve) => {
            const before = release;
            release = () => {
              before();
              resolve();
            };
          }),
      ),
    );
    const late = queue.run(own, async () => "run");
    await expect.poll(() => queue.waiting).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    release();
    await Promise.all(held);
    expect(await late).toBe("run");
    expect([queue.running, queue.waiting, queue.clients]).toEqual([0, 0, 0]);
  });

  test("addresses take turns, however many requests each has", async () => {
    const requests = new Requests({ slots: 1, waitingMax: 100 });
    for (let n = 1; n <= 9; n++) requests.ask(`a${n}`);
    for (const name of ["b1", "b2", "c1"]) requests.ask(name);
    for (const name of ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]) await requests.end(name);
    expect(requests.started).toEqual(["a1", "a2", "b1", "c1", "a3", "b2", "a4", "a5"]);
  });

  test("when too many wait, the address with the most gives way to another", async () => {
    const requests = new Requests({ slots: 1, waitingMax: 4 });
    for (let n = 0; n <= 4; n++) requests.ask(`a${n}`);
    requests.ask("b1");
    requests.ask("c1");
    await nextTurn();
    const quota = { code: "resource_exhausted", reason: "TOO_MANY_REQUESTS_OF_CLIENT", retryAfterMs: 1000 };
    expect([...requests.outcomes.keys()].sort()).toEqual(["a3", "a4"]);
    for (const outcome of requests.outcomes.values()) expect(outcome).toMatchObject(quota);
    requests.ask("a5");
    requests.ask("d1");
    requests.ask("e1");
    await nextTurn();
    expect(requests.outcomes.get("a5")).toMatchObject(quota);
    expect(requests.outcomes.get("a2")).toMatchObject(quota);
    expect(requests.outcomes.get("e1")).toMatchObject({ code: "unavailable", reason: "SERVER_BUSY" });
    for (const name of ["a0", "a1", "b1", "c1", "d1"]) await requests.end(name);
    expect(requests.started).toEqual(["a0", "a1", "b1", "c1", "d1"]);
    await expect.poll(() => requests.outcomes.get("d1")).toBe("done");
    expect(requests.queue.refused("TOO_MANY_REQUESTS_OF_CLIENT")).toBe(4);
  });

  test("addresses of one IPv6 network are one client", async () => {
    const requests = new Requests({ slots: 1, waitingMax: 3 });
    requests.ask("r0", false, "2001:db8::1");
    for (let n = 1; n <= 3; n++) requests.ask(`r${n}`, false, `2001:db8:0:0:${n}::1`);
    requests.ask("other", false, "2001:db8:0:1::1");
    await nextTurn();
    expect(requests.outcomes.get("r3")).toMatchObject({ reason: "TOO_MANY_REQUESTS_OF_CLIENT" });
    await requests.end("r0");
    await requests.end("r1");
    expect(requests.started).toEqual(["r0", "r1", "other"]);
  });

  test("a request that is aborted while it waits leaves at once", async () => {
    const requests = new Requests({ slots: 1 });
    for (const name of ["a1", "a2", "b1"]) requests.ask(name);
    const reason = new Failure("cancelled", "the client left", { reason: "CLIENT_LEFT" });
    requests.abort("a2", reason);
    expect(requests.queue.waiting).toBe(1);
    await nextTurn();
    expect(requests.outcomes.get("a2")).toBe(reason);
    await requests.end("a1");
    expect(requests.started).toEqual(["a1", "b1"]);
  });

  test("a request that is aborted at the database is answered at once; its slot is free when its work has ended", async () => {
    const requests = new Requests({ slots: 1 });
    requests.ask("a1");
    requests.ask("b1");
    requests.abort("a1");
    await nextTurn();
    expect(requests.outcomes.get("a1")).toMatchObject({ code: "cancelled" });
    expect([requests.queue.running, requests.started]).toEqual([1, ["a1"]]);
    await requests.end("a1");
    expect(requests.started).toEqual(["a1", "b1"]);
  });

  test("a request waits for a limited time", async () => {
    const requests = new Requests({ slots: 1, waitMsMax: 50 });
    requests.ask("a1");
    requests.ask("a2");
    await expect.poll(() => requests.outcomes.get("a2")).toMatchObject({ code: "unavailable", reason: "SERVER_BUSY" });
    expect([requests.queue.running, requests.queue.waiting]).toEqual([1, 0]);
  });

  test("a call that has started its response goes first, and is never refused", async () => {
    const requests = new Requests({ slots: 1, waitingMax: 2, waitMsMax: 50 });
    for (const name of ["a1", "a2", "a3"]) requests.ask(name);
    for (const name of ["a4", "a5", "a6"]) requests.ask(name, true);
    await expect.poll(() => requests.outcomes.size).toBe(2);
    expect([...requests.outcomes.keys()].sort()).toEqual(["a2", "a3"]);
    expect(requests.queue.waiting).toBe(3);
    for (const name of ["a1", "a4", "a5", "a6"]) await requests.end(name);
    expect(requests.started).toEqual(["a1", "a4", "a5", "a6"]);
  });

  test("results are used one by one, with turns of the event loop after each that is long", async () => {
    const queue = new FairQueue({ slots: 4, waitingMax: 0, waitMsMax: 1 });
    let turns = 0;
    let running = true;
    const turn = (): void => {
      turns++;
      if (running) setImmediate(turn);
    };
    setImmediate(turn);
    const usedAt: number[] = [];
    const request = async (clientAddress: string): Promise<void> => {
      const call = { signal: new AbortController().signal, clientAddress, requestHeaders: {} };
      await queue.run({ class: "ledger", call }, async () => {});
      usedAt.push(turns);
      for (const until = performance.now() + 6; performance.now() < until; );
    };
    await Promise.all(["a", "b", "c", "d"].map(request));
    running = false;
    const gaps = usedAt.slice(1).map((at, i) => at - (usedAt[i] ?? 0));
    for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(5);
  });

  test("results are used by addresses in turn, however many each has", async () => {
    const queue = new FairQueue({ ...defaults, slots: 6 });
    const used: string[] = [];
    const names = ["a1", "a2", "a3", "a4", "b1"];
    const uses = names.map(async (name) => {
      const call = { signal: new AbortController().signal, clientAddress: name.slice(0, 1), requestHeaders: {} };
      await queue.run({ class: "ledger", call }, async () => {});
      used.push(name);
    });
    await Promise.all(uses);
    expect(used).toEqual(["a1", "a2", "b1", "a3", "a4"]);
  });

  test("whatever comes, bounds hold, every request has an outcome, and nothing is left", async () => {
    const step = fc.record({
      kind: fc.constantFrom("ask", "ask", "ask", "started", "abort", "end"),
      address: fc.constantFrom("a", "b", "c"),
      pick: fc.nat({ max: 1000 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
        const requests = new Requests({ slots: 3, waitingMax: 4 });
        const names: string[] = [];
        for (const { kind, address, pick } of steps) {
          if (kind === "abort") requests.abort(names[pick % names.length] ?? "");
          else if (kind === "end") requests.finish(requests.started[pick % requests.started.length] ?? "");
          else {
            names.push(`${address}${names.length}`);
            requests.ask(names.at(-1) ?? "", kind === "started");
          }
          await nextTurn();
          expect(requests.queue.running).toBeLessThanOrEqual(3);
          for (const each of ["a", "b", "c"]) expect(requests.runningOf(each)).toBeLessThanOrEqual(2);
          expect(requests.queue.clients).toBeGreaterThanOrEqual(requests.clientsAtWork);
        }
        await requests.finishAll();
        expect([requests.queue.running, requests.queue.waiting, requests.queue.clients]).toEqual([0, 0, 0]);
        expect([...requests.outcomes.keys()].sort()).toEqual(names.sort());
      }),
      { numRuns: 60 },
    );
  });
});
