/** A network: an address and the number of leading bits that name the network. */
export interface Network {
  readonly address: string;
  readonly prefixBits: number;
}

/** What begins an IPv4 address as a socket of IPv6 prints it. */
const mappedPrefix = "::ffff:";

/** The IPv4 address of an IPv4-mapped one, which a listener for both prints; any other text unchanged. */
export function plainAddress(address: string): string {
  return address.startsWith(mappedPrefix) && address.includes(".") ? address.slice(mappedPrefix.length) : address;
}

/**
 * The key by which quotas count: an IPv4 address, or the /64 network of an IPv6 address, because a client usually has a
 * whole /64. Takes an address as sockets print it; other text is returned unchanged.
 */
export function quotaKey(socketAddress: string): string {
  const address = plainAddress(socketAddress);
  if (!address.includes(":")) return address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  if (tail !== undefined) {
    const after = tail === "" ? [] : tail.split(":");
    // "::" stands for the groups of zeros that are missing.
    while (groups.length + after.length < 8) groups.push("0");
  }
  return `${groups.slice(0, 4).join(":")}::/64`;
}
