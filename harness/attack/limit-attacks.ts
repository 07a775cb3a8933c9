import { setTimeout as sleep } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { ServerReflectionRequestSchema } from "../../gen/grpc/reflection/v1/reflection_pb.js";
import { envelope } from "../../src/transport/call/framing.js";
import {
  data,
  flag,
  frame,
  frameType,
  getFields,
  headers,
  postFields,
  preface,
  setting,
  settings,
  windowUpdate,
} from "../../test/support/http2-frames.js";
import { type Attack, inParallel, type Round } from "./attack.js";
import { attackerAddress, RawConnection } from "./raw-connection.js";
import { proxiedStreamsPerAddressMax } from "./target.js";

/** How much an attack of few bytes may let the service grow: 20,000 streams of HTTP/2 take some 200 MiB. */
const growthBytesMax = 320 * 2 ** 20;

/** How long the service is watched after it has sent the last byte, and at most. */
const watchMs = 3_000;
const watchMaxMs = 45_000;

/** Waits until nothing more arrives, and hangs up. */
async function untilQuiet(opened: readonly (RawConnection | undefined)[]): Promise<void> {
  const connections = opened.filter((connection) => connection !== undefined);
  const received = (): number => connections.reduce((sum, { receivedBytes }) => sum + receivedBytes, 0);
  const until = performance.now() + watchMaxMs;
  for (let before = -1; before !== received() && performance.now() < until; ) {
    before = received();
    await sleep(watchMs);
  }
  for (const connection of connections) connection.close();
}

const mebibytes = (bytes: number): number => Math.round(bytes / 2 ** 20);

/** Runs an attack that sends few bytes, and notes how much the service grows meanwhile. */
export async function withoutGrowth(
  round: Round,
  residentBytes: () => number,
  attack: () => Promise<void>,
): Promise<void> {
  const before = residentBytes();
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, residentBytes());
  }, 100);
  await attack();
  clearInterval(watch);
  if (most - before <= growthBytesMax) return;
  round.tally.wrong(`resident memory grew from ${mebibytes(before)} to ${mebibytes(most)} MiB`);
}

const value = "datanode.api.v2.TradingDataService";
const request = create(ServerReflectionRequestSchema, { messageRequest: { case: "fileContainingSymbol", value } });
const question = envelope(0, toBinary(ServerReflectionRequestSchema, request));
const reflectionPath = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/** Connections, and streams on each, with one question: about 2 MB, to which the responses are some 350 MB. */
const reflectionConnections = 10;
const reflectionStreams = 1_000;

const reflection: Attack = {
  name: "reflection",
  expects: "no starvation, and bounded memory",
  run: (round) =>
    withoutGrowth(
      round,
      () => round.target.holding().residentBytes,
      () => inParallel(round, 1, () => floodReflection(round)),
    ),
};

/** Asks on all connections of one address at once. Half of them take their responses. */
async function floodReflection(round: Round): Promise<void> {
  const localAddress = attackerAddress();
  const open = Array.from({ length: reflectionConnections }, (_, n) =>
    floodSession(round, round.target.port, n % 2 === 0 ? 0x7fff_ffff : 0, reflectionStreams, localAddress, (id) => [
      headers(id, postFields(reflectionPath, "application/grpc")),
      data(id, question),
    ]),
  );
  await untilQuiet(await Promise.all(open));
}

/** Opens a session of which each stream has this window, and sends the frames of so many streams at once. */
export async function floodSession(
  round: Round,
  port: number,
  window: number,
  streams: number,
  localAddress: string,
  framesOf: (id: number) => readonly Buffer[],
): Promise<RawConnection | undefined> {
  const connection = await RawConnection.open(port, round.tally, localAddress);
  const hello = [preface, settings([setting.initialWindowSize, window]), frame(frameType.settings, flag.ack, 0)];
  const frames = Array.from({ length: streams }, (_, i) => framesOf(2 * i + 1)).flat();
  round.tally.requests += streams;
  connection?.write(Buffer.concat([...hello, windowUpdate(0, 0x7ffe_ffff), ...frames]));
  return connection;
}

/** Connections that ask for metrics, and requests of each: about 1 MB. */
const unreadConnections = 20;
const unreadRequests = 900;

const unreadMetrics: Attack = {
  name: "unread metrics and files",
  expects: "bounded memory",
  run: async (round) => {
    const service = await round.target.startProxied();
    // The first requests load code.
    await fetch(`http://127.0.0.1:${service.port}/metrics`).then((response) => response.text());
    await withoutGrowth(round, service.residentBytes, () =>
      inParallel(round, 1, () => floodUnread(round, service.port)),
    );
    await service.stop();
  },
};

/** Requests whose responses do not fit the window of 0 that the client gives. */
async function floodUnread(round: Round, port: number): Promise<void> {
  const open = Array.from({ length: unreadConnections }, () => {
    const path = round.random.pick(["/metrics", "/metrics", "/openapi.json"]);
    return floodSession(round, port, 0, unreadRequests, attackerAddress(), (id) => [
      headers(id, getFields(path), flag.endStream),
    ]);
  });
  await untilQuiet(await Promise.all(open));
}

/** Node's own limit on header fields, up to which an attacker fills before the proxy adds its own. */
const readFieldsMax = 1_000;

const forgedAddress: Attack = {
  name: "forged client address",
  expects: "no client uses another's quota",
  run: async (round) => {
    const service = await round.target.startProxied();
    await inParallel(round, 1, () => takeQuota(round, service.port));
    await service.stop();
  },
};

/** Opens streams in the name of a victim behind the same proxy, which then asks for one. */
async function takeQuota(round: Round, port: number): Promise<void> {
  const victim = `198.51.100.${round.random.below(250)}`;
  const stream = (...fields: readonly string[]): string => {
    const lines = ["GET /api/v2/stream/markets/depth/updates HTTP/1.1", "Host: marketd", ...fields, "", ""];
    return lines.join("\r\n");
  };
  const padding = Array.from({ length: readFieldsMax - 2 }, () => "X: y");
  const forged = stream(`X-Forwarded-For: ${victim}`, ...padding, "X-Forwarded-For: 203.0.113.9");
  const connections: RawConnection[] = [];
  const open = async (request: string): Promise<number> => {
    const connection = await RawConnection.open(port, round.tally);
    if (connection === undefined) return 0;
    connections.push(connection);
    round.tally.requests++;
    connection.write(request);
    await connection.untilReceived(12, watchMs);
    return Number(Buffer.concat(connection.received).toString("latin1", 9, 12));
  };
  for (let n = 0; n < proxiedStreamsPerAddressMax; n++) await open(forged);
  const status = await open(stream(`X-Forwarded-For: ${victim}`));
  if (status !== 200) round.tally.wrong(`a client whose address was forged is refused with ${status}`);
  for (const connection of connections) connection.close();
}

/** Attacks on what once was outside the limits. */
export const limitAttacks: readonly Attack[] = [reflection, unreadMetrics, forgedAddress];
