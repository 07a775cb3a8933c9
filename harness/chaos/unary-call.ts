import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { CallFailure, codes } from "./call-failure.js";
import type { Judge, Verdict } from "./judge.js";
import type { Finding, Readers } from "./reader.js";
import type { RpcClient } from "./rpc-client.js";

export const methods = TradingDataService.method;

/** Who calls. */
export interface Caller {
  readonly readers: Readers;
  readonly client: RpcClient;
  readonly startedAt: number;
}

/** A call with a random request, and its judgement. */
export type UnaryCall = (caller: Caller) => Promise<Finding>;

export function marketOf({ judge, random }: Pick<Readers, "judge" | "random">): string {
  const markets = [...judge.chain.fold.markets.keys()];
  return markets.length === 0 ? "none" : random.pick(markets);
}

/** Some party of the chain. @param fraction from 0 up to 1 */
export function partyOf(judge: Judge, fraction: number): string {
  const parties = judge.chain.fold.rows.keys();
  return parties[Math.floor(fraction * parties.length)] ?? "nobody";
}

/** The filter that selects what a party pays or receives. */
export function filterOf(party: string) {
  const account = { partyIds: [party] };
  return { fromAccountFilter: account, toAccountFilter: account, closeOnAccountFilters: false };
}

/** What the edges of a page hold. */
export function nodesOf<T>(page: { readonly edges: readonly { readonly node?: T | undefined }[] } | undefined): T[] {
  return (page?.edges ?? []).flatMap(({ node }) => (node === undefined ? [] : [node]));
}

/** NOT_FOUND is a response too. */
export async function orNotFound<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CallFailure && error.kind === "said" && error.code === codes.notFound) return undefined;
    throw error;
  }
}

export function judged(
  what: string,
  response: { readonly message: unknown; readonly height: number | undefined } | undefined,
  check: (stated: number | undefined) => Verdict,
): Finding {
  const verdict = check(response?.height);
  if (verdict === "right") return "right";
  const stated = response?.height === undefined ? "" : ` of block ${response.height}`;
  if (verdict === "excused" || (verdict === "stale" && stated !== "")) return "old";
  const text = response === undefined ? "NOT_FOUND" : plainText(response.message);
  return { wrong: `${what}${stated} ${verdict === "stale" ? "is too old" : "is not that of any block"}: ${text}` };
}

function plainText(message: unknown): string {
  return JSON.stringify(message, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)).slice(
    0,
    120,
  );
}
