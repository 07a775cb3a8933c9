// The server that the conformance suite starts and calls: our port over the suite's own service. It reads what the server
// has to be from standard input, writes where it listens to standard output, and serves until it is told to stop.
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { startListeningServer } from "../../test/support/listening.js";
import {
  ServerCompatRequestSchema,
  ServerCompatResponseSchema,
} from "./gen/connectrpc/conformance/v1/server_compat_pb.js";
import { conformanceApi } from "./service.js";

/** Each message is prefixed with its length in bytes, 32 bits, big-endian. */
const lengthBytes = 4;

const { useTls, serverCreds, messageReceiveLimit } = fromBinary(ServerCompatRequestSchema, await readMessage());
const certificate = Buffer.from(serverCreds?.cert ?? []);
const server = await startListeningServer({
  api: conformanceApi,
  log: createLog("warn"),
  metrics: createMetrics(),
  readiness: () => "ready",
  ...(useTls
    ? { tls: { certificate: certificate.toString(), key: Buffer.from(serverCreds?.key ?? []).toString() } }
    : {}),
  limits: messageReceiveLimit === 0 ? {} : { requestBodyBytesMax: messageReceiveLimit },
});
writeMessage({ host: "127.0.0.1", port: server.address.port, ...(useTls ? { pemCert: certificate } : {}) });
process.once("SIGTERM", () => void server.close());

async function readMessage(): Promise<Buffer> {
  let received = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    received = Buffer.concat([received, chunk]);
    if (received.length < lengthBytes) continue;
    const end = lengthBytes + received.readUInt32BE();
    if (received.length >= end) return received.subarray(lengthBytes, end);
  }
  throw new Error("standard input ended before the request was whole");
}

function writeMessage(response: MessageInitShape<typeof ServerCompatResponseSchema>): void {
  const message = toBinary(ServerCompatResponseSchema, create(ServerCompatResponseSchema, response));
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt32BE(message.length);
  process.stdout.write(Buffer.concat([length, message]));
}
