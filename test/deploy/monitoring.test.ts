import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { LoadStatus } from "../../src/loader/load-status.js";
import { AdminListener } from "../../src/runtime/admin-listener.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { run } from "../clients/languages.js";
import { ServiceProcess } from "../e2e/service-process.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { partnerProgram } from "../support/partners.js";

/* The alert rules and the dashboard of deploy/, held to the metrics of a real service. */

const deploy = fileURLToPath(new URL("../../deploy/", import.meta.url));
const scrapeMs = 500;
const scrapedMaxMs = 20_000;

interface Rule {
  readonly alert: string;
  readonly expr: string;
}

interface RuleTest {
  readonly alertname: string;
  readonly exp_alerts?: readonly unknown[];
}

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

const rules = (readYaml("alerts.yml") as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
const { panels } = JSON.parse(readFileSync(join(deploy, "grafana/marketd.json"), "utf8")) as { panels: Panel[] };
const targets = panels.flatMap((panel) => (panel.targets ?? []).map((target) => ({ ...target, title: panel.title })));

/** Labels that Prometheus adds to each series. */
const labelsOfPrometheus = ["instance", "job"];

function readYaml(name: string): unknown {
  return parse(readFileSync(join(deploy, name), "utf8"));
}

let folder = "";
let service: ServiceProcess;
/** What a loader that reads a topic answers for itself. */
let loader: { readonly listener: AdminListener; readonly port: number };
/** Labels of each metric of the service, and their values. */
let metrics: Map<string, Map<string, Set<string>>>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "marketd-monitoring-"));
  const { url } = newDatabaseUrl();
  await loadRecording(url, Buffer.concat([...simulate({ ...networkDefaults, blocks: 50 })]));
  service = new ServiceProcess(url, await freePort());
  await service.start();
  await request();
  loader = await listenAsLoader();
  const texts = [service.url, `http://127.0.0.1:${loader.port}`].map(async (url) => {
    return (await fetch(`${url}/metrics`)).text();
  });
  metrics = labelsOf((await Promise.all(texts)).join("\n"));
});

async function listenAsLoader(): Promise<typeof loader> {
  const status = new LoadStatus();
  status.setTurn(true);
  status.reads({ messagesBehind: 3n });
  const registry = createMetrics();
  status.register(registry);
  const listener = new AdminListener({ readiness: () => status.state, metrics: registry });
  return { listener, port: await listener.listen("127.0.0.1", 0) };
}

afterAll(async () => {
  loader.listener.close();
  await service.kill();
  rmSync(folder, { recursive: true, force: true });
});

test("counters, and only they, have names that end in _total", async () => {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)];
  expect(types.length).toBeGreaterThan(40);
  for (const [, name = "", type] of types) expect([name, name.endsWith("_total")]).toEqual([name, type === "counter"]);
});

test("docs/operations.md lists the metrics of streams, and none that the service does not have", () => {
  const operations = readFileSync(fileURLToPath(new URL("../../docs/operations.md", import.meta.url)), "utf8");
  const [section = ""] = (operations.split("### Streams\n")[1] ?? "").split("\n#");
  const listed = new Set(section.match(/\bmarketd_[a-z_]+/g));
  const ofStreams = [...metrics.keys()].filter((name) => /^marketd_(.*_stream|streams)_/.test(name));
  expect(ofStreams.length).toBeGreaterThan(8);
  expect([...listed].sort()).toEqual(ofStreams.sort());
  const kinds = metrics.get("marketd_market_stream_subscribers")?.get("stream");
  expect(kinds).toEqual(new Set(["market_data", "trades", "candles"]));
  for (const kind of kinds ?? []) expect(section).toContain(`\`${kind}\``);
});

/** One request that is answered, and one that is not. */
async function request(): Promise<void> {
  expect((await fetch(`${service.url}/markets/data`)).status).toBe(200);
  expect((await fetch(`${service.url}/api/v2/market/nobody`)).status).toBe(404);
}

function labelsOf(text: string): Map<string, Map<string, Set<string>>> {
  const found = new Map<string, Map<string, Set<string>>>();
  for (const [, name = "", labels = ""] of text.matchAll(/^([a-z0-9_]+)(?:\{(.*)\})? /gm)) {
    const ofName = found.get(name) ?? new Map<string, Set<string>>();
    found.set(name, ofName);
    for (const [, label = "", value = ""] of labels.matchAll(/([a-z_]+)="([^"]*)"/g)) {
      ofName.set(label, (ofName.get(label) ?? new Set()).add(value));
    }
  }
  return found;
}

