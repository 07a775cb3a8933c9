import { Agent, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { CallFailure, failureFromSocket } from "./call-failure.js";

export interface HttpRequest {
  readonly method?: "GET" | "POST";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Until the head of the response is there; of a whole exchange, until its end. */
  readonly deadlineMs: number;
}

export interface WholeResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** One client of the HTTP/1.1 port with one connection, which it keeps unless told otherwise. */
export class HttpClient {
  readonly #agent: Agent | false;

  /** @param localAddress where it calls from; default: any */
  constructor(
    private readonly port: number,
    keepsConnection = true,
    private readonly localAddress?: string,
  ) {
    this.#agent = keepsConnection ? new Agent({ keepAlive: true, maxSockets: 1 }) : false;
  }

  /** A request and its whole response. @throws CallFailure */
  async exchange(request: HttpRequest): Promise<WholeResponse> {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), request.deadlineMs);
    try {
      const { response, reused } = await this.#open(request, stop.signal);
      const body = await wholeBody(response, reused, stop.signal);
      return { status: response.statusCode ?? 0, headers: response.headers, body };
    } finally {
      clearTimeout(timer);
    }
  }

  /** A request and its response as it comes; aborting `signal` hangs up. @throws CallFailure */
  async open(request: HttpRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), request.deadlineMs);
    const { response } = await this.#open(request, stop.signal).finally(() => clearTimeout(timer));
    if (signal.aborted) response.destroy();
    else signal.addEventListener("abort", () => response.destroy(), { once: true });
    return response;
  }

  close(): void {
    if (this.#agent !== false) this.#agent.destroy();
  }

  #open(request: HttpRequest, signal: AbortSignal): Promise<{ response: IncomingMessage; reused: boolean }> {
    return new Promise((resolve, reject) => {
      const { method = "GET", path, headers, body } = request;
      const { port, localAddress } = this;
      const sent = httpRequest({ port, host: "127.0.0.1", localAddress, method, path, headers, agent: this.#agent });
      const hangUp = () => sent.destroy(new CallFailure("late", `no response within ${request.deadlineMs} ms`));
      signal.addEventListener("abort", hangUp, { once: true });
      sent.on("response", (response) => {
        response.on("error", () => {});
        resolve({ response, reused: sent.reusedSocket });
      });
      sent.on("error", (error) => reject(failureFromSocket(error, sent.reusedSocket)));
      sent.on("close", () => reject(new CallFailure("broken", "the connection ended", 0, false, sent.reusedSocket)));
      sent.end(body);
    });
  }
}

/** The bytes of a response. @throws CallFailure when it is cut short */
export async function wholeBody(response: IncomingMessage, reused = false, signal?: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer);
  } catch (error) {
    if (signal?.aborted === true) throw new CallFailure("late", "the response did not end within its deadline");
    throw failureFromSocket(error, reused);
  }
  return Buffer.concat(chunks);
}
