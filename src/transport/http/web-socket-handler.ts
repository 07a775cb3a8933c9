import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { WebSocket, WebSocketServer } from "ws";
import { Failure, type FailureCode } from "../../domain/failure.js";
import { clientFailure } from "../../encoding/status.js";
import { ServerCall, type StreamWire } from "../call/server-call.js";
import { eachField } from "../common-headers.js";
import { closeLingering, rawErrorResponse } from "../connections/raw-sockets.js";
import { HttpFailure, unknownPath, urlTooLong } from "../errors.js";
import type { HandlerOptions, TransportLimits } from "../options.js";
import { errorText, webSocketText } from "./encodings.js";
import { splitTarget } from "./routes.js";

/** Close codes (RFC 6455, 7.4, and IANA's registry). */
const closeCodes: Partial<Record<FailureCode, number>> = {
  invalid_argument: 1008,
  not_found: 1008,
  failed_precondition: 1008,
  out_of_range: 1008,
  resource_exhausted: 1008,
  permission_denied: 1008,
  unimplemented: 1008,
  unavailable: 1013,
};
const closedWell = 1000;
const closedByFailure = 1011;
const closedByPolicy = 1008;

/** A client that is connected. */
interface Peer {
  readonly socket: Socket;
  heardAtMs: number;
  bytesSincePing: number;
}

/** Serves streams over WebSockets at the URLs of the HTTP API, with one JSON object per text message. */
export class WebSocketHandler {
  readonly #handshakes: WebSocketServer;
  readonly #peers = new Map<WebSocket, Peer>();
  readonly #pings: NodeJS.Timeout;

  constructor(private readonly options: HandlerOptions) {
    const handshakes = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: options.limits.webSocketMessageBytesMax,
      maxFragments: options.limits.webSocketFragmentsMax,
      // One event of a connection in a turn of the event loop: a packet may hold ten thousand frames.
      allowSynchronousEvents: false,
      // A ping that is read in the turn in which a stream ends would be answered behind its end.
      autoPong: false,
      closeTimeout: options.limits.breakOffMs,
    };
    this.#handshakes = new WebSocketServer(handshakes);
    this.#handshakes.on("headers", (headers) => {
      eachField(options.common.data.current(), (name, value) => headers.push(`${name}: ${value}`));
    });
    this.#pings = setInterval(() => this.#ping(), options.limits.peerPingIntervalMs);
    this.#pings.unref();
  }

  /** Takes over the connection of an upgrade request; `head` is what follows its headers. */
  handle(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on("error", () => {});
    socket.allowHalfOpen = false;
    const { common, limits, log } = this.options;
    try {
      if (!common.allows(request.headers.origin)) {
        // Browsers do not apply CORS to WebSockets.
        const parts = { reason: "ORIGIN_NOT_ALLOWED" };
        throw new Failure("permission_denied", "pages of this origin may not call this server", parts);
      }
      checkHandshake(request);
    } catch (thrown) {
      const refusal = rawErrorResponse(clientFailure(thrown, log), common.of(request.headers.origin));
      closeLingering(socket, limits.lingerMs, refusal);
      return;
    }
    const shake: Handshake = (opened) => {
      this.#handshakes.handleUpgrade(request, socket, head, (webSocket) => {
        this.#watch(webSocket, socket);
        opened(webSocket);
      });
    };
    try {
      this.#open(request, socket, shake);
    } catch (thrown) {
      new WebSocketResponse(socket, limits, shake).finish(clientFailure(thrown, log));
    }
  }

  /** Stops pinging. Connections end with their streams. */
  stop(): void {
    clearInterval(this.#pings);
  }

  #open(request: IncomingMessage, socket: Socket, shake: Handshake): void {
    const { limits, routes, requests, clients } = this.options;
    const url = request.url ?? "/";
    if (url.length > limits.urlLengthMax) throw urlTooLong(limits.urlLengthMax);
    const { path, query } = splitTarget(url);
    const match = routes.match(path);
    if (match === undefined) throw unknownPath(path);
    const { method, parameters } = match.route;
    if (method.kind !== "server_streaming") {
      const text = "a WebSocket is served at the addresses of streams only; use GET here";
      throw new HttpFailure(400, "invalid_argument", "NOT_A_STREAM", text);
    }
    const { message } = parameters.bind(match.segments, query);
    const wire = new WebSocketResponse(socket, limits, shake);
    const counters = requests(method, "websocket");
    const served = { method, counters, options: this.options, terms: routes.terms };
    const { headers } = request;
    const clientAddress = clients.of(socket.remoteAddress, headers["x-forwarded-for"]);
    const call = new ServerCall(served, wire, { clientAddress, headers });
    socket.on("drain", () => call.drained());
    socket.once("close", () => call.left());
    if (!socket.destroyed) call.invoke(message);
  }

  /** Messages of clients are ignored, up to a limit. */
  #watch(webSocket: WebSocket, socket: Socket): void {
    const { webSocketBytesPerPingMax, lingerMs } = this.options.limits;
    const peer = { socket, heardAtMs: performance.now(), bytesSincePing: 0 };
    this.#peers.set(webSocket, peer);
    webSocket.on("pong", () => {
      peer.heardAtMs = performance.now();
    });
    // From then on, nothing that arrives is read as frames.
    const refuse = (): void => {
      if (webSocket.readyState === webSocket.OPEN && socket.writable) {
        webSocket.close(closedByPolicy, "TOO_MANY_MESSAGES");
      }
      closeLingering(socket, lingerMs);
    };
    let unanswered: Buffer | undefined;
    const respond = (): void => {
      if (unanswered !== undefined && socket.writable) webSocket.pong(unanswered);
      unanswered = undefined;
    };
    // Of a reader that takes nothing, the newest alone is kept.
    webSocket.on("ping", (payload) => {
      unanswered = payload;
      if (!socket.writableNeedDrain) respond();
    });
    socket.on("drain", respond);
    // Not messages: pings and empty fragments cost work too.
    socket.on("data", (chunk: Buffer) => {
      peer.bytesSincePing += chunk.length;
      if (peer.bytesSincePing > webSocketBytesPerPingMax) refuse();
    });
    // The client broke the protocol, and was sent a close frame.
    webSocket.on("error", () => closeLingering(socket, lingerMs));
    webSocket.once("close", () => this.#peers.delete(webSocket));
  }

  #ping(): void {
    const silentBefore = performance.now() - this.options.limits.peerSilenceMaxMs;
    for (const [webSocket, peer] of this.#peers) {
      peer.bytesSincePing = 0;
      if (peer.heardAtMs < silentBefore) webSocket.terminate();
      else if (peer.socket.writable) webSocket.ping();
    }
  }
}

