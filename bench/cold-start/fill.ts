import { Readable } from "node:stream";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";

const blocks = 30;
const ordersPerBlock = 2_000;
const entriesPerBlock = 2_000;
/** A block's positions go far beyond what the simulation uses: copies of its entries lie behind each other in it. */
const positionsApart = 65_536;
const indexes = {
  ledger_entry_class: "(class_id, id)",
  ledger_entry_from: "(from_account, class_id, id, to_account)",
  ledger_entry_to: "(to_account, class_id, id, from_account)",
};

/** Loads a simulated network, and copies its ledger entries until there are as many as asked for. */
export async function fillForColdStart(databaseUrl: string, entries: number, markets: number): Promise<void> {
  const log = createLog("warn");
  await migrate(databaseUrl, log);
  const options = { ...networkDefaults, blocks, markets, ordersPerBlock, entriesPerBlock };
  const recording = Readable.from(simulate(options), { objectMode: false });
  await load({ database: databaseUrl, sources: [streamSource(recording, "simulation")], log });
  const database = openDatabase(databaseUrl, { connectionsMax: 1 });
  try {
    await database.withConnection(async (connection) => {
      const [row] = await connection.query<{ n: bigint }>("SELECT COUNT(*) AS n FROM ledger_entry");
      const names = Object.keys(indexes);
      await connection.run(`ALTER TABLE ledger_entry ${names.map((name) => `DROP KEY ${name}`).join(", ")}`);
      let copies = 1;
      for (let held = Number(row?.n ?? 0); held < entries; copies *= 2) {
        const copied = Math.min(held, entries - held);
        console.error(`copying ${copied.toLocaleString("en")} ledger entries`);
        await connection.run(
          `INSERT INTO ledger_entry
           SELECT id + ${copies * positionsApart}, from_account, to_account, class_id, transfer_type, time_ns, quantity,
             from_balance, to_balance FROM ledger_entry LIMIT ${copied}`,
        );
        held += copied;
      }
      console.error("indexing them");
      const added = Object.entries(indexes).map(([name, columns]) => `ADD KEY ${name} ${columns}`);
      await connection.run(`ALTER TABLE ledger_entry ${added.join(", ")}`);
    });
  } finally {
    await database.close();
  }
}
