import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { type ListenAddress, urlOf } from "../../src/domain/listen-address.js";
import { type RunningServer, type ServerOptions, startServer } from "../../src/transport/server.js";

/** A port that is listened to. */
export interface Listening {
  readonly address: ListenAddress;
  /** `http://host:port` or `https://host:port`, without base path. */
  readonly url: string;
  /** Accepts no more connections. */
  stop(): void;
}

/** Listens on a free port of this machine, and hands connections on as the primary does to its workers. */
export async function listening(accept: (socket: Socket) => void, isTls = false): Promise<Listening> {
  const listener = createServer({ allowHalfOpen: true }, accept);
  await once(listener.listen(0, "127.0.0.1"), "listening");
  const address = { host: "127.0.0.1", port: (listener.address() as AddressInfo).port };
  return { address, url: urlOf(isTls ? "https" : "http", address), stop: () => void listener.close() };
}

/** A server that listens. */
export type ListeningServer = RunningServer & Omit<Listening, "stop">;

/** A server on a free port. */
export async function startListeningServer(options: ServerOptions): Promise<ListeningServer> {
  const server = startServer(options);
  const { address, url, stop } = await listening(server.accept, options.tls !== undefined);
  const drain = (ms: number): Promise<void> => {
    stop();
    return server.drain(ms);
  };
  const close = (): Promise<void> => {
    stop();
    return server.close();
  };
  return { ...server, address, url, drain, close };
}
