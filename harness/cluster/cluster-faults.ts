import { startRollingClients } from "../../test/support/rolling-clients.js";
import { brief, type Fault, momentary } from "../chaos/fault.js";
import { hangUp } from "../chaos/process-faults.js";
import { type ClusterWorld, catchUpMaxMs } from "./cluster-world.js";
import { type GaleraNode, joinMaxMs } from "./galera-node.js";

/** A cluster takes this long at most to see that a node is dead, and to go on without it. */
const withoutNodeMaxMs = 5_000;
/** Galera evicts a silent node after four seconds at most, and then agrees on it. */
const evictedMaxMs = 15_000;

/** Faults of the cluster's nodes, its replica and its balancer, and a restart of the service. */
export function clusterScenarios(world: ClusterWorld): Fault[][] {
  return [
    killed(world, "reading node", world.reader),
    killed(world, "writing node", world.writer),
    [sourceKilled(world)],
    stopped(world),
    [replicaStandsStill(world)],
    [rollingRestart(world)],
    [balancerRestarted(world)],
  ];
}

/** The others go on without it; then it comes back. */
function killed({ nodes }: ClusterWorld, name: string, node: GaleraNode): Fault[] {
  const others = nodes.filter((each) => each !== node);
  const goesOn = async (each: GaleraNode) => (await each.clusterSize()) === others.length && (await each.isSynced());
  return [
    {
      name: `${name} killed`,
      excuses: ["ledger"],
      holdMs: momentary,
      recoveryMaxMs: withoutNodeMaxMs,
      inject: () => node.server.kill(),
      heal: () => {},
      // Before the others have seen it, all may look well.
      isWell: async () => (await Promise.all(others.map(goesOn))).every((goes) => goes),
    },
    // On a busy machine, nodes that let one in may lose their quorum for a moment, and say so.
    { name: `${name} back`, excuses: ["ledger"], holdMs: momentary, inject: () => node.join(), heal: () => {} },
  ];
}

/** The node that the replica follows: what is read from the replica is of an older block until the node is back. */
function sourceKilled(world: ClusterWorld): Fault {
  const { source } = world;
  return {
    name: "replica's source killed, then back",
    excuses: ["ledger"],
    holdMs: brief,
    inject: () => source.server.kill(),
    heal: async () => {
      await source.join();
      await caughtUp(world);
    },
  };
}

/** A node stands still until the others have evicted it; then it goes on where it was, and they let it in again. */
function stopped(world: ClusterWorld): Fault[] {
  const { reader, writer, source, report } = world;
  let node = reader;
  return [
    {
      name: "node stopped until evicted",
      excuses: ["ledger", "slow ledger"],
      holdMs: momentary,
      recoveryMaxMs: withoutNodeMaxMs,
      inject: async () => {
        node = world.random.pick([reader, writer]);
        node.server.pause();
        await world.until("the node is evicted", evictedMaxMs, async () => (await source.clusterSize()) === 2);
      },
      heal: () => {},
    },
    {
      name: "stopped node back",
      excuses: ["ledger"],
      holdMs: momentary,
      inject: async () => {
        node.server.resume();
        const back = await world.within(joinMaxMs, () => node.isSynced());
        report.check("a node that was evicted comes back", back, `not within ${joinMaxMs} ms`);
      },
      heal: () => {},
    },
  ];
}

function replicaStandsStill(world: ClusterWorld): Fault {
  const { replica } = world;
  return {
    name: "replica's SQL thread stopped",
    excuses: ["ledger"],
    holdMs: [2_000, 4_000],
    inject: async () => {
      await replica.run("STOP REPLICA SQL_THREAD");
      world.exportBurst = true;
    },
    heal: async () => {
      world.exportBurst = false;
      await replica.run("START REPLICA SQL_THREAD");
      await caughtUp(world);
    },
  };
}

async function caughtUp(world: ClusterWorld): Promise<void> {
  if (!(await world.replicaCatchesUp())) throw new Error(`the replica did not catch up within ${catchUpMaxMs} ms`);
}

/** SIGHUP, while clients call that have nothing but their libraries' own retries. */
function rollingRestart(world: ClusterWorld): Fault {
  const fault = hangUp(world);
  return {
    ...fault,
    inject: async () => {
      const [market = ""] = world.judge.chain.fold.markets.keys();
      const clients = startRollingClients(`http://127.0.0.1:${world.port}`, market);
      await fault.inject();
      await Promise.all(clients.map((client) => client.stop()));
      const calls = clients.reduce((sum, client) => sum + client.calls, 0);
      const failures = clients.flatMap(({ name, failures }) => failures.map((why) => `${name}: ${why}`));
      const why = `${failures.length} of ${calls} calls: ${failures.slice(0, 3).join("; ")}`;
      world.report.check("SIGHUP fails no call of any client library", failures.length === 0, why);
    },
  };
}

function balancerRestarted({ haproxy }: ClusterWorld): Fault {
  return {
    name: "balancer killed, then back",
    excuses: ["ledger"],
    holdMs: brief,
    inject: () => haproxy.kill(),
    heal: () => haproxy.start(),
  };
}
