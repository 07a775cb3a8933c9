import { BlockList, isIP, SocketAddress } from "node:net";
import { type Network, plainAddress } from "../../domain/client-address.js";

/** Entries of `X-Forwarded-For` that are examined, from the right. */
const forwardedEntriesMax = 20;

/** Addresses whose trust is cached: checking one costs 3 µs, twice per request. */
const rememberedVerdictsMax = 4_096;

/**
 * Determines the client addresses that quotas and logs use. The client is the peer of the connection, unless that is a
 * trusted proxy: then `X-Forwarded-For` names it. IPv4-mapped addresses become IPv4.
 */
export class ClientAddresses {
  /** Undefined: no proxy is trusted. IPv4-mapped addresses are in the networks of their IPv4 address, and vice versa. */
  readonly #trusted: BlockList | undefined;
  readonly #verdicts = new Map<string, boolean>();

  constructor(trustedProxies: readonly Network[] = []) {
    if (trustedProxies.length === 0) return;
    this.#trusted = new BlockList();
    for (const { address, prefixBits } of trustedProxies) {
      this.#trusted.addSubnet(address, prefixBits, isIP(address) === 6 ? "ipv6" : "ipv4");
    }
  }

  /**
   * The client behind a connection from `remoteAddress`; empty if the connection is gone. Behind a trusted proxy it is
   * the right-most address of `forwardedFor` that is not a trusted proxy, or the left-most if all are. If an entry up
   * to there is not an IP address, it is the proxy itself.
   */
  of(remoteAddress: string | undefined, forwardedFor: string | readonly string[] | undefined): string {
    const peer = plainAddress(remoteAddress ?? "");
    if (this.#trusted === undefined || forwardedFor === undefined || !this.isProxy(peer)) return peer;
    return this.#forwarded(typeof forwardedFor === "string" ? forwardedFor : forwardedFor.join(",")) ?? peer;
  }

  /** Whether an address belongs to a trusted proxy. */
  isProxy(address: string): boolean {
    if (this.#trusted === undefined) return false;
    let isProxy = this.#verdicts.get(address);
    if (isProxy === undefined) {
      const family = isIP(address);
      isProxy = family !== 0 && this.#trusted.check(address, family === 6 ? "ipv6" : "ipv4");
      if (this.#verdicts.size >= rememberedVerdictsMax) this.#verdicts.clear();
      this.#verdicts.set(address, isProxy);
    }
    return isProxy;
  }

  #forwarded(text: string): string | undefined {
    let address: string | undefined;
    for (const entry of text.split(",").slice(-forwardedEntriesMax).reverse()) {
      address = canonical(entry.trim());
      if (address === undefined || !this.isProxy(address)) return address;
    }
    return address;
  }
}

/** The canonical text of an address; undefined if the text is not an IP address. */
function canonical(text: string): string | undefined {
  const family = isIP(text);
  if (family !== 6) return family === 4 ? text : undefined;
  // Zones name interfaces of the machine that wrote them.
  return text.includes("%") ? undefined : plainAddress(new SocketAddress({ address: text, family: "ipv6" }).address);
}
