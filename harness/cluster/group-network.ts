import { type ChildProcess, execFileSync } from "node:child_process";
import { readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { startChild } from "../chaos/children.js";

const startMaxMs = 5_000;
const startPollMs = 10;
const networkPrefix = "10.87.0";

/**
 * A network between servers of this machine, in which one can be cut off: a network namespace for each, with a link to a
 * switch in one more. Clients reach the servers by their sockets' files, which namespaces do not divide. Everything ends
 * with the processes that hold the namespaces, and the machine's own network is not touched.
 */
export class GroupNetwork {
  private constructor(
    private readonly switchNamespace: ChildProcess,
    private readonly hosts: readonly ChildProcess[],
  ) {}

  /** @returns undefined where this user may make no network: that takes root */
  static async create(count: number): Promise<GroupNetwork | undefined> {
    const namespaces = await Promise.all(Array.from({ length: 1 + count }, openNamespace));
    const [switchNamespace, ...hosts] = namespaces.filter((each) => each !== undefined);
    if (switchNamespace === undefined || hosts.length < count) return undefined;
    try {
      runIn(switchNamespace, "ip link add switch type bridge && ip link set switch up");
      for (const [index, host] of hosts.entries()) {
        const port = `port${index}`;
        runIn(switchNamespace, `ip link add ${port} type veth peer name eth0 netns ${host.pid}`);
        runIn(switchNamespace, `ip link set ${port} master switch up`);
        runIn(host, `ip addr add ${addressOf(index)}/24 dev eth0 && ip link set eth0 up && ip link set lo up`);
      }
    } catch {
      return undefined;
    }
    return new GroupNetwork(switchNamespace, hosts);
  }

  /** The command that runs a program on a host. */
  within(index: number): string[] {
    return ["nsenter", `--net=/proc/${this.hosts[index]?.pid}/ns/net`];
  }

  address(index: number): string {
    return addressOf(index);
  }

  /** Nothing gets from this host to the others, nor back; nobody is told. */
  cut(index: number): void {
    runIn(this.switchNamespace, `ip link set port${index} down`);
  }

  mend(index: number): void {
    runIn(this.switchNamespace, `ip link set port${index} up`);
  }

  close(): void {
    for (const each of [this.switchNamespace, ...this.hosts]) each.kill("SIGKILL");
  }
}

function addressOf(index: number): string {
  return `${networkPrefix}.${index + 1}`;
}

/** A process in a network namespace of its own, which holds that open. */
async function openNamespace(): Promise<ChildProcess | undefined> {
  const child = startChild("unshare", ["--net", "sleep", "infinity"], { stdio: "ignore" });
  const until = performance.now() + startMaxMs;
  while (performance.now() < until && child.exitCode === null && child.pid !== undefined) {
    if (readlinkSync(`/proc/${child.pid}/ns/net`) !== readlinkSync("/proc/self/ns/net")) return child;
    await delay(startPollMs);
  }
  child.kill("SIGKILL");
  return undefined;
}

function runIn(namespace: ChildProcess, script: string): void {
  execFileSync("nsenter", [`--net=/proc/${namespace.pid}/ns/net`, "sh", "-c", script], { stdio: "ignore" });
}
