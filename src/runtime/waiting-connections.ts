import type { Socket } from "node:net";
import { quotaKey } from "../domain/client-address.js";

/** Up to this many connections of a client are taken oldest first; beyond it, newest first. */
export const waitingInOrderMax = 32;

interface WaitingConnection {
  readonly socket: Socket;
  readonly sinceMs: number;
}

/**
 * Connections that no worker has taken yet. Client addresses take turns, so many connections of one do not delay the
 * others. Of a client with many, the newest goes first: the oldest may have left, and in order none would be in time.
 */
export class WaitingConnections {
  /** In the order of the clients' turns, with the oldest connection of each first. No list is empty. */
  readonly #byClient = new Map<string, WaitingConnection[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(socket: Socket): void {
    const client = quotaKey(socket.remoteAddress ?? "");
    const connections = this.#byClient.get(client);
    const connection = { socket, sinceMs: performance.now() };
    if (connections === undefined) this.#byClient.set(client, [connection]);
    else connections.push(connection);
    this.#size++;
  }

  /** Takes a connection of the client whose turn it is. */
  takeNext(): Socket | undefined {
    for (const [client, connections] of this.#byClient) {
      // Its next turn follows those of the others.
      this.#byClient.delete(client);
      this.#byClient.set(client, connections);
      return this.#take(client, connections, connections.length > waitingInOrderMax ? -1 : 0);
    }
    return undefined;
  }

  /** Takes the oldest connection of the client with the most. */
  takeExcess(): Socket | undefined {
    let longest: [string, WaitingConnection[]] | undefined;
    for (const entry of this.#byClient) {
      if (longest === undefined || entry[1].length > longest[1].length) longest = entry;
    }
    return longest && this.#take(...longest, 0);
  }

  /** Takes a connection that has waited since before `beforeMs`, in `performance.now()` time. */
  takeOlder(beforeMs: number): Socket | undefined {
    for (const [client, connections] of this.#byClient) {
      const [oldest] = connections;
      if (oldest !== undefined && oldest.sinceMs < beforeMs) return this.#take(client, connections, 0);
    }
    return undefined;
  }

  #take(client: string, connections: WaitingConnection[], index: 0 | -1): Socket | undefined {
    const [taken] = connections.splice(index, 1);
    if (connections.length === 0) this.#byClient.delete(client);
    this.#size--;
    return taken?.socket;
  }
}
