import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "node:tls";
import { freePort } from "../support/free-port.js";

/** The proxies that docs/proxies.md configures. */
export type ProxyName = "nginx" | "caddy" | "haproxy";

/** What to start. */
export interface ProxyOptions {
  readonly name: ProxyName;
  readonly program: string;
  /** As the document has it. */
  readonly configuration: string;
  readonly serviceUrl: string;
  readonly certificate: { readonly key: string; readonly certificate: string };
}

/** A proxy in front of a service, at a port of its own. */
export interface ProxyProcess {
  readonly url: string;
  /** How often the proxy says that it closed a connection to the service itself, under a response. */
  ownCloses(): number;
  stop(): Promise<void>;
}

const readyMaxMs = 10_000;
const pollMs = 50;
/** The user `nobody`, as which a proxy runs where tests run as root. */
const nobody = 65_534;

/** Starts a proxy as a user without rights. @throws Error with what it printed, when it does not listen in time */
export async function startProxy(options: ProxyOptions): Promise<ProxyProcess> {
  const folder = mkdtempSync(join(tmpdir(), `marketd-${options.name}-`));
  const port = await freePort();
  write(join(folder, "certificate.key"), options.certificate.key);
  write(join(folder, "certificate.pem"), `${options.certificate.certificate}\n${options.certificate.key}`);
  const own = adapt(options, folder, port);
  const args = argumentsOf[options.name](folder, own);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(folder, nobody, nobody);
  const child = spawn(options.program, args, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    ...(isRoot ? { uid: nobody, gid: nobody } : {}),
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (printed += String(text)));
  const until = Date.now() + readyMaxMs;
  while (!(await listens(port))) {
    if (child.exitCode === null && Date.now() < until) await delay(pollMs);
    else throw new Error(`${options.name} does not listen: ${printed}`);
  }
  return {
    url: `https://localhost:${port}`,
    ownCloses: () => printed.match(/aborting with incomplete response.*use of closed network connection/g)?.length ?? 0,
    stop: async () => {
      await end(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function write(path: string, text: string): void {
  writeFileSync(path, text);
  chmodSync(path, 0o644);
}

/** The document's text with the ports, names and files of this machine in it. */
function adapt({ configuration, serviceUrl }: ProxyOptions, folder: string, port: number): string {
  return configuration
    .replaceAll("127.0.0.1:8080", new URL(serviceUrl).host)
    .replaceAll(/\/etc\/\w+\/marketd\.example\.(pem|key)/g, `${folder}/certificate.$1`)
    .replaceAll(/(listen|bind) :?443/g, `$1 127.0.0.1:${port}`)
    .replaceAll(/^marketd\.example \{/gm, `localhost:${port} {`)
    .replaceAll("marketd.example", "localhost");
}

/** What a package of the proxy has around such a configuration, and how it is started with that. */
const argumentsOf: Readonly<Record<ProxyName, (folder: string, configuration: string) => readonly string[]>> = {
  nginx: (folder, configuration) => {
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => {
      return `${name}_temp_path ${folder}/${name};`;
    });
    write(join(folder, "marketd.conf"), configuration);
    write(
      join(folder, "nginx.conf"),
      `daemon off; pid ${folder}/pid; events {} http { access_log off; ${temporary.join(" ")} include marketd.conf; }\n`,
    );
    return ["-p", folder, "-c", "nginx.conf", "-e", "stderr"];
  },
  caddy: (folder, configuration) => {
    const settings = `{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system ${folder}\n}\n`;
    write(join(folder, "Caddyfile"), settings + configuration);
    return ["run", "--config", join(folder, "Caddyfile"), "--adapter", "caddyfile"];
  },
  haproxy: (folder, configuration) => {
    write(join(folder, "haproxy.cfg"), configuration);
    return ["-db", "-f", join(folder, "haproxy.cfg")];
  },
};

/** Whether the TLS handshake succeeds. */
function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", servername: "localhost", rejectUnauthorized: false });
    const settle = (listening: boolean) => {
      socket.destroy();
      resolve(listening);
    };
    socket.once("secureConnect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const closed = once(child, "close");
  const killing = setTimeout(() => child.kill("SIGKILL"), 2_000);
  await closed;
  clearTimeout(killing);
}