/** What an expression or its legend asks for and the service does not have. */
function unknownParts(expression: string, legend = ""): string[] {
  const names = expression.match(/\bmarketd_[a-z0-9_]+/g) ?? [];
  const unknown = names.filter((name) => !metrics.has(name));
  for (const [, name = "", matchers = ""] of expression.matchAll(/\b(marketd_[a-z0-9_]+)\{([^}]*)\}/g)) {
    for (const [, label = ""] of matchers.matchAll(/([a-z_]+)(?:=~|!~|!=|=)"/g)) {
      if (!labelsOfPrometheus.includes(label) && metrics.get(name)?.has(label) !== true)
        unknown.push(`${name}{${label}}`);
    }
  }
  const grouped = [...expression.matchAll(/\b(?:by|on) \(([a-z_, ]*)\)/g)].flatMap(([, list = ""]) => list.split(", "));
  const shown = [...legend.matchAll(/\{\{([a-z_]+)\}\}/g)].map(([, label = ""]) => label);
  const labels = new Set([...labelsOfPrometheus, ...names.flatMap((name) => [...(metrics.get(name)?.keys() ?? [])])]);
  return [...unknown, ...[...grouped, ...shown].filter((label) => !labels.has(label))];
}

describe("what the service measures", () => {
  test.each(rules)("is what $alert asks for", ({ expr }) => {
    expect(unknownParts(expr)).toEqual([]);
  });

  test.each(targets)("is what the panel $title shows: $expr", ({ expr, legendFormat }) => {
    expect(unknownParts(expr, legendFormat)).toEqual([]);
  });

  test("has the reasons that the alert rules name", () => {
    const reasons = rules.flatMap(({ expr }) => [...expr.matchAll(/(marketd_[a-z_]+)\{reason="([A-Z_]+)"\}/g)]);
    expect(reasons.length).toBeGreaterThan(0);
    for (const [, name = "", reason = ""] of reasons) expect(metrics.get(name)?.get("reason")).toContain(reason);
  });

  test("a name or label that it does not have would be found", () => {
    expect(unknownParts('sum by (nothing) (marketd_workers{none="a"}) + marketd_lost', "{{gone}}")).toEqual([
      "marketd_lost",
      "marketd_workers{none}",
      "nothing",
      "gone",
    ]);
  });
});

test("each alert has a test in which it fires, and one in which it does not", () => {
  const { tests } = readYaml("alerts.test.yml") as { tests: { alert_rule_test: RuleTest[] }[] };
  const cases = tests.flatMap((one) => one.alert_rule_test);
  const names = rules.map(({ alert }) => alert).sort();
  const fire = new Set(cases.filter((one) => one.exp_alerts !== undefined).map((one) => one.alertname));
  const quiet = new Set(cases.filter((one) => one.exp_alerts === undefined).map((one) => one.alertname));
  expect([[...fire].sort(), [...quiet].sort()]).toEqual([names, names]);
});

const promtool = partnerProgram("promtool") ?? "";

describe.skipIf(promtool === "")("promtool", () => {
  test("accepts the configuration and its rules", async () => {
    expect(await run([promtool, "check", "config", "prometheus.yml"], deploy)).toContain(
      `SUCCESS: ${rules.length} rules`,
    );
  });

  test("finds that the alerts fire when they should", async () => {
    expect(await run([promtool, "test", "rules", "alerts.test.yml"], deploy)).toContain("SUCCESS");
  });
});

const prometheus = partnerProgram("prometheus") ?? "";

describe.skipIf(prometheus === "")("a real Prometheus", () => {
  let server: ChildProcess | undefined;
  let url = "";

  beforeAll(async () => {
    const config = readFileSync(join(deploy, "prometheus.yml"), "utf8")
      .replace("service:9090", new URL(service.url).host)
      .replace(/dns_sd_configs:\n.*$/m, `static_configs: [{ targets: ["127.0.0.1:${loader.port}"] }]`)
      .replace("alerts.yml", join(deploy, "alerts.yml"))
      .replaceAll(/_interval: [0-9]+s/g, `_interval: ${scrapeMs}ms`);
    writeFileSync(join(folder, "prometheus.yml"), config);
    const listen = `127.0.0.1:${await freePort()}`;
    url = `http://${listen}`;
    const args = [`--config.file=prometheus.yml`, `--storage.tsdb.path=data`, `--web.listen-address=${listen}`];
    server = spawn(prometheus, args, { cwd: folder, stdio: "ignore" });
    await vi.waitFor(async () => expect(await query("count_over_time(marketd_workers[1m]) > 4")).not.toEqual([]), {
      timeout: scrapedMaxMs,
      interval: scrapeMs,
    });
  });

  afterAll(async () => {
    if (server === undefined || server.exitCode !== null) return;
    server.kill();
    await once(server, "close");
  });

  /** @throws when Prometheus is not up, or refuses the expression */
  async function query(expression: string): Promise<unknown[]> {
    const response = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query: expression })}`);
    const reply = (await response.json()) as { status: string; data: { result: unknown[] } };
    expect(reply).toMatchObject({ status: "success" });
    return reply.data.result;
  }

  test.each(targets)("has data for the panel $title: $expr", async ({ expr }) => {
    const filled = expr.replaceAll("$instance", ".*").replaceAll("$__rate_interval", "1m");
    expect(await query(filled)).not.toEqual([]);
  });

  test("reads the rules, and no alert is pending but that of a recording which has ended", async () => {
    const alerts = (await (await fetch(`${url}/api/v1/alerts`)).json()) as {
      data: { alerts: { labels: { alertname: string } }[] };
    };
    expect(new Set(alerts.data.alerts.map(({ labels }) => labels.alertname))).toEqual(
      new Set(["MarketdBlocksStopped"]),
    );
  });
});
