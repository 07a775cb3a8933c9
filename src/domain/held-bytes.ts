import type { Failure } from "./failure.js";

/** The limits of {@link HeldBytes}, and what is said beyond them. */
export interface HeldLimits {
  readonly ofClientMax: number;
  readonly inAllMax: number;
  /** What is said to a client that holds so many. */
  readonly ofClient: (bytes: number) => Failure;
  readonly inAll: () => Failure;
}

/** When a client may try again that was refused, in milliseconds. */
export const heldRetryMs = 1_000;

/** Counts the bytes that are held for clients, or their streams, by client and in all. */
export class HeldBytes {
  readonly #byClient = new Map<string, number>();
  #inAll = 0;

  constructor(private readonly limits: HeldLimits) {}

  /**
   * A client that holds nothing may exceed its own limit, and that of all where nobody holds anything.
   * @throws Failure if too many are held
   */
  add(client: string, bytes: number): void {
    const { ofClientMax, inAllMax, ofClient, inAll } = this.limits;
    const held = this.#byClient.get(client) ?? 0;
    if (held + bytes > ofClientMax && held > 0) throw ofClient(held);
    if (this.#inAll + bytes > inAllMax && this.#inAll > 0) throw inAll();
    this.#byClient.set(client, held + bytes);
    this.#inAll += bytes;
  }

  remove(client: string, bytes: number): void {
    const held = (this.#byClient.get(client) ?? 0) - bytes;
    if (held > 0) this.#byClient.set(client, held);
    else this.#byClient.delete(client);
    this.#inAll -= bytes;
  }
}
