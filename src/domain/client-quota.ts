import type { Failure } from "./failure.js";

/** The limits of a {@link ClientQuota}, and the failures beyond them. */
export interface QuotaLimits {
  readonly ofClientMax: number;
  readonly inAllMax: number;
  /** For a client that holds this amount. */
  readonly ofClient: (held: number) => Failure;
  readonly inAll: () => Failure;
}

/** When a client that was refused for the bytes it holds may try again, in milliseconds. */
export const heldRetryMs = 1_000;

/** Limits what clients hold at one time, such as streams or bytes: each client, and all together. */
export class ClientQuota {
  readonly #byClient = new Map<string, number>();
  #inAll = 0;

  constructor(private readonly limits: QuotaLimits) {}

  /**
   * Adds to what a client holds. A client that holds nothing may exceed its own limit, and that of all where nobody holds
   * anything.
   * @param client its quota key
   * @throws Failure if too much is held
   */
  add(client: string, amount: number): void {
    const { ofClientMax, inAllMax, ofClient, inAll } = this.limits;
    const held = this.#byClient.get(client) ?? 0;
    if (held + amount > ofClientMax && held > 0) throw ofClient(held);
    if (this.#inAll + amount > inAllMax && this.#inAll > 0) throw inAll();
    this.#byClient.set(client, held + amount);
    this.#inAll += amount;
  }

  remove(client: string, amount: number): void {
    const held = (this.#byClient.get(client) ?? 0) - amount;
    if (held > 0) this.#byClient.set(client, held);
    else this.#byClient.delete(client);
    this.#inAll -= amount;
  }
}

/** What one call or stream holds of a client's quota. */
export class QuotaShare {
  #amount = 0;

  /** `client` is a quota key. */
  constructor(
    private readonly quota: ClientQuota,
    readonly client: string,
  ) {}

  /** @throws Failure if the client, or all, hold too much */
  add(amount: number): void {
    if (amount === 0) return;
    this.quota.add(this.client, amount);
    this.#amount += amount;
  }

  /** Gives back some of it, or all. */
  remove(amount = this.#amount): void {
    if (amount === 0) return;
    this.quota.remove(this.client, amount);
    this.#amount -= amount;
  }
}
