import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { RawConnection, rawGet } from "./raw-http.js";

/** How the calls of a client ended. */
export interface PollingOutcome {
  /** With a response. */
  answered: number;
  /** No connection could be had: nothing was asked. */
  refused: number;
  /** The connection ended before the response: what happened, each time. */
  readonly lost: string[];
}

/** A client that asks on and on over connections that it keeps, until it is stopped. */
export type PollingClient = (port: number, stopped: () => boolean, outcome: PollingOutcome) => Promise<void>;

const path = "/api/v2/markets/data";

/** Pauses shorter than a packet's way, and longer than a turn of the server's event loop. */
function pause(): Promise<void> {
  return sleep(Math.random() * 10);
}

/** Requests that are the same each time, and requests that are not. */
function target(round: number): string {
  return round % 3 === 0 ? `${path}?_=${round}` : path;
}

/** `node:http` with an agent that keeps connections. */
const nodeClient: PollingClient = async (port, stopped, outcome) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  for (let round = 0; !stopped(); round++) {
    let connected = false;
    const ending = await new Promise<string>((resolve) => {
      const request = http.get({ host: "127.0.0.1", port, path: target(round), agent }, (response) => {
        response.resume();
        response.on("end", () => resolve("answered"));
        response.on("error", (error) => resolve(`${error.message} in the response`));
      });
      request.on("socket", (socket) => {
        connected = !socket.connecting;
        if (connected) return;
        socket.once("connect", () => {
          connected = true;
        });
      });
      request.on("error", (error) => resolve(error.message));
    });
    count(outcome, ending, connected);
    await pause();
  }
  agent.destroy();
};

/** The platform's `fetch`. */
const fetchClient: PollingClient = async (port, stopped, outcome) => {
  for (let round = 0; !stopped(); round++) {
    const ending = await fetch(`http://127.0.0.1:${port}${target(round)}`)
      .then((response) => response.text())
      .then(
        () => "answered",
        (error: Error) => causeOf(error),
      );
    count(outcome, ending, !ending.includes("ECONNREFUSED"));
    await pause();
  }
};

/** A socket of its own, which notes how each connection ends. */
const rawClient: PollingClient = async (port, stopped, outcome) => {
  for (let round = 0; !stopped(); ) {
    const connection = await RawConnection.open(port).catch(() => undefined);
    if (connection === undefined) {
      outcome.refused++;
      await sleep(20);
      continue;
    }
    // An end that comes while nothing is asked for is no loss.
    for (let asked = 1, open = true; open && !stopped() && connection.end === "open"; round++, asked++) {
      open = await askRaw(connection, round, asked, outcome);
      await pause();
    }
    connection.close();
  }
};

/** Whether the connection may be used again. */
async function askRaw(
  connection: RawConnection,
  round: number,
  asked: number,
  outcome: PollingOutcome,
): Promise<boolean> {
  const startedMs = performance.now();
  try {
    const { head } = await connection.ask(rawGet(target(round)));
    outcome.answered++;
    if (!/^connection: close\r$/im.test(head)) return true;
    if ((await connection.ending()) !== "ended") outcome.lost.push(`socket: ${connection.end} after the last response`);
  } catch {
    const ms = Math.round(performance.now() - startedMs);
    outcome.lost.push(`socket: ${connection.end} in request ${asked} after ${ms} ms`);
  }
  return false;
}

/** By name. */
export const pollingClients: Readonly<Record<string, PollingClient>> = {
  "node:http": nodeClient,
  fetch: fetchClient,
  socket: rawClient,
};

function count(outcome: PollingOutcome, ending: string, connected: boolean): void {
  if (ending === "answered") outcome.answered++;
  else if (connected) outcome.lost.push(ending);
  else outcome.refused++;
}

function causeOf(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
