import { setTimeout as sleep } from "node:timers/promises";
import type { Connection } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import type { KeptWhole, TradeRow } from "../../src/store/market-table.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { type BlockRows, type ModelBlock, ModelNetwork } from "./model-network.js";

const retryMs = 20;

/** A real store with the rows of a {@link ModelNetwork}. */
export class MarketFixture {
  network = new ModelNetwork();

  private constructor(
    readonly url: string,
    readonly database: Database,
  ) {}

  /** In a database of the run's server, or the one that the URL names. */
  static async create(url: string = newDatabaseUrl().url): Promise<MarketFixture> {
    await migrate(url, createLog("silent"));
    return new MarketFixture(url, openDatabase(url));
  }

  /** Commits a block in one transaction. */
  async add(block: ModelBlock): Promise<void> {
    const rows = this.network.add(block);
    await this.database.withTransaction((connection) => writeBlock(connection, rows));
  }

  /** Commits a block, however long the database is away meanwhile. */
  async addAtLast(block: ModelBlock): Promise<void> {
    const rows = this.network.add(block);
    for (;;) {
      try {
        // Written twice, where only the response to the commit was lost, it is the same.
        await this.database.withTransaction((connection) => writeBlock(connection, rows));
        return;
      } catch {
        await sleep(retryMs);
      }
    }
  }

  /** Forgets tombstones, as the loader does. */
  async prune(): Promise<void> {
    this.network.prune();
    await this.database.withTransaction(async (connection) => {
      await connection.run("DELETE FROM price_level WHERE volume = 0 AND number_of_orders = 0");
      await connection.run("UPDATE progress SET pruned_sequence = stream_sequence");
    });
  }

  /** Empties the store and begins another network, by default with the name of the first one. */
  async empty(chainId?: string): Promise<void> {
    this.network = new ModelNetwork(chainId);
    await this.database.withTransaction(async (connection) => {
      for (const table of ["progress", "market", "market_data", "market_depth", "price_level", "last_trade"]) {
        await connection.run(`DELETE FROM ${table}`);
      }
    });
  }

  async drop(): Promise<void> {
    const name = new URL(this.url).pathname.slice(1);
    await this.database.withConnection((connection) => connection.run(`DROP DATABASE ${name}`));
    await this.database.close();
  }
}

export async function writeBlock(connection: Connection, rows: BlockRows): Promise<void> {
  for (const row of rows.markets) await writeBody(connection, "market", row);
  for (const row of rows.marketData) await writeBody(connection, "market_data", row);
  for (const row of rows.depths) {
    const values = [row.marketId, row.sequenceNumber, row.publishedSequenceNumber, row.changedSequence];
    await connection.run("REPLACE INTO market_depth VALUES (?, ?, ?, ?)", values);
  }
  for (const row of rows.levels) {
    const values = [row.marketId, row.side, row.price, row.volume, row.numberOfOrders, row.changedSequence];
    await connection.run("REPLACE INTO price_level VALUES (?, ?, ?, ?, ?, ?)", values);
  }
  for (const row of rows.trades) await writeTrade(connection, row);
  const { chainId, streamSequence, height, timeNs, prunedSequence } = rows.progress;
  const progress = [chainId, streamSequence, height, timeNs, prunedSequence];
  await connection.run(
    `REPLACE INTO progress (id, chain_id, stream_sequence, height, block_time_ns, pruned_sequence)
     VALUES (1, ?, ?, ?, ?, ?)`,
    progress,
  );
}

async function writeBody(connection: Connection, table: string, row: KeptWhole): Promise<void> {
  await connection.run(`REPLACE INTO ${table} VALUES (?, ?, ?)`, [row.marketId, row.changedSequence, row.body]);
}

async function writeTrade(connection: Connection, row: TradeRow): Promise<void> {
  const values = [
    ...[row.marketId, row.changedSequence, row.tradeId, row.price, row.size, row.buyer, row.seller, row.aggressor],
    ...[row.buyOrder, row.sellOrder, row.timeNs, row.type],
    ...[row.buyerMakerFee, row.buyerInfrastructureFee, row.buyerLiquidityFee],
    ...[row.sellerMakerFee, row.sellerInfrastructureFee, row.sellerLiquidityFee],
    ...[row.buyerAuctionBatch, row.sellerAuctionBatch],
  ];
  await connection.run(`REPLACE INTO last_trade VALUES (${values.map(() => "?").join(", ")})`, values);
}
