import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../test/support/free-port.js";
import { DatabaseServer } from "../chaos/database-server.js";

/** Where packages put the library that makes a cluster of MariaDB servers. */
export const galeraLibraries = [
  "/usr/lib/galera/libgalera_smm.so",
  "/usr/lib64/galera-4/libgalera_smm.so",
  "/usr/lib64/galera/libgalera_smm.so",
  "/usr/lib/libgalera_smm.so",
];

/** All nodes begin with the same files, so that none has to be sent them: position 0 of a cluster of this name. */
const clusterId = "6b1f2d6e-c76c-11f0-9c1a-0242ac110002";

/** How long a node may take to be one of the cluster. */
export const joinMaxMs = 40_000;
const joinPollMs = 50;

/** `wsrep_local_state` of a node that has all that the cluster committed. */
const synced = "4";

/** Where the nodes of a cluster find each other. */
interface GroupAddress {
  readonly port: number;
  /** At which it gets what it missed. */
  readonly transferPort: number;
}

/** One node of a Galera cluster of three, which can be killed, stopped and started again on the same data. */
export class GaleraNode {
  private constructor(
    readonly name: string,
    readonly server: DatabaseServer,
  ) {}

  /** Three nodes on copies of the files in `template`; none is started. */
  static async three(
    library: string,
    template: string,
    directory: string,
  ): Promise<[GaleraNode, GaleraNode, GaleraNode]> {
    const address = async (): Promise<GroupAddress> => ({ port: await freePort(), transferPort: await freePort() });
    const addresses = [await address(), await address(), await address()];
    const node = async (index: number): Promise<GaleraNode> => {
      const name = `node ${index + 1}`;
      const dataDir = join(directory, `node-${index + 1}-data`);
      cpSync(template, dataDir, { recursive: true });
      writeFileSync(
        join(dataDir, "grastate.dat"),
        `# GALERA saved state\nversion: 2.1\nuuid: ${clusterId}\nseqno: 0\nsafe_to_bootstrap: ${index === 0 ? 1 : 0}\n`,
      );
      const options = galeraOptions(library, name, addresses, index);
      return new GaleraNode(
        name,
        await DatabaseServer.on(dataDir, join(directory, `node-${index + 1}`), index + 1, { options }),
      );
    };
    return [await node(0), await node(1), await node(2)];
  }

  /** Starts it as the first node of a new cluster. @throws Error when it does not serve in time */
  async found(): Promise<void> {
    await this.server.start(["--wsrep-new-cluster"]);
    if (!(await this.#serves(performance.now() + joinMaxMs))) throw this.#late();
  }

  /**
   * Starts it, with what it has, as one more node; resolves when it has all that was committed meanwhile. A node that
   * gives up is started again, as by its service manager. @throws Error when it does not serve in time
   */
  async join(): Promise<void> {
    const until = performance.now() + joinMaxMs;
    do {
      const printed = await this.server.runToEnd(["--wsrep-recover"]);
      // None where it never wrote anything: then it knows its position.
      const position = /Recovered position:\s*([0-9a-f-]{36}:[0-9]+)/.exec(printed)?.[1];
      const isKnown = position !== undefined && !position.startsWith("00000000");
      await this.server.start(isKnown ? [`--wsrep-start-position=${position}`] : []);
      if (await this.#serves(until)) return;
    } while (performance.now() < until);
    throw this.#late();
  }

  /** Whether it serves: it belongs to the cluster, and has all that was committed. */
  async isSynced(): Promise<boolean> {
    return (await this.#status("wsrep_local_state")) === synced;
  }

  /** How many nodes this one believes to be in the cluster; 0 when it cannot say. */
  async clusterSize(): Promise<number> {
    return Number((await this.#status("wsrep_cluster_size")) ?? 0);
  }

  /** Whether it comes to serve until then; false as soon as it has ended. */
  async #serves(until: number): Promise<boolean> {
    while (!(await this.isSynced())) {
      if (!this.server.isRunning || performance.now() > until) return false;
      await delay(joinPollMs);
    }
    return true;
  }

  #late(): Error {
    return new Error(`${this.name} did not join within ${joinMaxMs / 1_000} s`);
  }

  async #status(name: string): Promise<string | undefined> {
    try {
      const [row] = await this.server.run(`SHOW STATUS LIKE '${name}'`, 1_000);
      return row === undefined ? undefined : String(row["Value"]);
    } catch {
      return undefined;
    }
  }
}

/** A silent node is evicted after 1.5 to 4 seconds: with less, nodes that wait for a busy core evict each other. */
function galeraOptions(library: string, name: string, addresses: readonly GroupAddress[], index: number): string[] {
  const { port, transferPort } = addresses[index] ?? { port: 0, transferPort: 0 };
  const provider = [
    "base_host=127.0.0.1",
    `base_port=${port}`,
    `gmcast.listen_addr=tcp://127.0.0.1:${port}`,
    `ist.recv_addr=127.0.0.1:${transferPort}`,
    "evs.keepalive_period=PT0.3S",
    "evs.inactive_check_period=PT0.3S",
    "evs.suspect_timeout=PT1.5S",
    "evs.inactive_timeout=PT4S",
    "evs.install_timeout=PT3S",
    // Enough that a node that was away is sent what it missed, and not everything.
    "gcache.size=64M",
  ];
  return [
    "--wsrep-on=ON",
    `--wsrep-provider=${library}`,
    "--wsrep-cluster-name=marketd",
    `--wsrep-cluster-address=gcomm://${addresses.map((each) => `127.0.0.1:${each.port}`).join(",")}`,
    `--wsrep-node-name=${name}`,
    `--wsrep-node-address=127.0.0.1:${port}`,
    `--wsrep-provider-options=${provider.join(";")}`,
    // The one that asks nothing of the machine; it is used only where a node has no position.
    "--wsrep-sst-method=mysqldump",
    "--wsrep-sst-auth=root:",
    "--innodb-autoinc-lock-mode=2",
    // A replica gets what every node wrote from any of them.
    "--log-slave-updates=ON",
  ];
}
