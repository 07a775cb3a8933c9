import { Counter, Gauge } from "prom-client";
import type { Metrics } from "../telemetry/metrics.js";
import type { HubCounts } from "./hub.js";
import type { LiveState } from "./live-state.js";
import type { Tail } from "./tail.js";

/** What is measured. */
export interface Measured {
  readonly newest: LiveState | undefined;
  /** Messages handed to readers of streams since the start. */
  readonly messages: number;
  counts(): HubCounts;
}

/** Registers how far this process is, how fresh, and who reads its streams. Values are computed when asked for. */
export function registerLiveMetrics(metrics: Metrics, live: Measured, tail: Tail): void {
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name,
      help,
      registers: [metrics],
      collect() {
        this.set(value());
      },
    });
  gauge("marketd_block_height", "Height of the newest block read, 0 before the first.", () =>
    Number(live.newest?.progress.height ?? 0n),
  );
  gauge("marketd_stream_sequence", "Stream sequence number of the last event read.", () =>
    Number(live.newest?.progress.streamSequence ?? 0n),
  );
  gauge("marketd_block_age_seconds", "How old the newest block read is, by this machine's clock.", () =>
    live.newest === undefined ? 0 : Date.now() / 1000 - Number(live.newest.progress.blockTimeNs) / 1e9,
  );
  gauge("marketd_database_silence_seconds", "Since the database last answered, -1 before it ever did.", () =>
    tail.contactedAt === undefined ? -1 : (performance.now() - tail.contactedAt) / 1000,
  );
  gauge("marketd_depth_stream_subscribers", "Open depth streams.", () => live.counts().subscribers);
  gauge("marketd_depth_stream_lagging", "Depth streams for which updates wait.", () => live.counts().lagging);
  let counted = 0;
  new Counter({
    name: "marketd_depth_stream_messages_total",
    help: "Messages handed to depth streams, heartbeats among them.",
    registers: [metrics],
    collect() {
      const { messages } = live;
      this.inc(messages - counted);
      counted = messages;
    },
  });
}
