import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../test/support/free-port.js";
import { DatabaseServer } from "./database-server.js";
import { fakeClock, Supervised, serveArguments } from "./marketd.js";
import { Scoreboard } from "./scoreboard.js";
import { startStreamReaders } from "./stream-readers.js";
import type { World } from "./world.js";

const hourSeconds = 3_600;
/** The service looks for peers that are gone every 20 s, so what a step does to them shows only then. */
const watchMs = 22_000;
const startMaxMs = 20_000;

/**
 * A service of its own, beside the others for the whole run, whose wall clock steps an hour forward and back again.
 * Its streams must go on: a step of the clock is no silence of a peer.
 */
export class SteppingClock {
  readonly scoreboard: Scoreboard;
  #stopped = new AbortController();
  #steps: Promise<void> = Promise.resolve();

  private constructor(private readonly world: World) {
    this.scoreboard = new Scoreboard(world.report);
  }

  /** Undefined where clocks cannot be set. */
  static start(world: World, signal: AbortSignal): SteppingClock | undefined {
    const directory = join(world.directory, "stepping");
    mkdirSync(directory);
    const clock = fakeClock(directory);
    if (clock === undefined) return undefined;
    const stepping = new SteppingClock(world);
    stepping.#steps = stepping.#step(directory, clock, signal);
    return stepping;
  }

  /** Resolves when the step that is being watched has been watched to its end. */
  async end(): Promise<void> {
    this.#stopped.abort();
    await this.#steps;
  }

  async #step(directory: string, clock: NonNullable<ReturnType<typeof fakeClock>>, signal: AbortSignal): Promise<void> {
    const { world, scoreboard } = this;
    const port = await freePort();
    const service = new Supervised(
      {
        name: "stepping",
        program: world.settings.program,
        environment: clock.environment,
        log: join(directory, "log"),
      },
      () => ({ args: serveArguments(DatabaseServer.url(world.primary.port), port) }),
      () => {},
    );
    service.start();
    await world.within(startMaxMs, () => world.isReady(port));
    const end = new AbortController();
    const readersEnd = AbortSignal.any([signal, end.signal]);
    const { judge, random } = world;
    const start = scoreboard.inject("no fault", ["hot", "stream", "slow hot", "connection"]);
    const loops = startStreamReaders({ port, judge, scoreboard, random, signal: readersEnd });
    await world.within(startMaxMs, () => scoreboard.allRight);
    scoreboard.close(start, 0);
    for (let hours = 1; hours === 1 || !this.#stopped.signal.aborted; hours = 1 - hours) {
      // Its database may be replaced meanwhile, which ends streams, and says so.
      const episode = scoreboard.inject(hours === 1 ? "clock forward 1 h" : "clock back 1 h", ["stream", "hot"]);
      clock.step(hours * hourSeconds);
      await delay(watchMs);
      scoreboard.heal(episode);
      scoreboard.close(episode, 0);
    }
    end.abort();
    await Promise.race([Promise.all(loops), delay(2_000)]);
    await service.stop(4_000);
  }
}
