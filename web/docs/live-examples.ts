/** The part of an OpenAPI document that has examples of parameters. */
export interface Document {
  readonly paths: Readonly<Record<string, { readonly parameters: readonly Parameter[] }>>;
}

interface Parameter {
  readonly name: string;
  readonly example?: unknown;
}

interface MarketsData {
  readonly marketsData: readonly { readonly market: string }[];
}

interface LedgerEntries {
  readonly ledgerEntries: {
    readonly edges: readonly { readonly node: { readonly toAccountPartyId: string; readonly assetId: string } }[];
  };
}

const received =
  "api/v2/ledgerentry/history?pagination.first=1&filter.toAccountFilter.accountTypes=ACCOUNT_TYPE_GENERAL";

/** A market, a party, an asset and the newest block that a service has, by the parameters that take them; none where it has none. */
export async function liveExamples(getJson: (path: string) => Promise<unknown>): Promise<Map<string, unknown>> {
  const { marketsData } = (await getJson("markets/data")) as MarketsData;
  const { ledgerEntries } = (await getJson(received)) as LedgerEntries;
  const examples = new Map<string, unknown>();
  const { blockHeight } = (await getJson("status")) as { readonly blockHeight?: string };
  if (blockHeight !== undefined) examples.set("blockHeight", blockHeight);
  for (const { market } of marketsData.slice(0, 1)) {
    examples.set("marketId", market).set("market", [market]).set("marketIds", [market]);
    examples.set("candleId", `trades_candle_1_minute_${market}`);
  }
  for (const { node } of ledgerEntries.edges) {
    examples.set("partyId", node.toAccountPartyId).set("assetId", node.assetId);
  }
  return examples;
}

/** The document with other examples of parameters that have some. */
export function withExamples<D extends Document>(document: D, examples: ReadonlyMap<string, unknown>): D {
  const replaced = (parameter: Parameter): Parameter =>
    "example" in parameter ? { ...parameter, example: examples.get(parameter.name) ?? parameter.example } : parameter;
  const paths = Object.entries(document.paths).map(([path, item]) => [
    path,
    { ...item, parameters: item.parameters.map(replaced) },
  ]);
  return { ...document, paths: Object.fromEntries(paths) };
}
