/**
 * The process that owns a private database server. The first command that needs it starts it, all share it, and it ends
 * with the last. It runs in its own session, so that signals to a command do not reach it. It imports only Node,
 * because it must start quickly.
 */
import { existsSync, mkdirSync, rmdirSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { thrownText } from "../domain/thrown-text.js";
import {
  type DatabaseServer,
  initialiseDatabase,
  serverLogTail,
  startDatabaseServer,
  turnServerLog,
  untilReady,
} from "./database-server.js";
import { makeSocketDir } from "./embedded-places.js";
import { takeExclusiveLock } from "./exclusive-lock.js";
import { lockHeldExitCode, type SupervisorMessage, type SupervisorOrder, sendMessage } from "./supervisor-messages.js";

const lockWaitMs = 2_000;
/** The command that started this supervisor may have died, or joined another one, before it connected. */
const firstUserMs = 5_000;
const heartbeatMs = 1_000;
const crashesMax = 5;
const crashWindowMs = 60_000;

class Supervisor {
  readonly #order: SupervisorOrder;
  readonly #lock: number;
  readonly #users = new Set<Socket>();
  readonly #listener = createServer({ allowHalfOpen: true }, (user) => this.#enter(user));
  #server: DatabaseServer | undefined;
  #news: SupervisorMessage;
  #ending = false;

  constructor(order: SupervisorOrder, lock: number) {
    this.#order = order;
    this.#lock = lock;
    const isMade = existsSync(order.places.databaseDir);
    this.#news = { type: "progress", text: isMade ? "starting the database" : "making the database" };
  }

  async run(): Promise<void> {
    const { places } = this.#order;
    makeSocketDir(places.socketDir);
    rmSync(places.supervisorSocket, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#listener.once("error", reject);
      this.#listener.listen(places.supervisorSocket, resolve);
    });
    const heartbeat = setInterval(() => this.#publish(this.#news), heartbeatMs);
    if (await this.#firstUser()) await this.#serve().catch((error: unknown) => this.#fail(thrownText(error)));
    clearInterval(heartbeat);
    this.end();
    this.#leave();
  }

  /** Ends the server, and thereby {@link run}. */
  end(): void {
    if (this.#ending) return;
    this.#ending = true;
    // Closing removes the socket's path at once. A user that comes now starts another supervisor, which waits for our lock.
    this.#listener.close();
    void this.#server?.stop();
  }

  /** False if no user connects: of commands that start simultaneously, all but one join another supervisor. */
  #firstUser(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), firstUserMs);
      this.#listener.once("connection", () => {
        clearTimeout(timer);
        resolve(true);
      });
      this.#listener.once("close", () => resolve(false));
    });
  }

  async #serve(): Promise<void> {
    const { places } = this.#order;
    turnServerLog(places);
    rmSync(places.temporaryDir, { recursive: true, force: true });
    mkdirSync(places.temporaryDir);
    await this.#initialise();
    const crashes: number[] = [];
    while (!this.#ending) {
      const server = startDatabaseServer(this.#order, this.#lock);
      this.#server = server;
      if (await untilReady(server, places)) this.#report({ type: "ready", supervisor: process.pid });
      else if (!this.#ending) throw new Error(`the database did not start: ${serverLogTail(places)}`);
      const exit = await server.exited;
      if (this.#ending) return;
      this.#report({ type: "progress", text: `the database ended (${exit.signal ?? exit.code}), starting it again` });
      const now = performance.now();
      crashes.push(now);
      if (crashes.filter((at) => now - at < crashWindowMs).length > crashesMax) {
        throw new Error(`the database keeps ending: ${serverLogTail(places)}`);
      }
    }
  }

  async #initialise(): Promise<void> {
    if (existsSync(this.#order.places.databaseDir)) return;
    await initialiseDatabase(this.#order, this.#lock);
    this.#report({ type: "progress", text: "starting the database" });
  }

  #enter(user: Socket): void {
    user.on("error", () => user.destroy());
    if (this.#ending) {
      user.destroy();
      return;
    }
    this.#users.add(user);
    user.once("end", () => this.#drop(user));
    user.once("close", () => this.#drop(user));
    user.resume();
    sendMessage(user, this.#news);
  }

  /** The last user's connection stays open until the server has ended, so that `close` can wait for it. */
  #drop(user: Socket): void {
    if (!this.#users.delete(user)) return;
    if (this.#users.size === 0) this.end();
    else user.end();
  }

  #report(message: SupervisorMessage): void {
    this.#news = message;
    this.#publish(message);
  }

  #publish(message: SupervisorMessage): void {
    for (const user of this.#users) sendMessage(user, message);
  }

  #fail(text: string): void {
    this.#publish({ type: "failed", text });
    for (const user of this.#users) user.end();
    this.end();
  }

  /** Cleans up while holding the lock, so that nothing of a successor is removed. */
  #leave(): void {
    const { places } = this.#order;
    for (const file of [places.supervisorSocket, places.sqlSocket]) rmSync(file, { force: true });
    try {
      rmdirSync(places.socketDir);
    } catch {
      // Somebody created a file there; only an empty directory would be removed.
    }
    process.exit(0);
  }
}

async function main(): Promise<void> {
  const order: SupervisorOrder = JSON.parse(process.argv[2] ?? "");
  process.umask(0o077);
  process.chdir("/");
  process.on("SIGINT", () => {});
  process.on("SIGHUP", () => {});
  const lock = await takeExclusiveLock(order.places.lockFile, lockWaitMs);
  if (lock === undefined) process.exit(lockHeldExitCode);
  const supervisor = new Supervisor(order, lock);
  process.on("SIGTERM", () => supervisor.end());
  await supervisor.run();
}

await main();
