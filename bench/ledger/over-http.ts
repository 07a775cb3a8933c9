import { Agent, get } from "node:http";
import { listLedgerEntries } from "../../src/api/list-ledger-entries.js";
import { numberCursors } from "../../src/domain/cursor.js";
import type { TimeRange } from "../../src/domain/date-range.js";
import type { PageRequest } from "../../src/domain/page.js";
import type { LedgerReader } from "../../src/ledger/ledger-reader.js";
import type { AccountSide, LedgerFilter } from "../../src/ledger/selection.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { type ListeningServer, startListeningServer } from "../../test/support/listening.js";

/** The ledger behind the service's own port, and one client that keeps its connection. */
export class LedgerOverHttp {
  readonly #server: ListeningServer;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  private constructor(server: ListeningServer) {
    this.#server = server;
  }

  static async start(ledger: LedgerReader): Promise<LedgerOverHttp> {
    const server = await startListeningServer({
      api: [listLedgerEntries({ ledger })],
      log: createLog("silent"),
      metrics: createMetrics(),
      readiness: () => "ready",
    });
    return new LedgerOverHttp(server);
  }

  async close(): Promise<void> {
    this.#agent.destroy();
    await this.#server.close();
  }

  /** Fetches a page as JSON. @returns its bytes */
  page(filter: LedgerFilter, time: TimeRange, request: PageRequest<bigint>): Promise<number> {
    const url = `${this.#server.url}/api/v2/ledgerentry/history?${queryOf(filter, time, request)}`;
    return getPage(url, this.#agent);
  }
}

/** Fetches a page. @returns its bytes */
export function getPage(url: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      let bytes = 0;
      response.on("data", (piece: Buffer) => {
        bytes += piece.length;
      });
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode === 200) resolve(bytes);
        else reject(new Error(`${url} was answered ${response.statusCode}`));
      });
    }).on("error", reject);
  });
}

function queryOf(filter: LedgerFilter, time: TimeRange, request: PageRequest<bigint>): URLSearchParams {
  const query = new URLSearchParams();
  const sides: readonly (readonly [string, AccountSide | undefined])[] = [
    ["filter.fromAccountFilter", filter.from],
    ["filter.toAccountFilter", filter.to],
  ];
  for (const [name, side] of sides) {
    if (side?.partyId !== undefined) query.append(`${name}.partyIds`, side.partyId);
    if (side?.assetId !== undefined) query.append(`${name}.assetId`, side.assetId);
    for (const market of side?.marketIds ?? []) query.append(`${name}.marketIds`, market);
    for (const type of side?.types ?? []) query.append(`${name}.accountTypes`, String(type));
  }
  if (filter.closed) query.append("filter.closeOnAccountFilters", "true");
  for (const type of filter.transferTypes) query.append("filter.transferTypes", String(type));
  if (time.startNs !== undefined) query.append("dateRange.startTimestamp", String(time.startNs));
  if (time.endNs !== undefined) query.append("dateRange.endTimestamp", String(time.endNs));
  query.append("pagination.newestFirst", String(request.newestFirst));
  query.append(request.backwards ? "pagination.last" : "pagination.first", String(request.size));
  if (request.cursor !== undefined) {
    query.append(
      request.backwards ? "pagination.before" : "pagination.after",
      numberCursors("ledger").encode(request.cursor),
    );
  }
  return query;
}
