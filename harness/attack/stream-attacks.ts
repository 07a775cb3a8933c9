import { setTimeout as sleep } from "node:timers/promises";
import { envelope } from "../../src/transport/call/framing.js";
import { data, flag, headers, postFields } from "../../test/support/http2-frames.js";
import { type Attack, inParallel, type Round } from "./attack.js";
import { floodSession, withoutGrowth } from "./limit-attacks.js";
import { anyOperation, type Operation } from "./operations.js";
import { attackerAddress } from "./raw-connection.js";
import type { FedService } from "./target.js";

/** Sessions, and streams on each; a client address may have 1,000 streams. */
const sessions = 10;
const streamsOfSession = 60;
/** What a reader takes of a stream before it stops: a few messages. */
const windowBytes = 4_096;
/** How long the network goes on meanwhile: readers that take nothing for 5 s are ended. */
const watchMs = 12_000;
const probePauseMs = 100;
const probeMaxMs = 500;
const probeTimeoutMs = 10_000;

const streams = /Observe(Trades|CandleData|MarketsData)$/;

/** A stream of trades, candles or market data. */
function someStream(round: Round, service: FedService): Operation {
  for (;;) {
    const operation = anyOperation({ ...round.target, marketId: service.marketId }, round.random);
    if (streams.test(operation.path)) return operation;
  }
}

/** The longest that all but one of a hundred requests for a cached response took; infinite: one was not answered. */
async function slowestProbe({ port, marketId }: FedService, signal: AbortSignal): Promise<number> {
  const latenciesMs: number[] = [];
  const probe = async () => {
    const limit = { signal: AbortSignal.timeout(probeTimeoutMs) };
    return (await fetch(`http://127.0.0.1:${port}/api/v2/market/${marketId}`, limit)).arrayBuffer();
  };
  while (!signal.aborted) {
    const startedAt = performance.now();
    const answered = await probe().catch(() => undefined);
    if (answered === undefined) return Number.POSITIVE_INFINITY;
    latenciesMs.push(performance.now() - startedAt);
    await sleep(probePauseMs);
  }
  return latenciesMs.sort((a, b) => a - b)[Math.floor(latenciesMs.length * 0.99)] ?? 0;
}

async function readNothing(round: Round, service: FedService): Promise<void> {
  const open = Array.from({ length: sessions }, () =>
    floodSession(round, service.port, windowBytes, streamsOfSession, attackerAddress(), (id) => {
      const { path, binary } = someStream(round, service);
      return [headers(id, postFields(path, "application/grpc")), data(id, envelope(0, binary), flag.endStream)];
    }),
  );
  const stop = new AbortController();
  const slowest = slowestProbe(service, stop.signal);
  const connections = await Promise.all(open);
  await sleep(watchMs);
  const stalled = await service.metric("marketd_streams_stalled_total");
  if (stalled === 0) round.tally.wrong("no stream was ended whose reader takes nothing");
  stop.abort();
  const slowestMs = Math.round(await slowest);
  round.tally.notes.push(`${stalled} streams ended, others answered within ${slowestMs} ms`);
  if (slowestMs > probeMaxMs) round.tally.wrong(`others are answered within ${slowestMs} ms`);
  for (const connection of connections) connection?.close();
  await sleep(watchMs / 4);
  const left = await service.metric("marketd_streams_open");
  if (left > 0) round.tally.wrong(`${left} streams are open whose clients have left`);
}

/** Streams of trades, candles and market data of a network that goes on, whose readers stop reading. */
export const unreadStreams: Attack = {
  name: "streams of trades and candles that nobody reads",
  expects: "bounded memory, an end to each, and no starvation",
  run: async (round) => {
    const service = await round.target.startFed();
    try {
      await withoutGrowth(round, service.residentBytes, () => inParallel(round, 1, () => readNothing(round, service)));
    } finally {
      await service.stop();
    }
  },
};
