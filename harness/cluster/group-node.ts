import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../test/support/free-port.js";
import { DatabaseServer } from "../chaos/database-server.js";
import { ClusterNode, type Engine, joinMaxMs } from "./cluster-node.js";
import { GroupNetwork } from "./group-network.js";
import { monitorUser } from "./haproxy.js";

const groupName = "6b1f2d6e-c76c-11f0-9c1a-0242ac110002";
const hostsMax = 4;
const replicaHost = 3;

/** XCom suspects a silent node after five seconds, and expels it at once; then a primary is elected. */
const withoutNodeMaxMs = 10_000;
/** A node that is refused asks again after this long: the group may still have its former self. */
const startAgainMs = 2_000;

const members = "performance_schema.replication_group_members";
const own = `(SELECT MEMBER_STATE FROM ${members} WHERE MEMBER_ID = @@server_uuid)`;
const role = `(SELECT MEMBER_ROLE FROM ${members} WHERE MEMBER_ID = @@server_uuid)`;

/** A node that is cut off believes itself to be online; but it sees less than half of its group. */
const majority = `(SELECT SUM(MEMBER_STATE <> 'UNREACHABLE') * 2 > COUNT(*) FROM ${members})`;
const inGroup = `${own} = 'ONLINE' AND ${majority}`;
const isPrimary = `${inGroup} AND ${role} = 'PRIMARY' AND NOT @@global.super_read_only`;

/** What HAProxy asks a node; docs/operations.md has it, too. A server that is in no group may be read from. */
export const groupChecks = {
  readerSql: `SELECT IF((SELECT COUNT(*) FROM ${members}) = 0 OR ${inGroup}, 'in service', 'away') AS state`,
  writerSql: `SELECT IF(${isPrimary}, 'in service', 'away') AS state`,
  authenticationPlugin: "caching_sha2_password",
};

/** One node of a MySQL group of three with a single primary. */
export class GroupNode extends ClusterNode {
  constructor(
    name: string,
    server: DatabaseServer,
    private readonly files: { readonly data: string; readonly template: string },
  ) {
    super(name, server);
  }

  override async found(): Promise<void> {
    await this.server.start(["--group-replication-start-on-boot=OFF"]);
    await this.server.run("SET GLOBAL group_replication_bootstrap_group = ON");
    await this.#startReplication();
    await this.server.run("SET GLOBAL group_replication_bootstrap_group = OFF");
    if (!(await this.serves(performance.now() + joinMaxMs))) throw this.late();
  }

  override join(): Promise<void> {
    return this.#join([]);
  }

  /** It gets everything from another node, as a clone. */
  override async joinEmpty(): Promise<void> {
    rmSync(this.files.data, { recursive: true });
    cpSync(this.files.template, this.files.data, { recursive: true });
    await this.#join(["--group-replication-clone-threshold=1"]);
  }

  override async isSynced(): Promise<boolean> {
    return (await this.#is(inGroup)) === true;
  }

  override async isWriter(): Promise<boolean> {
    return (await this.#is(isPrimary)) === true;
  }

  override async clusterSize(): Promise<number> {
    const row = await this.ask(`SELECT COUNT(*) size FROM ${members}`);
    return Number(row?.["size"] ?? 0);
  }

  /** @param once options of the first start */
  async #join(once: readonly string[]): Promise<void> {
    const until = performance.now() + joinMaxMs;
    for (let options = once; performance.now() < until; options = []) {
      // A node that got a copy of another one's data ends, to be started on them.
      if (!this.server.isRunning) await this.server.start(["--group-replication-start-on-boot=OFF", ...options]);
      await this.#startReplication().catch(() => {});
      if (await this.serves(until)) return;
      await delay(startAgainMs);
    }
    throw this.late();
  }

  async #startReplication(): Promise<void> {
    await this.server.run(
      "CHANGE REPLICATION SOURCE TO SOURCE_USER='replica' FOR CHANNEL 'group_replication_recovery'",
    );
    await this.server.run("START GROUP_REPLICATION", joinMaxMs);
  }

  async #is(condition: string): Promise<boolean | undefined> {
    const row = await this.ask(`SELECT ${condition} AS holds`);
    return row === undefined ? undefined : String(row["holds"]) === "1";
  }
}

/** MySQL Group Replication with a single primary; with a network that can be cut where this user may make one. */
export async function groupReplication(): Promise<Engine> {
  const network = await GroupNetwork.create(hostsMax);
  const hostOf = (index: number): string => network?.address(index) ?? "127.0.0.1";
  const specifics = (index: number, options: readonly string[]) => ({ options, within: network?.within(index) ?? [] });
  const nodes = async (template: string, directory: string): Promise<[GroupNode, GroupNode, GroupNode]> => {
    const addresses: string[] = [];
    for (const index of [0, 1, 2]) addresses.push(`${hostOf(index)}:${await freePort()}`);
    // Each server makes an identity of its own.
    rmSync(join(template, "auto.cnf"), { force: true });
    const node = async (index: number): Promise<GroupNode> => {
      const files = { template, data: join(directory, `node-${index + 1}-data`) };
      cpSync(template, files.data, { recursive: true });
      const options = nodeOptions(hostOf(index), addresses, index);
      const logDir = join(directory, `node-${index + 1}`);
      const server = await DatabaseServer.on(files.data, logDir, index + 1, specifics(index, options));
      return new GroupNode(`node ${index + 1}`, server, files);
    };
    return [await node(0), await node(1), await node(2)];
  };
  return {
    nodes,
    isServing: inGroup,
    ...groupChecks,
    grants: [
      `GRANT SELECT ON ${members} TO '${monitorUser}'@'%'`,
      "GRANT BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO 'replica'@'%'",
    ],
    replica: specifics(replicaHost, [...gtidOptions, "--performance-schema=ON"]),
    sourceHost: hostOf(2),
    withoutNodeMaxMs,
    canBeCut: true,
    network,
  };
}

const gtidOptions = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"];

function nodeOptions(host: string, addresses: readonly string[], index: number): string[] {
  const settings = {
    group_name: groupName,
    local_address: addresses[index],
    group_seeds: addresses.join(","),
    start_on_boot: "ON",
    // With the default, a node is expelled five seconds later.
    member_expel_timeout: 0,
    // The default keeps a gigabyte in each node.
    message_cache_size: 128 * 1024 * 1024,
    recovery_reconnect_interval: 5,
  };
  return [
    ...gtidOptions,
    "--log-replica-updates=ON",
    // Group Replication shows its state there.
    "--performance-schema=ON",
    `--bind-address=${host}`,
    `--report-host=${host}`,
    "--plugin-load-add=group_replication.so",
    "--plugin-load-add=mysql_clone.so",
    ...Object.entries(settings).map(([name, value]) => `--loose-group_replication_${name}=${value}`),
  ];
}
