import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../test/support/free-port.js";
import { DatabaseServer } from "../chaos/database-server.js";
import { ClusterNode, type Engine, joinMaxMs } from "./cluster-node.js";

/** Where packages put the library that makes a cluster of MariaDB servers. */
export const galeraLibraries = [
  "/usr/lib/galera/libgalera_smm.so",
  "/usr/lib64/galera-4/libgalera_smm.so",
  "/usr/lib64/galera/libgalera_smm.so",
  "/usr/lib/libgalera_smm.so",
];

/** All nodes begin with the same files, so that none has to be sent them: position 0 of a cluster of this name. */
const clusterId = "6b1f2d6e-c76c-11f0-9c1a-0242ac110002";

const withoutNodeMaxMs = 5_000;

/** `wsrep_local_state` of a node that has all that the cluster committed. */
const synced = "4";

/** Where the nodes of a cluster find each other. */
interface GroupAddress {
  readonly port: number;
  /** At which it gets what it missed. */
  readonly transferPort: number;
}

/**
 * True of a node that has all that its cluster committed (4), or had until it began to send a node what that one missed
 * (2), and of every server that is not in a cluster.
 */
const fitSql =
  "SELECT IF(@@wsrep_on = 0 OR (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS " +
  "WHERE VARIABLE_NAME = 'wsrep_local_state') IN (2, 4), 'in service', 'away') AS state";

/** One node of a Galera cluster of three. */
class GaleraNode extends ClusterNode {
  override async found(): Promise<void> {
    await this.server.start(["--wsrep-new-cluster"]);
    if (!(await this.serves(performance.now() + joinMaxMs))) throw this.late();
  }

  override async join(): Promise<void> {
    const until = performance.now() + joinMaxMs;
    do {
      const printed = await this.server.runToEnd(["--wsrep-recover"]);
      // None where it never wrote anything: then it knows its position.
      const position = /Recovered position:\s*([0-9a-f-]{36}:[0-9]+)/.exec(printed)?.[1];
      const isKnown = position !== undefined && !position.startsWith("00000000");
      await this.server.start(isKnown ? [`--wsrep-start-position=${position}`] : []);
      if (await this.serves(until)) return;
    } while (performance.now() < until);
    throw this.late();
  }

  override async isSynced(): Promise<boolean> {
    return (await this.#status("wsrep_local_state")) === synced;
  }

  override isWriter(): Promise<boolean> {
    return this.isSynced();
  }

  override async clusterSize(): Promise<number> {
    return Number((await this.#status("wsrep_cluster_size")) ?? 0);
  }

  async #status(name: string): Promise<string | undefined> {
    const row = await this.ask(`SHOW STATUS LIKE '${name}'`);
    return row === undefined ? undefined : String(row["Value"]);
  }
}

/** A Galera cluster of MariaDB servers, with the library at this path. */
export function galera(library: string): Engine {
  const address = async (): Promise<GroupAddress> => ({ port: await freePort(), transferPort: await freePort() });
  const nodes = async (template: string, directory: string): Promise<[GaleraNode, GaleraNode, GaleraNode]> => {
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
      const logDir = join(directory, `node-${index + 1}`);
      return new GaleraNode(name, await DatabaseServer.on(dataDir, logDir, index + 1, { options }));
    };
    return [await node(0), await node(1), await node(2)];
  };
  return {
    nodes,
    // Any other refuses the question itself.
    isServing: "TRUE",
    readerSql: fitSql,
    writerSql: undefined,
    authenticationPlugin: "mysql_native_password",
    grants: [],
    replica: {},
    sourceHost: "127.0.0.1",
    withoutNodeMaxMs,
    canBeCut: false,
    network: undefined,
  };
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
