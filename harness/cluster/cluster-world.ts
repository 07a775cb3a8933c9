import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Connection } from "mysql2/promise";
import { freePort } from "../../test/support/free-port.js";
import { DatabaseServer } from "../chaos/database-server.js";
import { dumpDatabase } from "../chaos/dump.js";
import { type RunContext, TestedService } from "../chaos/tested-service.js";
import { GaleraNode } from "./galera-node.js";
import { HaProxy, monitorUser } from "./haproxy.js";

const replicaId = 4;
/** How long the replica may take to have what its source has. */
export const catchUpMaxMs = 15_000;

/** Programs and libraries of this machine. */
export interface ClusterParts {
  readonly galera: string;
  readonly haproxy: string;
}

/**
 * A service that reads from three Galera nodes and an asynchronous replica in turn, and a loader that writes to one of
 * the nodes, all through HAProxy. Everything is private, on loopback, and gone at the end.
 */
export class ClusterWorld extends TestedService {
  private constructor(
    context: RunContext,
    /** The loader is led to it while it is there. */
    readonly writer: GaleraNode,
    readonly reader: GaleraNode,
    /** The node that the replica follows. */
    readonly source: GaleraNode,
    readonly replica: DatabaseServer,
    readonly haproxy: HaProxy,
    port: number,
  ) {
    const committed = new AnyNode([source, reader, writer]);
    super(context, { committed, servicePort: haproxy.readerPort, loaderPort: haproxy.writerPort }, port);
  }

  /** Starts everything; resolves when the service is ready and has the first blocks. */
  static async create(run: Omit<RunContext, "directory">, { galera, haproxy }: ClusterParts): Promise<ClusterWorld> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-cluster-"));
    const template = join(directory, "template");
    await DatabaseServer.install(template, join(directory, "template-log"));
    const [writer, reader, source] = await GaleraNode.three(galera, template, directory);
    await writer.found();
    await writer.server.grant();
    await writer.server.run(`CREATE USER '${monitorUser}'@'%'`);
    // Two that join at once hold each other up.
    await reader.join();
    await source.join();
    const replica = await DatabaseServer.create(join(directory, "replica-data"), join(directory, "replica"), replicaId);
    await replica.follow(source.server);
    const nodes = [writer, reader, source].map(({ name, server }) => ({ name, port: server.port }));
    const balancer = await HaProxy.before(
      haproxy,
      directory,
      [...nodes, { name: "replica", port: replica.port }],
      nodes,
    );
    const world = new ClusterWorld({ ...run, directory }, writer, reader, source, replica, balancer, await freePort());
    await world.start();
    return world;
  }

  get nodes(): readonly GaleraNode[] {
    return [this.writer, this.reader, this.source];
  }

  /** Whether the replica has all that its source has, or comes to have it in time. */
  async replicaCatchesUp(): Promise<boolean> {
    const sequenceOf = async (server: DatabaseServer): Promise<string> => {
      const [row] = await server.run("SELECT stream_sequence FROM marketd.progress", 1_000).catch(() => []);
      return String(row?.["stream_sequence"] ?? "nothing");
    };
    const wanted = await sequenceOf(this.source.server);
    if (wanted === "nothing") return false;
    return this.within(catchUpMaxMs, async () => {
      const held = await sequenceOf(this.replica);
      return held !== "nothing" && BigInt(held) >= BigInt(wanted);
    });
  }

  override async endSessions(): Promise<void> {
    for (const { server } of this.nodes) await server.endSessions().catch(() => {});
  }

  /** Each node, and the replica when it has caught up. */
  override async compareWithUndisturbed(): Promise<string[]> {
    await this.settle();
    const differences: string[] = [];
    if (!(await this.replicaCatchesUp())) differences.push(`the replica does not catch up within ${catchUpMaxMs} ms`);
    const [row] = await this.replica.run("SELECT height FROM marketd.progress");
    const height = Number(row?.["height"]);
    const undisturbed = await this.loadUndisturbed(this.replica, this.judge.chain, height);
    const servers = [...this.nodes, { name: "the replica", server: this.replica }];
    for (const { name, server } of servers) {
      const dump = await dumpDatabase(server, "marketd").catch((error: unknown) => error);
      if (!(dump instanceof Map)) {
        differences.push(`${name} cannot be read: ${String(dump)}`);
        continue;
      }
      for (const [table, rows] of undisturbed) {
        if (dump.get(table) !== rows)
          differences.push(`${name}, block ${height}, ${table}: ${dump.get(table)}, undisturbed ${rows}`);
      }
    }
    return differences;
  }

  override async close(): Promise<void> {
    await this.stopProcesses();
    await this.haproxy.kill();
    for (const server of [this.replica, ...this.nodes.map(({ server }) => server)]) await server.end();
    this.removeFiles();
  }
}

/** What one node committed is soon on all: connections go to the next one each time, until one serves. */
class AnyNode {
  #next = 0;

  constructor(private readonly nodes: readonly GaleraNode[]) {}

  async connect(): Promise<Connection> {
    const node = this.nodes[this.#next++ % this.nodes.length];
    if (node === undefined || !(await node.isSynced())) throw new Error("this node is away");
    return node.server.connect();
  }
}
