import { startRollingClients } from "../../test/support/rolling-clients.js";
import { brief, type Fault, momentary } from "../chaos/fault.js";
import { changedDecimals, hangUp } from "../chaos/process-faults.js";
import { type ClusterNode, joinMaxMs } from "./cluster-node.js";
import { type ClusterWorld, catchUpMaxMs } from "./cluster-world.js";

/** A silent node is evicted after four to six seconds at most, and then the others agree on it. */
const evictedMaxMs = 15_000;

/** Faults of the cluster's nodes, its replica and its balancer, and a restart of the service. */
export function clusterScenarios(world: ClusterWorld): Fault[][] {
  return [
    killed(world, "reading node", () => world.reader()),
    killed(world, "writing node", () => world.writerBesideSource()),
    [sourceKilled(world)],
    stopped(world),
    ...cutOff(world),
    [nodesRestarted(world)],
    ...emptied(world),
    [replicaStandsStill(world)],
    [rollingRestart(world)],
    [balancerRestarted(world)],
    ...changedDecimals(world).map((fault) => [fault]),
  ];
}

/** The others go on without it; then it comes back. */
function killed(world: ClusterWorld, name: string, choose: () => Promise<ClusterNode>): Fault[] {
  let node: ClusterNode | undefined;
  return [
    {
      name: `${name} killed`,
      excuses: ["ledger"],
      holdMs: momentary,
      recoveryMaxMs: world.engine.withoutNodeMaxMs,
      inject: async () => {
        node = await choose();
        await node.server.kill();
      },
      heal: () => {},
      isWell: () => goesOnWithout(world, node),
    },
    // On a busy machine, nodes that let one in may lose their quorum for a moment, and say so.
    { name: `${name} back`, excuses: ["ledger"], holdMs: momentary, inject: () => node?.join(), heal: () => {} },
  ];
}

/** Whether the others have seen that this one is gone; before that, all may look well. */
async function goesOnWithout({ nodes }: ClusterWorld, gone: ClusterNode | undefined): Promise<boolean> {
  const others = nodes.filter((each) => each !== gone);
  const goesOn = async (each: ClusterNode) => (await each.clusterSize()) === others.length && (await each.isSynced());
  return (await Promise.all(others.map(goesOn))).every((goes) => goes);
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
  const { source, random } = world;
  let node = source;
  return [
    {
      name: "node stopped until evicted",
      excuses: ["ledger", "slow ledger"],
      holdMs: momentary,
      recoveryMaxMs: world.engine.withoutNodeMaxMs,
      inject: async () => {
        node = random.next() < 0.5 ? await world.reader() : await world.writerBesideSource();
        node.server.pause();
        await world.until("the node is evicted", evictedMaxMs, () => goesOnWithout(world, node));
      },
      heal: () => {},
    },
    {
      name: "stopped node back",
      excuses: ["ledger"],
      holdMs: momentary,
      inject: async () => {
        node.server.resume();
        await comesBack(world, node);
      },
      heal: () => {},
    },
  ];
}

/** The primary runs on, and its clients reach it, but the others do not: they elect another one. */
function cutOff(world: ClusterWorld): Fault[][] {
  const { engine, nodes, report } = world;
  const { network } = engine;
  if (network === undefined) {
    if (engine.canBeCut) report.say("skipped: a primary that is cut off (it takes root to make a network)");
    return [];
  }
  let node: ClusterNode | undefined;
  const cut: Fault = {
    name: "primary cut off",
    excuses: ["ledger", "slow ledger"],
    holdMs: momentary,
    recoveryMaxMs: engine.withoutNodeMaxMs,
    inject: async () => {
      node = await world.writerBesideSource();
      network.cut(nodes.indexOf(node));
      const sql = "UPDATE marketd.progress SET chain_id = 'lost'";
      const outcome = node.server.run(sql, engine.withoutNodeMaxMs).then(
        () => "committed",
        () => "refused",
      );
      await world.until("the primary is expelled", evictedMaxMs, () => goesOnWithout(world, node));
      report.check("a primary that is cut off commits nothing", (await outcome) === "refused");
    },
    heal: () => {},
  };
  const back: Fault = {
    name: "primary that was cut off back",
    excuses: ["ledger"],
    holdMs: momentary,
    inject: async () => {
      if (node === undefined) return;
      network.mend(nodes.indexOf(node));
      await comesBack(world, node);
    },
    heal: () => {},
  };
  return [[cut, back]];
}

/** A node that was evicted asks to be let in again by itself. Until it knows, it believes that it serves. */
async function comesBack({ nodes, report, within }: ClusterWorld, node: ClusterNode): Promise<void> {
  const hasAll = async (each: ClusterNode) => (await each.clusterSize()) === nodes.length && (await each.isSynced());
  const back = await within(joinMaxMs, async () => (await Promise.all(nodes.map(hasAll))).every((has) => has));
  report.check("a node that was evicted comes back", back, `not within ${joinMaxMs} ms`);
  if (!back) await node.join();
}

/** One node after the other is asked to end and started again, the one that is written to last. */
function nodesRestarted(world: ClusterWorld): Fault {
  return {
    name: "rolling restart of the nodes",
    excuses: ["ledger"],
    holdMs: momentary,
    inject: async () => {
      const writer = await world.writer();
      for (const node of [...world.nodes.filter((each) => each !== writer), writer]) {
        await node.server.terminate();
        await node.join();
      }
    },
    heal: () => caughtUp(world),
  };
}

/** A node whose disk is lost: another machine in its place gets everything from the others. */
function emptied(world: ClusterWorld): Fault[][] {
  const joinEmpty = async (): Promise<void> => {
    const node = await world.reader();
    await node.server.kill();
    await world.until("the node is evicted", evictedMaxMs, () => goesOnWithout(world, node));
    await node.joinEmpty?.();
  };
  if (world.nodes.some((node) => node.joinEmpty === undefined)) return [];
  return [
    [
      {
        name: "node replaced by an empty one",
        excuses: ["ledger"],
        holdMs: momentary,
        inject: joinEmpty,
        heal: () => {},
      },
    ],
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
  if (!(await world.catchesUp(world.replica)))
    throw new Error(`the replica did not catch up within ${catchUpMaxMs} ms`);
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
