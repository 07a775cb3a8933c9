import { cpSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Connection } from "mysql2/promise";
import { freePort } from "../../test/support/free-port.js";
import { DatabaseServer } from "../chaos/database-server.js";
import { dumpDatabase } from "../chaos/dump.js";
import { type RunContext, TestedService } from "../chaos/tested-service.js";
import { type ClusterNode, type Engine, joinMaxMs } from "./cluster-node.js";
import { HaProxy, monitorUser } from "./haproxy.js";

const replicaId = 4;
/** How long the replica may take to have what its source has. */
export const catchUpMaxMs = 60_000;

/** What a cluster is made of. */
export interface ClusterParts {
  readonly engine: Engine;
  /** The program. */
  readonly haproxy: string;
}

/** HAProxy connects by a socket's file and marketd does not know it: MySQL then asks for passwords in another way. */
const noPassword = "";

/**
 * A service that reads from three nodes and an asynchronous replica in turn, and a loader that writes to one of the
 * nodes, all through HAProxy. Everything is private, on loopback, and gone at the end.
 */
export class ClusterWorld extends TestedService {
  private constructor(
    context: RunContext,
    readonly engine: Engine,
    readonly nodes: readonly ClusterNode[],
    /** The node that the replica follows. */
    readonly source: ClusterNode,
    readonly replica: DatabaseServer,
    readonly haproxy: HaProxy,
    port: number,
  ) {
    const urlOf = (port: number): string => DatabaseServer.url(port, "marketd", noPassword);
    const [serviceUrl, loaderUrl] = [urlOf(haproxy.readerPort), urlOf(haproxy.writerPort)];
    super(context, { committed: new AnyNode(nodes, engine.isServing), serviceUrl, loaderUrl }, port);
  }

  /** Starts everything; resolves when the service is ready and has the first blocks. */
  static async create(run: Omit<RunContext, "directory">, { engine, haproxy }: ClusterParts): Promise<ClusterWorld> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-cluster-"));
    const template = join(directory, "template");
    await DatabaseServer.install(template, join(directory, "template-log"));
    const nodes = await engine.nodes(template, directory);
    const [first, second, source] = nodes;
    await first.found();
    await first.server.grant(noPassword);
    await first.server.run(`CREATE USER '${monitorUser}'@'%'`);
    for (const grant of engine.grants) await first.server.run(grant);
    // Two that join at once hold each other up.
    await second.join();
    await source.join();
    const replica = await DatabaseServer.on(
      join(directory, "replica-data"),
      join(directory, "replica"),
      replicaId,
      engine.replica,
    );
    cpSync(template, join(directory, "replica-data"), { recursive: true });
    await replica.start();
    await replica.follow(source.server, engine.sourceHost);
    const writers = nodes.map(({ name, server: { socketPath } }) => ({ name, socketPath }));
    const readers = [...writers, { name: "replica", socketPath: replica.socketPath }];
    const balancer = await HaProxy.before(haproxy, directory, { ...engine, readers, writers });
    const world = new ClusterWorld({ ...run, directory }, engine, nodes, source, replica, balancer, await freePort());
    await world.start();
    return world;
  }

  /** Resolves when all nodes serve; one that a fault left behind is started again. */
  async makeWhole(): Promise<void> {
    for (const node of this.nodes) {
      if (await this.within(joinMaxMs / 4, () => node.isSynced())) continue;
      await node.server.end();
      await node.join();
    }
  }

  /** The node that the loader is led to, once the cluster is whole. @throws Error when there is none */
  async writer(): Promise<ClusterNode> {
    await this.makeWhole();
    const until = performance.now() + joinMaxMs;
    do {
      for (const node of this.nodes) if (await node.isWriter()) return node;
    } while (performance.now() < until);
    throw new Error("no node may be written to");
  }

  /** The writer, when it is not the node without which the replica stays behind. */
  async writerBesideSource(): Promise<ClusterNode> {
    const writer = await this.writer();
    if (writer !== this.source) return writer;
    // In a group of MySQL any node may be the primary, and another one is while this one starts again.
    await writer.server.terminate();
    await writer.join();
    return this.writerBesideSource();
  }

  /** A node that neither the loader nor the replica depends on. */
  async reader(): Promise<ClusterNode> {
    const writer = await this.writer();
    const reader = this.nodes.find((node) => node !== writer && node !== this.source);
    if (reader === undefined) throw new Error("there are three nodes");
    return reader;
  }

  /** Whether a server soon holds what the newest of the nodes holds now. */
  async catchesUp(server: DatabaseServer): Promise<boolean> {
    const sequences = await Promise.all(this.nodes.map((node) => sequenceOf(node.server)));
    const held = sequences.filter((each) => each !== undefined);
    return this.within(catchUpMaxMs, async () => {
      const now = await sequenceOf(server);
      return now !== undefined && held.every((each) => each <= now);
    });
  }

  override async endSessions(): Promise<void> {
    for (const { server } of this.nodes) await server.endSessions().catch(() => {});
  }

  /** Each node, and the replica, when they have caught up. */
  override async compareWithUndisturbed(): Promise<string[]> {
    await this.settle();
    const differences: string[] = [];
    const servers = [...this.nodes, { name: "the replica", server: this.replica }];
    for (const { name, server } of servers) {
      if (!(await this.catchesUp(server))) differences.push(`${name} does not catch up within ${catchUpMaxMs} ms`);
    }
    const [row] = await this.replica.run("SELECT height FROM marketd.progress");
    const height = Number(row?.["height"]);
    const undisturbed = await this.loadUndisturbed(this.replica, this.judge.chain, height);
    for (const { name, server } of servers) {
      const dump = await dumpDatabase(server, "marketd").catch((error: unknown) => error);
      if (dump instanceof Map) differences.push(...this.differences(`${name}, block ${height}`, dump, undisturbed));
      else differences.push(`${name} cannot be read: ${String(dump)}`);
    }
    return differences;
  }

  override async close(): Promise<void> {
    await this.stopProcesses();
    await this.haproxy.kill();
    for (const server of [this.replica, ...this.nodes.map(({ server }) => server)]) await server.end();
    this.engine.network?.close();
    this.removeFiles();
  }
}

/** The newest event in a database; undefined if it cannot be asked. */
async function sequenceOf(server: DatabaseServer): Promise<bigint | undefined> {
  const [row] = await server.run("SELECT stream_sequence FROM marketd.progress", 1_000).catch(() => []);
  return row === undefined ? undefined : BigInt(String(row["stream_sequence"]));
}

/** What one node committed is soon on all: connections go to the next one each time, until one serves. */
class AnyNode {
  #next = 0;

  constructor(
    private readonly nodes: readonly ClusterNode[],
    readonly isServing: string,
  ) {}

  async connect(): Promise<Connection> {
    const node = this.nodes[this.#next++ % this.nodes.length];
    if (node === undefined || !(await node.isSynced())) throw new Error("this node is away");
    return node.server.connect();
  }
}
