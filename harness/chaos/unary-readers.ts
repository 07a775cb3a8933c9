import { hotCalls } from "./hot-calls.js";
import { ledgerCalls } from "./ledger-calls.js";
import { type Readers, repeat } from "./reader.js";
import { protocols, type RpcClient, rpcClient } from "./rpc-client.js";
import type { ClientKind } from "./scoreboard.js";
import type { UnaryCall } from "./unary-call.js";

const pauseMs = 200;

/** Callers of the unary methods over each protocol, each with one connection; and one with a new one each time. */
export function startUnaryReaders(readers: Readers): Promise<void>[] {
  const start = (name: string, kind: ClientKind, client: RpcClient, calls: readonly UnaryCall[]) =>
    repeat(readers, name, kind, pauseMs, (startedAt) => readers.random.pick(calls)({ readers, client, startedAt }));
  const loops = protocols.flatMap((protocol) => [
    start(`${protocol} hot`, "hot", rpcClient(protocol, readers.port), hotCalls),
    start(`${protocol} ledger`, "ledger", rpcClient(protocol, readers.port), ledgerCalls),
  ]);
  loops.push(start("REST, new connections", "hot", rpcClient("REST", readers.port, false), hotCalls));
  return loops;
}
