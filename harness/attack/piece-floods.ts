import { setTimeout as sleep } from "node:timers/promises";
import { data, headers, postFields, preface, settings } from "../../test/support/http2-frames.js";
import { rawUpgrade } from "../../test/support/raw-http.js";
import type { Attack, Round } from "./attack.js";
import { RawConnection } from "./raw-connection.js";

const host = "Host: marketd\r\n";
const healthz = `GET /healthz HTTP/1.1\r\n${host}\r\n`;
const service = "/datanode.api.v2.TradingDataService";
const streamPath = "/api/v2/stream/markets/depth/updates";

/** Pieces so small that each is far more work than its bytes. */
interface Flood {
  readonly name: string;
  /** What a connection begins with. */
  readonly begin: string;
  /** What it sends behind the response, with the first pieces. */
  readonly next?: string;
  readonly piece: string;
  /** Connections at once, each from an address of its own. */
  readonly width: number;
  /** Bytes of pieces after which a connection is closed and another opened; default: none. */
  readonly bytesMax?: number;
}

const chunk = "1\r\n \r\n";

function chunkedPost(method: string): string {
  const head = `POST ${service}/${method} HTTP/1.1\r\n${host}Content-Type: application/json\r\n`;
  return `${head}Transfer-Encoding: chunked\r\n\r\n`;
}

/** Frames that a client masks, with zeros. */
function webSocketFlood(name: string, piece: string, first = ""): Flood {
  return { name: `WebSocket ${name}`, begin: rawUpgrade(streamPath) + first, piece, width: 40 };
}

function http2Flood(name: string, payload: string): Flood {
  const request = headers(1, postFields(`${service}/GetMarket`, "application/grpc"));
  const begin = Buffer.concat([preface, settings(), request]).toString("latin1");
  return { name, begin, piece: data(1, Buffer.from(payload)).toString("latin1"), width: 12 };
}

/** What the kernel holds of a connection that is not read, about. */
const packetBytes = 64 * 1024;

const floods: readonly Flood[] = [
  { name: "chunks of a byte", begin: chunkedPost("GetMarket"), piece: chunk, width: 12 },
  { name: "refused chunks of a byte", begin: chunkedPost("Nothing"), piece: chunk, width: 12 },
  {
    name: "chunks of a byte behind another request",
    begin: healthz,
    next: chunkedPost("GetMarket"),
    piece: chunk,
    width: 12,
    bytesMax: packetBytes,
  },
  {
    name: "chunks of a byte behind a head in two packets",
    begin: `${healthz}POST /nowhere HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n`,
    next: "\r\n",
    piece: chunk,
    width: 12,
    bytesMax: packetBytes,
  },
  {
    name: "chunks of a byte with a stream's request",
    begin: `GET ${streamPath} HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`,
    piece: chunk,
    width: 12,
  },
  { name: "empty lines", begin: `${healthz}\r\n\r\n`, piece: "\r\n\r\n", width: 12 },
  {
    name: "ends of heads in a body",
    begin: `${healthz}POST /nowhere HTTP/1.1\r\n${host}Content-Length: 1000000000\r\n\r\n`,
    piece: "\r\n\r\n",
    width: 12,
  },
  webSocketFlood("texts", "\x81\x81\0\0\0\0a"),
  webSocketFlood("pongs", "\x8a\x80\0\0\0\0"),
  webSocketFlood("continuations", "\0\x80\0\0\0\0", "\x01\x80\0\0\0\0"),
  http2Flood("HTTP/2 data of a byte", " "),
  http2Flood("HTTP/2 data of nothing", ""),
];

/** A body is answered by then, beside the others. */
const responseMaxMs = 5_000;

/** How long one kind lasts at least: others' percentile takes a hundred calls. */
const floodMs = 2_500;

/** Sends as fast as the server takes it, and again on another connection, until the time is over. */
async function flood(round: Round, until: number, kind: Flood, n: number): Promise<void> {
  const pieces = Buffer.from(kind.piece.repeat(packetBytes / kind.piece.length), "latin1");
  const { bytesMax = Number.POSITIVE_INFINITY } = kind;
  while (performance.now() < until && round.target.alive) {
    const connection = await RawConnection.open(round.target.port, round.tally, `127.0.8.${1 + n}`);
    if (connection === undefined) continue;
    round.tally.requests++;
    connection.write(kind.begin);
    await connection.untilReceived(1, 50);
    const { socket } = connection;
    socket.write(Buffer.concat([Buffer.from(kind.next ?? "", "latin1"), pieces]));
    for (let sent = pieces.length; sent < bytesMax && !connection.ended && performance.now() < until; ) {
      if (socket.writableNeedDrain) await sleep(1);
      else {
        socket.write(pieces);
        sent += pieces.length;
      }
    }
    connection.tallyResponses(round.tally, () => kind.name);
    connection.close();
  }
}

/** Bodies that one address sends at once. Limits on what a process takes of an address begin at 32. */
const bodiesCount = 150;
/** Many times what the parser is given at once of a body in chunks. */
const body = `${" ".repeat(100_000)}{}`;
const post = `POST ${service}/ListLatestMarketData HTTP/1.1\r\n${host}Content-Type: application/json\r\n`;

/** One client floods; then another, who did nothing, sends many bodies at once. All of them must be answered. */
const bodiesBesideFlood: Attack = {
  name: "flood: a packet of requests, and bodies of another",
  expects: "every body with a length gets a response",
  run: async ({ target, tally, until }) => {
    const send = async (connection: RawConnection | undefined): Promise<void> => {
      tally.requests++;
      connection?.write(`${post}Content-Length: ${body.length}\r\n\r\n${body}`);
      await connection?.untilReceived(1, responseMaxMs);
      if (connection?.tallyResponses(tally, () => "a body with a length") !== 1) tally.wrong("a body gets no response");
      connection?.close();
    };
    do {
      const flooding = await RawConnection.open(target.port, tally);
      flooding?.write(healthz);
      await flooding?.untilReceived(1, 50);
      flooding?.write(healthz.repeat(200));
      await flooding?.untilEnded(500);
      flooding?.close();
      const open = () => RawConnection.open(target.port, tally, "127.0.9.1");
      const connections = await Promise.all(Array.from({ length: bodiesCount }, open));
      await Promise.all(connections.map(send));
    } while (performance.now() < until && target.alive);
  },
};

/** Attacks by requests in the smallest pieces, or by many in one packet. */
export const pieceFloods: readonly Attack[] = [
  bodiesBesideFlood,
  ...floods.map(
    (kind): Attack => ({
      name: `flood: ${kind.name}`,
      expects: "bounded memory, and no starvation",
      run: async (round) => {
        const until = Math.max(round.until, performance.now() + floodMs);
        await Promise.all(Array.from({ length: kind.width }, (_, n) => flood(round, until, kind, n)));
      },
    }),
  ),
];
