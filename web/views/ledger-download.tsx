import { useEffect, useRef, useState } from "preact/hooks";
import { thrownText } from "../../src/domain/thrown-text.js";
import { useAsset } from "../components/asset-amount.js";
import { Card } from "../components/card.js";
import { grouped } from "../format/decimal.js";
import { type ExportProgress, exportLedger, save } from "../service/ledger-export.js";

type Download =
  | { readonly state: "none" }
  | { readonly state: "running"; readonly progress: ExportProgress }
  | { readonly state: "done"; readonly text: string };

const noProgress: ExportProgress = { rows: 0, bytes: 0, share: undefined };
/** How often the figures change. */
const progressIntervalMs = 100;

function size(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** The parameters of an export from those of a list: the party and the asset of either account, and the dates. */
export function exportQuery(query: URLSearchParams): URLSearchParams {
  const of = (field: string) =>
    query.get(`filter.fromAccountFilter.${field}`) ?? query.get(`filter.toAccountFilter.${field}`) ?? "";
  const dates = [...query].filter(([name]) => name.startsWith("dateRange."));
  return new URLSearchParams([["partyId", of("partyIds")], ["assetId", of("assetId")], ...dates]);
}

function useDownload(query: URLSearchParams) {
  const [download, setDownload] = useState<Download>({ state: "none" });
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);
  const start = async () => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    setDownload({ state: "running", progress: noProgress });
    let shownAt = 0;
    const onProgress = (progress: ExportProgress) => {
      if (performance.now() - shownAt < progressIntervalMs) return;
      shownAt = performance.now();
      setDownload({ state: "running", progress });
    };
    try {
      const file = await exportLedger(query, onProgress, signal);
      save(file);
      setDownload({ state: "done", text: `${file.name}: ${grouped(String(file.rows))} rows, complete.` });
    } catch (thrown) {
      const reason = thrownText(thrown);
      setDownload({ state: "done", text: signal.aborted ? "Cancelled." : `Failed: ${reason}.` });
    }
  };
  return { download, start, cancel: () => abort.current.abort() };
}

/** Downloads all entries of a party and an asset as CSV, and says how far it is. */
export function LedgerDownload({ query }: { readonly query: URLSearchParams }) {
  const exported = exportQuery(query);
  const isComplete = exported.get("partyId") !== "" && exported.get("assetId") !== "";
  const asset = useAsset(exported.get("assetId") ?? "");
  const { download, start, cancel } = useDownload(exported);
  return (
    <Card title="CSV">
      <p class="quiet">
        {isComplete
          ? "Every entry of this party and asset in the range of dates, oldest first. Other filters don't apply."
          : "A CSV holds all entries of one party and one asset: give both above."}
        {asset !== undefined &&
          asset.decimals > 0 &&
          ` Its amounts are integers: 1 followed by ${asset.decimals} zeros is 1 ${asset.label}.`}
      </p>
      <div class="actions">
        <button id="csv" type="button" disabled={!isComplete || download.state === "running"} onClick={start}>
          Download CSV
        </button>
        {download.state === "running" && (
          <>
            <button type="button" onClick={cancel}>
              Cancel
            </button>
            <progress aria-label="Download" value={download.progress.share} max={1} />
            <span>
              {grouped(String(download.progress.rows))} rows, {size(download.progress.bytes)}
            </span>
          </>
        )}
        <output id="csv-state">{download.state === "done" ? download.text : ""}</output>
      </div>
    </Card>
  );
}
