import { describe, expect, test } from "vitest";
import { filterValuesMax } from "../../src/api/ledger-filter.js";
import { entriesPerBlockMax } from "../../src/domain/block-position.js";
import { identifierLengthMax } from "../../src/domain/identifier.js";
import { pageSizeDefault, pageSizeMax } from "../../src/domain/page.js";
import { changesPageBytesMax, changesPerPageMax } from "../../src/history/changes-page.js";
import { replaysMax, replaysPerAddressMax } from "../../src/history/history.js";
import { liveLimits } from "../../src/live/limits.js";
import {
  blockBytesMax,
  eventOverheadBytes,
  keptWholeBytesMax,
  levelOverheadBytes,
} from "../../src/loader/block-fold.js";
import { signatureBytesMax } from "../../src/loader/event-checks.js";
import { blockTimeNsMax, decimalsMax, digitsMax, tagsMax, textLengthMax } from "../../src/loader/field-checks.js";
import { frameBytesMax } from "../../src/loader/frames.js";
import {
  brokerConnectMsMax,
  brokerSilenceMsMax,
  disorderBytesMax,
  disorderMsMax,
} from "../../src/loader/kafka-source.js";
import { backlogBytes, inputIdleMs, transactionLedgerBytes, transactionRowsMax } from "../../src/loader/load.js";
import { sideLevelsMax } from "../../src/loader/venue-markets.js";
import { connectionWaitMaxMs } from "../../src/runtime/connection-distributor.js";
import { connectionsWaitingMax } from "../../src/runtime/descriptors.js";
import { connectionsMax as databaseConnectionsMax } from "../../src/store/connection/driver-options.js";
import { addressShare, waitingMax, waitMsMax } from "../../src/store/connection/fair-queue.js";
import { tombstonePruneIntervalBlocks, tombstoneRetentionBlocks } from "../../src/store/depth-table.js";
import * as eventLoop from "../../src/transport/call/event-loop.js";
import * as admission from "../../src/transport/connections/connection-admission.js";
import { waitingChunksBytesMax } from "../../src/transport/connections/http1-connection.js";
import * as http2 from "../../src/transport/connections/http2-connection.js";
import { discardedBytesMax } from "../../src/transport/connections/raw-sockets.js";
import * as feeder from "../../src/transport/connections/request-feeder.js";
import * as unread from "../../src/transport/connections/unread-responses.js";
import { defaultTransportLimits as port } from "../../src/transport/options.js";
import * as reflection from "../../src/transport/services/reflection.js";
import { readSource } from "./sources.js";

/** The start of a row, and what the rest of it must say, in this order. */
type Rows = Readonly<Record<string, readonly string[]>>;

const [kib, mib, gib] = [1 << 10, 1 << 20, 1 << 30];

/** The largest unit that gives a whole number. */
function bytes(count: number): string {
  if (count % gib === 0) return `${count / gib} GiB`;
  return count % mib === 0 ? `${count / mib} MiB` : `${count / kib} KiB`;
}

