import { load } from "../../src/loader/load.js";
import { readBytes, streamSource } from "../../src/loader/source.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { inChunks } from "./recording.js";

const log = createLog("silent");

/** Loads a recording into a database as `marketd load` does, in this process, at `pace` blocks a second where given. */
export async function loadRecording(databaseUrl: string, recording: Uint8Array, pace?: number): Promise<void> {
  await migrate(databaseUrl, log);
  const sources = [streamSource(inChunks(recording, readBytes), "a recording")];
  await load({ database: databaseUrl, sources, pace, log });
}
