import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type {
  AccountBalance,
  AccountFilterSchema,
  AggregatedBalance,
  DateRangeSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import type { Asset } from "../../../gen/vega/assets_pb.js";
import { quoted } from "../../../src/domain/printable.js";
import type { MarketdClient } from "./client.js";
import { scaledAmount } from "./decimals.js";
import { type ListOptions, nodes } from "./pages.js";
import { nanosecondsOf, type Time } from "./time.js";

/** A balance is decimal text of at most 256 bits, possibly negative. */
const balancePattern = /^-?[0-9]{1,78}$/;

/** An amount with the decimals of its asset. */
interface Amount {
  /** Undefined: the network has not announced it. */
  readonly asset: Asset | undefined;
  /** As a decimal number, exact text: `"1.50"`. Undefined without the asset. */
  readonly balance: string | undefined;
}

/** An account and what it holds. */
export interface AccountAmount extends Amount {
  /** With the balance as an integer. */
  readonly account: AccountBalance;
}

/** What an account held at the end of a block. */
export interface BalanceChange extends Amount {
  /** With the balance as an integer. */
  readonly change: AggregatedBalance;
}

/** Which accounts. Everything is optional. */
export interface AccountQuery extends ListOptions {
  /** Absent: every account that a ledger entry names. At most one party. */
  readonly filter?: MessageInitShape<typeof AccountFilterSchema>;
  /** Balances as of this time. Absent: the newest, which may change from page to page. */
  readonly asOf?: Time;
}

/** Which changes of balances, and in which order. Everything is optional. */
export interface BalanceQuery extends ListOptions {
  /** As of {@link AccountQuery}. */
  readonly filter?: MessageInitShape<typeof AccountFilterSchema>;
  /** In nanoseconds: start inclusive, end exclusive. */
  readonly dateRange?: MessageInitShape<typeof DateRangeSchema>;
  /** Default: true. */
  readonly newestFirst?: boolean;
}

/**
 * Every account that the query selects, with its balance as a decimal number, a page at a time. Reads each asset once.
 * @throws ConnectError when a page cannot be read. FAILED_PRECONDITION with the reason LEDGER_NOT_RETAINED if a balance
 *   is not known any more
 */
export async function* accounts(client: MarketdClient, query: AccountQuery = {}): AsyncGenerator<AccountAmount, void> {
  const { filter, asOf, pageSize, signal } = query;
  const request = { ...(filter && { filter }), ...(asOf !== undefined && { asOf: nanosecondsOf(asOf) }) };
  const first = pageSize === undefined ? {} : { first: pageSize };
  const amounts = new Amounts(client, signal);
  const all = nodes(async (after) => {
    return (await client.listAccounts({ ...request, pagination: { ...first, ...after } }, signal && { signal }))
      .accounts;
  });
  for await (const account of all) yield { account, ...(await amounts.of(account.asset, account.balance)) };
}

/**
 * Every change of a balance that the query selects, as a decimal number, a page at a time. Reads each asset once.
 * @throws ConnectError as {@link accounts}
 */
export async function* balanceChanges(
  client: MarketdClient,
  query: BalanceQuery = {},
): AsyncGenerator<BalanceChange, void> {
  const { filter, dateRange, newestFirst, pageSize, signal } = query;
  const request = { ...(filter && { filter }), ...(dateRange && { dateRange }) };
  const order = {
    ...(newestFirst !== undefined && { newestFirst }),
    ...(pageSize !== undefined && { first: pageSize }),
  };
  const amounts = new Amounts(client, signal);
  const all = nodes(async (after) => {
    const pagination = { ...order, ...after };
    return (await client.listBalanceChanges({ ...request, pagination }, signal && { signal })).balances;
  });
  for await (const change of all) yield { change, ...(await amounts.of(change.assetId ?? "", change.balance)) };
}

/** Amounts of the assets of a network, each of which is read once. */
class Amounts {
  readonly #client: MarketdClient;
  readonly #options: { readonly signal?: AbortSignal };
  readonly #assets = new Map<string, Asset | undefined>();

  constructor(client: MarketdClient, signal: AbortSignal | undefined) {
    this.#client = client;
    this.#options = signal === undefined ? {} : { signal };
  }

  /** @throws ConnectError DATA_LOSS for a balance that is none */
  async of(assetId: string, balance: string): Promise<Amount> {
    if (!balancePattern.test(balance)) {
      throw new ConnectError(`asset ${quoted(assetId)} has the balance ${quoted(balance)}`, Code.DataLoss);
    }
    if (!this.#assets.has(assetId)) this.#assets.set(assetId, await this.#read(assetId));
    const asset = this.#assets.get(assetId);
    return { asset, balance: asset && scaledAmount(asset, balance) };
  }

  async #read(assetId: string): Promise<Asset | undefined> {
    try {
      return (await this.#client.getAsset({ assetId }, this.#options)).asset;
    } catch (thrown) {
      if (ConnectError.from(thrown).code === Code.NotFound) return undefined;
      throw thrown;
    }
  }
}