function time(ms: number): string {
  if (ms % 60_000 === 0 && ms > 60_000) return `${ms / 60_000} min`;
  return ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms} ms`;
}

const service: Rows = {
  "rows of a page": [`${pageSizeDefault} by default`, `${pageSizeMax}`],
  "`maxDepth`": ["none"],
  "values in one list of a filter": [`${filterValuesMax}`],
  identifier: [`${identifierLengthMax} characters`],
  "message of the depth stream": [bytes(liveLimits.messageBytesMax)],
  "silence on a stream": [time(liveLimits.heartbeatMs)],
  "reader of a stream that takes nothing": [time(port.stalledReaderMs)],
  "reader of a stream that has failed": [time(port.breakOffMs)],
  "reader of any other response over HTTP/2": [`${time(port.stalledReaderMs)} for each ${bytes(unread.pieceBytes)}`],
  "responses that a client has not read": [bytes(unread.unreadBytesPerClientMax), bytes(unread.unreadBytesMax)],
  "open HTTP/2 streams, whatever": [
    `${port.http2StreamsPerAddressMax} of one client address, ${port.http2StreamsMax} in all`,
    http2.refusedStreamCost === 0.1 ? "a tenth of a cancelled call" : "",
  ],
  "open streams of one client address": [`${port.streamsPerAddressMax}`],
  "open streams of a process": [`${port.streamsMax}`],
  "replays of one client address": [`${replaysPerAddressMax},`],
  "replays that read the past": [`${replaysMax},`],
  "changes of a page": [`${changesPerPageMax}, or ${bytes(changesPageBytesMax)}`],
  "time for a unary response": [time(port.requestTimeoutMs)],
  "open connections of a process": [`${port.connectionsMax}`],
  "open connections of one client": [port.connectionsPerAddressMax * 2 === port.connectionsMax ? "half" : ""],
  "new connections that wait": [`${connectionsWaitingMax}, for at most ${time(connectionWaitMaxMs)}`],
  "requests for ledger": [
    `${databaseConnectionsMax}; of one client address ${databaseConnectionsMax * addressShare}; for the past 4`,
  ],
  "such requests that wait": [`${waitingMax}, for at most ${time(waitMsMax)}`],
  "calls at a time": [
    `${port.http2StreamsPerConnectionMax}; ${eventLoop.streamsOfConnectionMax} are started in one turn`,
  ],
  [`calls cancelled in less than ${time(admission.earlyCancelMs)} on one`]: [
    `${port.http2CancelBurstMax} at once and ${port.http2CancelsPerSecondMax}/s`,
  ],
  [`calls cancelled in less than ${time(admission.earlyCancelMs)} by one`]: [
    `${port.cancelledCallBurstMax} at once and ${port.cancelledCallsPerSecondMax}/s`,
  ],
  "PING and SETTINGS": [`${port.http2ControlFramesPerSecondMax}/s`],
  "other frames": [`${bytes(port.http2OverheadBytesPerSecondMax)}/s and a quarter`],
  "HTTP/2 peer": [time(port.peerSilenceMaxMs)],
  "time for a request to arrive": [time(port.headersTimeoutMs), time(port.requestReceiveTimeoutMs)],
  "path and query": [`${port.urlLengthMax} characters`, bytes(port.headerBytesMax)],
  headers: [bytes(port.headerBytesMax), `${port.headerFieldsMax} fields`, bytes(port.headerBytesMax)],
  "header fields of a client's open calls": [
    `${port.http2FieldsOpenMax} together`,
    http2.fieldsPerCancellation === 10 ? `ten fields of a request beyond its first ${http2.fieldsFree}` : "",
  ],
  "message of a WebSocket client": [bytes(port.webSocketMessageBytesMax)],
  "WebSocket client that does not close": [time(port.stalledReaderMs), time(port.breakOffMs)],
  "frames of a WebSocket client": [
    `${bytes(port.webSocketBytesPerPingMax)} in ${time(port.peerPingIntervalMs)}`,
    `${port.webSocketFragmentsMax} fragments`,
  ],
  "bytes that are read of a connection that ends": [
    bytes(discardedBytesMax),
    port.lingerMs === 1_000 ? "a second" : "",
  ],
  "body in chunks": [
    `${bytes(feeder.turnBytesMax)} a turn`,
    `${feeder.waitingPerClientMax} connections`,
    `share of ${feeder.waitingMax}`,
  ],
  "pipelined requests": [`${port.unansweredRequestsMax} behind one`, bytes(waitingChunksBytesMax)],
  "request message of gRPC": [bytes(port.requestBodyBytesMax)],
  [`request messages above ${bytes(eventLoop.largeMessageBytesMin)}`]: [`${eventLoop.largeMessagesPerClientMax},`],
  "requests that arrive slowly": [bytes(eventLoop.requestBytesPerClientMax), bytes(eventLoop.requestBytesMax)],
  "one stream of reflection": [
    `${port.streamedRequestsMax} requests of ${bytes(port.streamedRequestBytesMax)}`,
    time(port.requestStreamIdleMs),
  ],
  "responses of reflection": [bytes(reflection.unreadBytesPerClientMax)],
  "size of an export": ["none"],
};

const loader: Rows = {
  "bytes of a frame": [bytes(frameBytesMax)],
  "ledger entries of a block": [`${entriesPerBlockMax}`],
  "digits of a quantity": [`${digitsMax}`],
  "characters of an identifier": [`${identifierLengthMax}`],
  "bytes of a node signature": [`${signatureBytesMax}`],
  "bytes of a market": [bytes(keptWholeBytesMax)],
  "memory of a block": [bytes(blockBytesMax), bytes(eventOverheadBytes), `${levelOverheadBytes} bytes`],
  "volume of a price level": ["64 bits"],
  "decimals of a market": [`${decimalsMax}`],
  "block time": [`below 2^${blockTimeNsMax.toString(2).length} ns`],
  "levels a side": [`${sideLevelsMax};`],
  "tags of a market": [`${tagsMax}; ${textLengthMax}`],
  "blocks that a vanished": [`${tombstoneRetentionBlocks}, looked at every ${tombstonePruneIntervalBlocks} blocks`],
  "bytes of ledger entries": [`${bytes(transactionLedgerBytes)}, ${transactionRowsMax};`],
  "bytes of messages": [`${bytes(disorderBytesMax)}, ${time(disorderMsMax)}`],
  "silence of a Kafka broker": [`${time(brokerSilenceMsMax)}; ${time(brokerConnectMsMax)}`],
  "wait for input": [time(inputIdleMs)],
  "input of a followed file": [bytes(backlogBytes)],
};

/** The rows of a document's table of limits, with digits that no separator parts. */
function documentedRows(path: string): string[] {
  const [, section = ""] = readSource(path).split("\n## Limits\n");
  const [text = ""] = section.split("\n## ");
  const rows = text.split("\n").filter((line) => line.startsWith("| ") && !/^\| (---|what|limit) /.test(line));
  return rows.map((row) => row.slice(2).replace(/(?<=\d)[ ,](?=\d{3}\b)/g, ""));
}

describe.each([
  ["docs/api.md", service],
  ["docs/events.md", loader],
] as const)("the limits in %s", (path, expected) => {
  const rows = documentedRows(path);

  test("are all known here", () => {
    const starts = Object.keys(expected);
    const rowsOf = (start: string) => rows.filter((row) => row.startsWith(start)).length;
    expect(rows.filter((row) => !starts.some((start) => row.startsWith(start)))).toEqual([]);
    expect(starts.filter((start) => rowsOf(start) !== 1)).toEqual([]);
  });

  test.each(Object.entries(expected))("%s", (start, parts) => {
    let rest = rows.find((row) => row.startsWith(start)) ?? "";
    rest = rest.slice(rest.indexOf(" | "));
    for (const part of parts) {
      expect(part).not.toBe("");
      expect(rest).toContain(part);
      rest = rest.slice(rest.indexOf(part) + part.length);
    }
  });
});
