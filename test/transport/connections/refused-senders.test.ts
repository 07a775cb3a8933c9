import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from "node:http2";
import { afterEach, describe, expect, test } from "vitest";
import { selfSigned } from "../../support/certificate.js";
import { data, FrameConnection, flag, frameType, headers, postFields } from "../../support/http2-frames.js";
import type { ListeningServer } from "../../support/listening.js";
import { serveFake } from "../serve-fake.js";

const service = "/datanode.api.v2.TradingDataService";
const tooLarge = Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]);
const tls = selfSigned();

/** A request that is refused before its body has ended. */
interface Refused {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly body?: Uint8Array;
  /** How the client learns of it: the HTTP status, `grpc-status`, or what the body holds. */
  readonly told: (outcome: Outcome) => unknown;
}

interface Outcome {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: string;
  readonly resetCode: number | undefined;
}

const grpcStatus = ({ headers, trailers }: Outcome): unknown => headers["grpc-status"] ?? trailers["grpc-status"];
const httpStatus = ({ headers }: Outcome): unknown => headers[":status"];
const webStatus = ({ body }: Outcome): unknown => /grpc-status: (\d+)/.exec(body)?.[1];

const refused: Readonly<Record<string, Refused & { readonly expected: unknown }>> = {
  "gRPC, a message too large": {
    path: `${service}/GetMarket`,
    headers: { "content-type": "application/grpc", te: "trailers" },
    body: tooLarge,
    told: grpcStatus,
    expected: "8",
  },
  "gRPC, a stream's message too large": {
    path: `${service}/ObserveMarketsDepthUpdates`,
    headers: { "content-type": "application/grpc", te: "trailers" },
    body: tooLarge,
    told: grpcStatus,
    expected: "8",
  },
  "gRPC, a bad timeout": {
    path: `${service}/GetMarket`,
    headers: { "content-type": "application/grpc", te: "trailers", "grpc-timeout": "soon" },
    told: grpcStatus,
    expected: "3",
  },
  "gRPC, compressed": {
    path: `${service}/GetMarket`,
    headers: { "content-type": "application/grpc", te: "trailers", "grpc-encoding": "gzip" },
    body: tooLarge,
    told: grpcStatus,
    expected: "8",
  },
  "gRPC, an unknown method": {
    path: `${service}/NoSuchMethod`,
    headers: { "content-type": "application/grpc", te: "trailers" },
    told: grpcStatus,
    expected: "12",
  },
  "gRPC-Web, a message too large": {
    path: `${service}/GetMarket`,
    headers: { "content-type": "application/grpc-web+proto" },
    body: tooLarge,
    told: webStatus,
    expected: "8",
  },
  "gRPC-Web, a bad timeout": {
    path: `${service}/ObserveMarketsDepthUpdates`,
    headers: { "content-type": "application/grpc-web+proto", "grpc-timeout": "soon" },
    told: webStatus,
    expected: "3",
  },
  "gRPC-Web, compressed": {
    path: `${service}/GetMarket`,
    headers: { "content-type": "application/grpc-web+proto", "grpc-encoding": "gzip" },
    body: tooLarge,
    told: ({ body, headers }) => /grpc-status: (\d+)/.exec(body)?.[1] ?? headers["grpc-status"],
    expected: "8",
  },
  "Connect, a stream's message too large": {
    path: `${service}/ObserveMarketsDepthUpdates`,
    headers: { "content-type": "application/connect+json" },
    body: tooLarge,
    told: ({ body }) => /"code":"(\w+)"/.exec(body)?.[1],
    expected: "resource_exhausted",
  },
  "Connect unary, a bad timeout": {
    path: `${service}/GetMarket`,
    headers: { "content-type": "application/json", "connect-timeout-ms": "soon" },
    told: httpStatus,
    expected: 400,
  },
  "Connect unary, an unknown encoding": {
    path: `${service}/GetMarket`,
    headers: { "content-type": "application/json", "content-encoding": "zip" },
    told: httpStatus,
    expected: 501,
  },
  "Connect, a method that is not allowed": {
    path: `${service}/GetMarket`,
    method: "PUT",
    headers: { "content-type": "application/json" },
    told: httpStatus,
    expected: 405,
  },
  "HTTP, a method that is not allowed": {
    path: "/api/v2/market/m",
    method: "POST",
    headers: { "content-type": "application/json" },
    told: httpStatus,
    expected: 405,
  },
  "HTTP, an unknown path": { path: "/nowhere", method: "POST", headers: {}, told: httpStatus, expected: 404 },
  "HTTP, a body where none belongs": {
    path: "/api/v2/market/m",
    method: "GET",
    headers: { "content-length": "1000" },
    body: Buffer.from("x"),
    told: httpStatus,
    expected: 200,
  },
};

/** Sends the request and goes on with a byte every 20 ms until the stream is over. */
function drip(session: ClientHttp2Session, request: Refused): Promise<Outcome> {
  const { path, headers, method = "POST", body } = request;
  const stream = session.request({ ":method": method, ":path": path, ...headers }, { endStream: false });
  return new Promise((resolve) => {
    let answered: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    let received = "";
    const dripping = setInterval(() => {
      if (!stream.closed && stream.writable) stream.write(Buffer.alloc(1));
    }, 20);
    stream.on("response", (head) => {
      answered = head;
    });
    stream.on("trailers", (last) => {
      trailers = last;
    });
    stream.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
    });
    stream.on("error", () => {});
    stream.on("close", () => {
      clearInterval(dripping);
      resolve({ headers: answered, trailers, body: received, resetCode: stream.rstCode });
    });
    if (body !== undefined) stream.write(body);
  });
}

describe.each([
  ["h2c", undefined],
  ["TLS", tls],
])("a client that sends on after it was answered is stopped, over %s", (name, certificate) => {
  let server: ListeningServer;

  afterEach(async () => {
    await server.close();
  });

  describe.skipIf(name === "TLS" && tls === undefined)("and", () => {
    test.each(Object.entries(refused))("%s: reads the response first", { timeout: 10_000 }, async (_name, request) => {
      ({ server } = await serveFake(certificate === undefined ? {} : { tls: certificate }));
      const session = connect(server.url, { rejectUnauthorized: false });
      session.on("error", () => {});
      for (let i = 0; i < 3; i++) {
        // Several in one turn: their frames share writes, in whose midst a reset could overtake a response.
        const outcomes = await Promise.all([drip(session, request), drip(session, request), drip(session, request)]);
        for (const outcome of outcomes) {
          expect(request.told(outcome)).toBe(request.expected);
          expect(outcome.resetCode).toBe(0);
        }
      }
      expect(session.closed).toBe(false);
      session.destroy();
    });

    test.each([false, true])(
      "no reset overtakes the status of a call with two messages (its end sent: %s)",
      async (ended) => {
        ({ server } = await serveFake(certificate === undefined ? {} : { tls: certificate }));
        const connection = await FrameConnection.open(server.address.port, { tls: certificate !== undefined });
        const fields = postFields(`${service}/GetMarket`, "application/grpc");
        const ids = Array.from({ length: 50 }, (_, i) => 2 * i + 1);
        for (const id of ids) {
          connection.send(headers(id, fields), data(id, Buffer.alloc(10)));
          if (ended) connection.send(data(id, Buffer.alloc(0), flag.endStream));
          if (id % 4 === 1) await new Promise((resolve) => setImmediate(resolve));
        }
        for (const id of ids) await connection.frame((one) => one.streamId === id);
        for (const id of ids) expect(connection.typesOf(id)[0]).toBe(frameType.headers);
        connection.close();
      },
    );
  });
});
