import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { run } from "../clients/languages.js";
import { ServiceProcess } from "../e2e/service-process.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { partnerProgram } from "../support/partners.js";
import { commandOf } from "./command-line.js";

/* Dockerfile and compose.yaml, as far as they can be tried without Docker; test/deploy/image.test.ts builds the image. */

const root = fileURLToPath(new URL("../../", import.meta.url));

interface Service {
  readonly image: string;
  readonly build?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
}

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

const dockerfile = read("Dockerfile").replaceAll("\\\n", " ");
const compose = parse(read("compose.yaml"), { merge: true }) as { services: Record<string, Service> };
const services = Object.entries(compose.services);
const ours = services.filter(([, service]) => service.build !== undefined);

/** The arguments of an instruction that has them as JSON. */
function list(instruction: string): string[] {
  const [, text = "[]"] = new RegExp(`^${instruction} .*?(\\[.*\\])$`, "m").exec(dockerfile) ?? [];
  return JSON.parse(text) as string[];
}

/** What ENV sets. */
const imageEnvironment = Object.fromEntries(
  [...dockerfile.matchAll(/(?<=^ENV .*)\b([A-Z_]+)=(\S+)/gm)].map(([, name = "", value = ""]) => [name, value]),
);

describe("the Dockerfile", () => {
  test("names its base image by a digest, once and as an argument", () => {
    expect(dockerfile).toMatch(/^ARG BASE_IMAGE=\S+@sha256:[0-9a-f]{64}$/m);
    const bases = [...dockerfile.matchAll(/^FROM \$\{(\S+)\}/gm)].map(([, name]) => name);
    expect(bases).toEqual(["BASE_IMAGE", "BASE_IMAGE"]);
  });

  test("starts the service, with settings that the program knows, and not as root", async () => {
    expect(list("ENTRYPOINT")).toEqual(["marketd"]);
    expect(imageEnvironment).toMatchObject({ MARKETD_LISTEN: "0.0.0.0:8080", MARKETD_ADMIN_LISTEN: "0.0.0.0:9090" });
    const environment = { ...imageEnvironment, MARKETD_DATABASE_URL: "mysql://a@b/c" };
    expect(await commandOf(list("CMD"), environment)).toBe("serve");
    expect(dockerfile).toMatch(/^USER [1-9][0-9]*:[1-9][0-9]*$/m);
  });

  test("has a health check that tells a service that lives from one that does not", async () => {
    const [node, ...script] = list("HEALTHCHECK");
    expect(node).toBe("node");
    const admin = `127.0.0.1:${await freePort()}`;
    const check = () => run([process.execPath, ...script.map((text) => text.replace("127.0.0.1:9090", admin))], root);
    await expect(check()).rejects.toThrow();
    const service = new ServiceProcess(newDatabaseUrl().url, await freePort(), "--admin-listen", admin);
    await service.start(503);
    try {
      expect(await check()).toBe("");
    } finally {
      await service.kill();
    }
  });
});

describe("compose.yaml", () => {
  test.each(ours)("starts %s with arguments and settings that the program knows", async (name, service) => {
    const environment = { ...imageEnvironment, ...service.environment };
    const commands: Readonly<Record<string, string>> = { simulator: "demo", loader: "load", service: "serve" };
    expect(await commandOf(service.command ?? [], environment)).toBe(commands[name]);
    expect(service).toMatchObject({ read_only: true, cap_drop: ["ALL"], tmpfs: ["/tmp"] });
  });

  test("opens ports on this machine alone", () => {
    const ports = services.flatMap(([, service]) => service.ports ?? []);
    expect(ports).toEqual(["127.0.0.1:8080:8080", "127.0.0.1:3000:3000"]);
  });

  test("says how to load a recording, in its comment as in docs/operations.md", () => {
    const [commands = ""] = /(?<=^```\n)docker compose down --volumes\nRECORDING=.*\n(?=```$)/m.exec(
      read("docs/operations.md"),
    ) ?? [""];
    expect(commands.trim().split("\n")).toHaveLength(2);
    expect(read("compose.yaml").replaceAll(/^ *# */gm, "")).toContain(commands);
  });

  test("mounts files that are there", () => {
    const volumes = services.flatMap(([, service]) => service.volumes ?? []);
    const files = volumes.filter((volume) => volume.startsWith("./")).map((volume) => volume.split(":")[0] ?? "");
    expect(files.length).toBeGreaterThan(0);
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });

  test("Prometheus finds the service, and Grafana finds Prometheus", () => {
    const [, target = "", port = ""] = /targets: \["(\w+):(\d+)"\]/.exec(read("deploy/prometheus.yml")) ?? [];
    expect(compose.services[target]?.command).toEqual(["serve"]);
    expect(imageEnvironment["MARKETD_ADMIN_LISTEN"]).toMatch(new RegExp(`:${port}$`));
    const [, source = ""] = /url: http:\/\/(\w+):9090/.exec(read("deploy/grafana/datasource.yml")) ?? [];
    expect(compose.services[source]?.image).toMatch(/^prom\/prometheus:/);
  });

  const dockerCompose = partnerProgram("dockerCompose") ?? "";

  test.skipIf(dockerCompose === "")("is what Docker Compose accepts", async () => {
    expect(await run([dockerCompose, "--file", "compose.yaml", "config", "--quiet"], root)).toBe("");
  });
});
