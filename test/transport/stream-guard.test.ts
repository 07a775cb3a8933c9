import { create } from "@bufbuild/protobuf";
import { expect, test, vi } from "vitest";
import { ExportLedgerEntriesRequestSchema, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { Failure } from "../../src/domain/failure.js";
import { type Method, type ResponseStream, serverStreaming } from "../../src/domain/service.js";
import { createLog } from "../../src/telemetry/log.js";
import { defaultTransportLimits } from "../../src/transport/options.js";
import { StreamGuard } from "../../src/transport/stream-guard.js";
import { depthUpdate, fakeService, TestStream } from "./fake-api.js";

const request = create(ExportLedgerEntriesRequestSchema);

function open(method: Method | undefined, address = "a"): ResponseStream {
  if (method?.kind !== "server_streaming") throw new Error("no stream method");
  const call = { signal: new AbortController().signal, clientAddress: address, requestHeaders: {} };
  const stream = method.open(request, call);
  if (stream instanceof Promise) throw new Error("a promise");
  return stream;
}

function guarded(limits: Partial<typeof defaultTransportLimits> = {}) {
  const service = fakeService();
  const guard = new StreamGuard(service.api, { ...defaultTransportLimits, ...limits }, createLog("silent"));
  const method = (name: string): Method | undefined => guard.api.find((m) => m.desc.name === name);
  return { service, guard, depth: method("ObserveMarketsDepthUpdates"), file: method("ExportLedgerEntries") };
}

function failureOf(run: () => unknown): Failure | undefined {
  try {
    run();
  } catch (thrown) {
    return thrown as Failure;
  }
  return undefined;
}

test("streams per address, counted until they close", () => {
  const { depth, file } = guarded({ streamsPerAddressMax: 2 });
  const first = open(depth);
  open(file);
  const failure = failureOf(() => open(depth));
  expect(failure).toMatchObject({
    code: "resource_exhausted",
    reason: "TOO_MANY_STREAMS_OF_CLIENT",
    retryAfterMs: 5000,
  });
  expect(failure?.message).toBe("this client has 2 streams open, as many as one address may; close some");
  open(depth, "b");
  first.close();
  first.close();
  open(depth);
  expect(failureOf(() => open(depth))?.code).toBe("resource_exhausted");
});

test("streams in total", () => {
  const { depth } = guarded({ streamsMax: 2, streamsPerAddressMax: 0 });
  open(depth);
  open(depth);
  const failure = failureOf(() => open(depth));
  expect(failure).toMatchObject({ code: "unavailable", reason: "TOO_MANY_STREAMS", retryAfterMs: 5000 });
});

test("a stream that is refused by the API does not count", () => {
  const { depth, service } = guarded({ streamsMax: 1 });
  service.refusal = failureOf(() => open(undefined)) as Failure;
  for (let i = 0; i < 3; i++) expect(failureOf(() => open(depth))).toBe(service.refusal);
  service.refusal = undefined;
  open(depth);
});

test("draining ends subscriptions at once and refuses new ones; files may begin, and end at last", () => {
  const { guard, depth, file, service } = guarded();
  const subscription = open(depth);
  const download = open(file);
  let told = 0;
  subscription.onReady(() => told++);
  guard.drain();
  expect(told).toBe(1);
  expect(subscription.take()).toEqual([]);
  expect(subscription.failure).toMatchObject({ code: "unavailable", reason: "DRAINING", retryAfterMs: 1000 });
  expect(service.streams[0]?.closed).toBe(true);
  expect(download.failure).toBeUndefined();
  expect(failureOf(() => open(depth))).toMatchObject({ reason: "DRAINING" });
  const late = open(file);
  guard.endAll();
  for (const one of [download, late]) expect(one.failure).toMatchObject({ reason: "DRAINING" });
  expect(failureOf(() => open(file))).toMatchObject({ reason: "DRAINING" });
});

test("a subscription that is still being opened when draining begins is ended; a file is when all are", async () => {
  const streams: TestStream[] = [];
  const later = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    const stream = new TestStream();
    streams.push(stream);
    return stream;
  };
  const { observeMarketsDepthUpdates, exportLedgerEntries } = TradingDataService.method;
  const api = [serverStreaming(observeMarketsDepthUpdates, later), serverStreaming(exportLedgerEntries, later)];
  const guard = new StreamGuard(api, defaultTransportLimits, createLog("silent"));
  const opening = (index: number) => {
    const method = guard.api[index];
    if (method?.kind !== "server_streaming") throw new Error("no stream method");
    return method.open(request, { signal: new AbortController().signal, clientAddress: "a", requestHeaders: {} });
  };
  const [subscription, download] = [opening(0), opening(1)];
  guard.drain();
  expect((await subscription).failure).toMatchObject({ reason: "DRAINING" });
  expect((await download).failure).toBeUndefined();
  const late = opening(1);
  guard.endAll();
  expect((await late).failure).toMatchObject({ reason: "DRAINING" });
  expect(streams.map(({ closed }) => closed)).toEqual([true, true, true]);
});

test("a reader that is always behind, but takes what it is given, is not ended before it stops", () => {
  vi.useFakeTimers();
  try {
    const { depth, service } = guarded({ stalledReaderMs: 60_000 });
    const behind = open(depth);
    for (let i = 0; i < 10; i++) {
      service.streams[0]?.give(depthUpdate(1n));
      expect(behind.take()).toHaveLength(1);
      vi.advanceTimersByTime(50_000);
    }
    expect(behind.failure).toBeUndefined();
    vi.advanceTimersByTime(30_000);
    expect(behind.failure).toMatchObject({ code: "resource_exhausted", reason: "READER_STALLED" });
  } finally {
    vi.useRealTimers();
  }
});

test("a reader that takes nothing of what it was given is ended; one that waits is not", () => {
  vi.useFakeTimers();
  try {
    const { depth, guard, service } = guarded({ stalledReaderMs: 60_000 });
    const stalled = open(depth);
    const waiting = open(depth);
    const reading = open(depth);
    service.streams[0]?.give(depthUpdate(1n));
    expect(stalled.take()).toHaveLength(1);
    expect(waiting.take()).toHaveLength(0);
    for (let i = 0; i < 20; i++) {
      service.streams[2]?.give(depthUpdate(1n));
      reading.take();
      vi.advanceTimersByTime(5_000);
    }
    expect(stalled.failure).toMatchObject({ code: "resource_exhausted", reason: "READER_STALLED" });
    expect(guard.stalled).toBe(1);
    expect(waiting.failure).toBeUndefined();
    expect(reading.failure).toBeUndefined();
  } finally {
    vi.useRealTimers();
  }
});