/** Final fragment, opcode close. */
const finalClose = 0x88;

function closeFrame(code: number, reason = ""): Buffer {
  const text = Buffer.from(reason);
  const frame = Buffer.from([finalClose, 2 + text.length, 0, 0, ...text]);
  frame.writeUInt16BE(code, 2);
  return frame;
}

/** Switches protocols. The callback is called at once, or never if the client is gone. */
type Handshake = (opened: (webSocket: WebSocket) => void) => void;

/** A name in a header (RFC 9110, 5.6.2). */
const tokenPattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** @throws HttpFailure if the request cannot be upgraded (RFC 6455, 4.2.1) */
function checkHandshake({ headers }: IncomingMessage): void {
  if (headers["sec-websocket-version"] !== "13") {
    const message = "the WebSocket version must be 13";
    throw new HttpFailure(426, "invalid_argument", "WEBSOCKET_VERSION", message, { "sec-websocket-version": "13" });
  }
  const key = headers["sec-websocket-key"];
  const hasBody = (headers["content-length"] ?? "0") !== "0" || headers["transfer-encoding"] !== undefined;
  if (hasBody || key === undefined || !/^[+/0-9A-Za-z]{22}==$/.test(key)) {
    const message = "the WebSocket handshake must have no body, and a Sec-WebSocket-Key of 16 bytes in base64";
    throw new HttpFailure(400, "invalid_argument", "WEBSOCKET_HANDSHAKE", message);
  }
  const protocols = headers["sec-websocket-protocol"]?.split(/[ \t]*,[ \t]*/) ?? [];
  if (!protocols.every((name) => tokenPattern.test(name)) || new Set(protocols).size < protocols.length) {
    const message = "Sec-WebSocket-Protocol must be a list of names, each once";
    throw new HttpFailure(400, "invalid_argument", "WEBSOCKET_HANDSHAKE", message);
  }
}

/**
 * Writes finished frames, which readers share, directly to the socket. The WebSocket object only sends control frames:
 * its own `send` makes each reader a frame, which takes 14% more CPU per message.
 */
class WebSocketResponse implements StreamWire {
  readonly codec = "json";
  readonly encoding = webSocketText;
  #webSocket: WebSocket | undefined;

  constructor(
    private readonly socket: Socket,
    private readonly limits: TransportLimits,
    private readonly shake: Handshake,
  ) {}

  start(): void {
    this.shake((webSocket) => {
      this.#webSocket = webSocket;
    });
  }

  write(frames: Uint8Array): boolean {
    // One that is closing takes nothing more.
    return this.#webSocket?.readyState === WebSocket.OPEN && this.socket.write(frames);
  }

  /** Errors follow a completed handshake too, because browsers show neither status nor body of a refused one. */
  finish(failure: Failure | undefined): void {
    const last = failure === undefined ? [] : [errorText(failure)];
    const code = failure === undefined ? closedWell : (closeCodes[failure.code] ?? closedByFailure);
    const { breakOffMs, stalledReaderMs } = this.limits;
    const hadStarted = this.#webSocket !== undefined;
    if (!hadStarted) this.start();
    const webSocket = this.#webSocket;
    if (webSocket?.readyState === webSocket?.OPEN) {
      // A peer that reads slowly reaches the end later. It may send pings until then: a closed socket would answer with a
      // reset, which drops what was not read.
      const waitMs = hadStarted ? stalledReaderMs : breakOffMs;
      closeLingering(this.socket, waitMs, Buffer.concat([...last, closeFrame(code, failure?.reason)]));
      return;
    }
    // The peer is closing. If it does not, the connection is closed.
    const cut = setTimeout(() => this.socket.destroy(), breakOffMs).unref();
    this.socket.once("close", () => clearTimeout(cut));
  }

  breakOff(): void {
    this.#webSocket?.terminate();
  }
}
