import { once } from "node:events";
import type { AddressInfo, ListenOptions, Server } from "node:net";
import { OperatorError } from "../domain/operator-error.js";

/** One line about the usual reasons why a port is unavailable, with what to change. `flag` names the address. */
export function listenError(error: unknown, where: string, flag = "--listen"): unknown {
  const hints: Record<string, string> = {
    EADDRINUSE: `something else listens there; stop it, or choose another with ${flag}`,
    EACCES: `this user may not listen there; choose a port above 1023 with ${flag}`,
    EADDRNOTAVAIL: `this machine has no such address; choose another with ${flag}`,
    EAFNOSUPPORT: `this machine has no IPv6; choose an IPv4 address, as 0.0.0.0, with ${flag}`,
    ENOTFOUND: `no such host; choose another with ${flag}`,
  };
  const hint = hints[(error as NodeJS.ErrnoException).code ?? ""];
  return hint === undefined ? error : new OperatorError(`cannot listen on ${where}: ${hint}`, 1, error);
}

/** Starts to listen, and resolves with the port. @throws Error if the address is unavailable */
export async function startListening(server: Server, at: ListenOptions): Promise<number> {
  await once(server.listen(at), "listening");
  // Later errors concern single connections (no descriptor, a peer that left), not the port.
  server.on("error", () => {});
  return (server.address() as AddressInfo).port;
}
