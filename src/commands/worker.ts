import { type Config, createProgram, UsageError } from "../config.js";
import { OperatorError } from "../domain/operator-error.js";
import { runWorker } from "../runtime/worker.js";
import type { StartOrder } from "../runtime/worker-messages.js";
import { createLog } from "../telemetry/log.js";
import { createMetrics } from "../telemetry/metrics.js";
import { checkedUrl, forOperator, openChoice } from "./database-choice.js";
import { logNodeMessages } from "./log-lines.js";
import { startService } from "./service.js";

/** The settings in the command's arguments and environment, as this version of the program interprets them. */
async function settingsOf(argv: readonly string[]): Promise<Config<"serve">> {
  let settings: Config<"serve"> | undefined;
  const take = async (given: Config<"serve">): Promise<void> => {
    settings = given;
  };
  try {
    await createProgram("", { serve: take, demo: take }, { silent: true }).parseAsync(argv, { from: "user" });
  } catch (error) {
    throw new OperatorError((error as Error).message, 1, error);
  }
  if (settings === undefined) throw new UsageError(`these arguments start no service: ${argv.join(" ")}`);
  return settings;
}

async function databaseUrlOf(order: StartOrder, { database, logLevel }: Config<"serve">): Promise<string> {
  const text = database.kind === "url_file" ? order.files?.[database.path] : undefined;
  const [line = ""] = text?.split("\n") ?? [];
  if (order.databaseUrl === null && line.trim() !== "") return checkedUrl(line.trim());
  return order.databaseUrl ?? (await openChoice(database, createLog(logLevel))).url;
}

runWorker(async (order, context) => {
  const config = await settingsOf(order.argv);
  const metrics = createMetrics();
  const log = createLog(config.logLevel);
  logNodeMessages(log);
  try {
    const service = await startService({
      config,
      databaseUrl: await databaseUrlOf(order, config),
      log,
      metrics,
      ...(order.files === undefined ? {} : { files: order.files }),
      worker: context,
      whenReady: order.serveWhenReady,
    });
    return { ...service, metrics: () => metrics.getMetricsAsJSON() };
  } catch (error) {
    throw forOperator(error);
  }
});
