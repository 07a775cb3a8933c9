import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../test/support/free-port.js";
import { Chain } from "./chain.js";
import { DatabaseServer, mountSmallDisk } from "./database-server.js";
import { dumpDatabase } from "./dump.js";
import { fakeClock } from "./marketd.js";
import { DatabaseProxy } from "./proxy.js";
import { firstBlocks, type RunContext, TestedService } from "./tested-service.js";

/** The primary's disk. What half an hour of blocks takes is less than half of it. */
const diskMebibytes = 512;

/** What is known of a database whose chain was replaced: it is compared at the end. */
interface Remains {
  readonly chain: Chain;
  readonly height: number;
  readonly dump: ReadonlyMap<string, string>;
}

/**
 * Everything that is tried: two database servers (a primary and its asynchronous replica), a service of two workers and
 * a loader behind a proxy each, and a network that makes blocks. All of it is private, on loopback, and gone at the end.
 */
export class World extends TestedService {
  readonly #remains: Remains[] = [];
  #chains = 1;

  private constructor(
    context: RunContext,
    readonly disk: { readonly path: string; unmount(): void } | undefined,
    readonly primary: DatabaseServer,
    readonly replica: DatabaseServer,
    readonly serviceProxy: DatabaseProxy,
    readonly loaderProxy: DatabaseProxy,
    port: number,
    readonly clock: ReturnType<typeof fakeClock>,
  ) {
    const [serviceUrl, loaderUrl] = [DatabaseServer.url(serviceProxy.port), DatabaseServer.url(loaderProxy.port)];
    const databases = { committed: primary, serviceUrl, loaderUrl };
    super(context, databases, port, clock?.environment);
  }

  /** Starts everything; resolves when the service is ready and has the first blocks. */
  static async create(run: Omit<RunContext, "directory">): Promise<World> {
    const directory = mkdtempSync(join(tmpdir(), "marketd-chaos-"));
    const mount = mountSmallDisk(join(directory, "disk"), diskMebibytes);
    const disk = mount === undefined ? undefined : { ...mount, path: join(directory, "disk") };
    const dataDir = join(directory, disk === undefined ? "primary-data" : "disk/primary-data");
    const primary = await DatabaseServer.create(dataDir, join(directory, "primary"), 1);
    const replica = await DatabaseServer.create(join(directory, "replica-data"), join(directory, "replica"), 2);
    await replica.follow(primary);
    const world = new World(
      { ...run, directory },
      disk,
      primary,
      replica,
      await DatabaseProxy.before(primary.port),
      await DatabaseProxy.before(primary.port),
      await freePort(),
      fakeClock(directory),
    );
    await world.start();
    return world;
  }

  override endSessions(): Promise<void> {
    return this.primary.endSessions();
  }

  /** Drops the database. The service goes on; what it held stays known, to be compared at the end. */
  async replaceChain(how: "another" | "shorter"): Promise<void> {
    const before = this.judge.chain;
    await this.loader.stop(2_000);
    await this.#remember();
    const name = `chain-${++this.#chains}`;
    const next =
      how === "shorter"
        ? before.againUpTo(Math.min(40, Math.ceil(before.height / 3)), this.directory, name)
        : new Chain(this.directory, name, this.settings.seed + this.#chains);
    while (next.height < firstBlocks / 2) next.advance();
    this.judge.replaceChain(next);
    before.readAlong(undefined);
    await this.primary.run("DROP DATABASE marketd");
    // A poll of a moment ago may have seen the old one, under the same chain id.
    this.commits.forget();
    this.loader.start();
  }

  /** Those that were replaced, too. */
  override async compareWithUndisturbed(): Promise<string[]> {
    await this.settle();
    await this.#remember();
    const differences: string[] = [];
    for (const { chain, height, dump } of this.#remains) {
      const undisturbed = await this.loadUndisturbed(this.primary, chain, height);
      differences.push(...this.differences(`${chain.id}, block ${height}`, dump, undisturbed));
    }
    return differences;
  }

  override async close(): Promise<void> {
    await this.stopProcesses();
    this.serviceProxy.close();
    this.loaderProxy.close();
    for (const server of [this.primary, this.replica]) await server.end();
    this.disk?.unmount();
    this.removeFiles();
  }

  async #remember(): Promise<void> {
    const [row] = await this.primary.run("SELECT height FROM marketd.progress");
    const dump = await dumpDatabase(this.primary, "marketd");
    this.#remains.push({ chain: this.judge.chain, height: Number(row?.["height"]), dump });
  }
}
