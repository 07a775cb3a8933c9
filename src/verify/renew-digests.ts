import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { OperatorError } from "../domain/operator-error.js";
import { blockRows, type StoredBlock } from "../store/block-table.js";
import { toBytes } from "../store/connection/column.js";
import type { Connection } from "../store/connection/connection.js";
import type { Database } from "../store/database.js";
import { retentionRows } from "../store/ledger-entry-table.js";
import { beatTurn, endTurn, type LoaderTurn, readProgress, readTurn, takeTurn } from "../store/progress-table.js";
import { digestedTables, renewedStart, renewTableDigests } from "../store/table-digest-table.js";
import { writeRows } from "../store/table-rows.js";
import { Accounts } from "./accounts.js";
import { BlockRows, type DigestedBlock } from "./block-rows.js";
import { Findings } from "./findings.js";
import { renewPast } from "./history-check.js";
import { LedgerCheck, type LedgerProgress, type RenewDigests } from "./ledger-check.js";
import { readSums } from "./table-check.js";

/** Blocks whose digests are written in one transaction. */
export const blocksPerTransaction = 500;

/** They are written sooner after this time, in milliseconds: loaders that stand by then see that somebody writes. */
const writeIntervalMs = 300;

/** How long nobody may have loaded before digests are renewed, in milliseconds. */
export const loaderSilenceMs = 2_000;

/** Without entries the digest is that of no text. */
const noEntries = createHash("sha256").digest().toString("latin1");

/**
 * Makes all digests anew of the rows that there are, as the only writer, in transactions of bounded size. Entries that
 * were dropped keep the digest that they had. A renewal that is interrupted leaves findings; the next one finishes it.
 * @returns the newest block, which is recorded; undefined: nothing was loaded
 * @throws OperatorError if a loader writes
 */
export async function renewDigests(
  database: Database,
  onProgress: (progress: LedgerProgress, newest: bigint) => void = () => {},
): Promise<bigint | undefined> {
  const loaderId = randomBytes(12).toString("hex");
  if (!(await takeFreeTurn(database, loaderId))) return undefined;
  try {
    return await database.withConnection((one) =>
      database.withConnection((rows) => renewAll(database, loaderId, [one, rows], onProgress)),
    );
  } finally {
    await database.withTransaction((connection) => endTurn(connection, loaderId)).catch(() => {});
  }
}

/** False: nothing was loaded. @throws OperatorError if a loader writes or stands by */
async function takeFreeTurn(database: Database, loaderId: string): Promise<boolean> {
  const before = await database.withConnection(readTurn);
  if (before === undefined) return false;
  await sleep(loaderSilenceMs);
  const turn = await database.withConnection(readTurn);
  const isSame = (one: LoaderTurn | undefined) => one?.beat === before.beat && one.loaderId === before.loaderId;
  const isOurs =
    turn !== undefined &&
    isSame(turn) &&
    (await database.withTransaction((connection) => takeTurn(connection, turn, loaderId)));
  if (!isOurs) throw new OperatorError("a loader is loading into this database: stop all loaders first");
  return true;
}

async function renewAll(
  database: Database,
  loaderId: string,
  [reader, rows]: readonly [Connection, Connection],
  onProgress: (progress: LedgerProgress, newest: bigint) => void,
): Promise<bigint | undefined> {
  const progress = await readProgress(rows);
  if (progress === undefined) return undefined;
  const { height } = progress;
  // What is wrong with the rows, `verify` finds afterwards.
  const findings = new Findings();
  const blocks = new BlockRows(rows, findings, renewedStart(height));
  const [last] = await database.query<{ account: number | null; class: number | null }>(
    "SELECT (SELECT MAX(account_id) FROM account) AS account, (SELECT MAX(class_id) FROM entry_class) AS class",
  );
  const newest = { height, accountMax: last?.account ?? 0, classMax: last?.class ?? 0 };
  const renewal = new DigestRenewal(database, loaderId, blocks, newest);
  const ledger = new LedgerCheck([reader], blocks, await Accounts.read(reader), findings, renewal);
  await ledger.run(rows, height, (now) => onProgress(now, height));
  await renewal.write();
  await renewPast(rows, (write) => renewal.inTurn(write));
  await renewal.inTurn(async (connection) => {
    await renewTableDigests(connection, await readSums(connection, [...digestedTables, retentionRows]), height);
  });
  return height;
}

/** Writes the digests of blocks as they are passed on. */
class DigestRenewal implements RenewDigests {
  #accountMax = 0;
  #classMax = 0;
  #pending: DigestedBlock[] = [];
  #writtenMs = performance.now();

  /** `newest`: the newest block, with the highest numbers of all rows. */
  constructor(
    private readonly database: Database,
    private readonly loaderId: string,
    private readonly blocks: BlockRows,
    private readonly newest: { readonly height: bigint; readonly accountMax: number; readonly classMax: number },
  ) {}

  entry(fromAccount: number, toAccount: number, classId: number): void {
    this.#accountMax = Math.max(this.#accountMax, fromAccount, toAccount);
    this.#classMax = Math.max(this.#classMax, classId);
  }

  async block(block: StoredBlock, entriesDigest: string | undefined): Promise<void> {
    const { height, accountMax, classMax } = this.newest;
    if (block.height === height) this.entry(accountMax, accountMax, classMax);
    // Which accounts the entries that were dropped brought, only the block can tell.
    if (entriesDigest === undefined) this.entry(block.accountMax ?? 0, 0, block.classMax ?? 0);
    const renewed = {
      ...block,
      accountMax: this.#accountMax,
      classMax: this.#classMax,
      entriesDigest: entriesDigest ?? block.entriesDigest ?? noEntries,
    };
    this.#pending.push(await this.blocks.renew(renewed));
    if (this.#pending.length >= blocksPerTransaction) await this.write();
  }

  async keepTurn(): Promise<void> {
    if (performance.now() - this.#writtenMs >= writeIntervalMs) await this.write();
  }

  /** Writes what is pending. */
  async write(): Promise<void> {
    const rows = this.#pending.map((block) => ({
      ...block,
      entriesDigest: toBytes(block.entriesDigest),
      digest: toBytes(block.digest),
    }));
    await this.inTurn((connection) => writeRows(connection, blockRows, rows));
    this.#pending = [];
    this.#writtenMs = performance.now();
  }

  /** @throws OperatorError if a loader has started meanwhile */
  async inTurn(write: (connection: Connection) => Promise<void>): Promise<void> {
    await this.database.withTransaction(async (connection) => {
      if (!(await beatTurn(connection, this.loaderId))) {
        throw new OperatorError("a loader has started: stop it, and renew the digests again");
      }
      await write(connection);
    });
  }
}
