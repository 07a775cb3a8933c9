import { setTimeout as delay } from "node:timers/promises";
import type { RowDataPacket } from "mysql2/promise";
import type { DatabaseServer, ServerSpecifics } from "../chaos/database-server.js";
import type { GroupNetwork } from "./group-network.js";

/** How long a node may take to be one of the cluster. */
export const joinMaxMs = 180_000;
const joinPollMs = 50;
const askMaxMs = 1_000;

/** One node of a cluster of three, which can be killed, stopped and started again on the same data. */
export abstract class ClusterNode {
  constructor(
    readonly name: string,
    readonly server: DatabaseServer,
  ) {}

  /** Starts it as the first node of a new cluster. @throws Error when it does not serve in time */
  abstract found(): Promise<void>;

  /**
   * Starts it, with what it has, as one more node; resolves when it has all that was committed meanwhile. A node that
   * gives up is started again, as by its service manager. @throws Error when it does not serve in time
   */
  abstract join(): Promise<void>;

  /** Starts it as a machine that was never of the cluster; undefined: not tried with this kind of cluster. */
  joinEmpty?(): Promise<void>;

  /** Whether it serves: it belongs to the cluster, and has all that was committed. */
  abstract isSynced(): Promise<boolean>;

  /** Whether the loader is to be led to it, if nodes are asked in their order. */
  abstract isWriter(): Promise<boolean>;

  /** How many nodes this one believes to be in the cluster; 0 when it cannot say. */
  abstract clusterSize(): Promise<number>;

  /** Whether it comes to serve until then; false as soon as it has ended. */
  protected async serves(until: number): Promise<boolean> {
    while (!(await this.isSynced())) {
      if (!this.server.isRunning || performance.now() > until) return false;
      await delay(joinPollMs);
    }
    return true;
  }

  protected late(): Error {
    return new Error(`${this.name} did not join within ${joinMaxMs / 1_000} s`);
  }

  /** The first row that it answers with; undefined when it cannot answer. */
  protected async ask(sql: string): Promise<RowDataPacket | undefined> {
    try {
      return (await this.server.run(sql, askMaxMs))[0];
    } catch {
      return undefined;
    }
  }
}

/** What makes three servers a cluster, and what is known of it. */
export interface Engine {
  /** Three nodes on copies of the files in `template`; none is started. */
  nodes(template: string, directory: string): Promise<[ClusterNode, ClusterNode, ClusterNode]>;
  /** True on a node that belongs to the cluster, as a condition of SQL. */
  readonly isServing: string;
  /** What HAProxy asks a server: `in service` or not. */
  readonly readerSql: string;
  /** The same of a node that is to be written to; undefined: the first node that may be read from. */
  readonly writerSql: string | undefined;
  /** How HAProxy's user says that it has no password. */
  readonly authenticationPlugin: string;
  /** What users of the harness may do besides, as statements. */
  readonly grants: readonly string[];
  /** An asynchronous replica of the third node, and where it finds that. */
  readonly replica: ServerSpecifics;
  readonly sourceHost: string;
  /** How long the cluster takes at most to see that a node is dead, and to go on without it. */
  readonly withoutNodeMaxMs: number;
  /** Whether its nodes are to be cut off from each other, and the network in which they can be. */
  readonly canBeCut: boolean;
  readonly network: GroupNetwork | undefined;
}
