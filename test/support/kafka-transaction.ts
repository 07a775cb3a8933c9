import { setTimeout as sleep } from "node:timers/promises";
import {
  addPartitionsToTxnV5,
  Connection,
  endTxnV4,
  FindCoordinatorKeyTypes,
  findCoordinatorV6,
  initProducerIdV5,
  NumericMap,
  produceV11,
} from "@platformatic/kafka";

const transactionMsMax = 60_000;
const coordinatorMsMax = 20_000;

/** A producer's transaction, of one batch of messages. */
export interface Transaction {
  end(isCommitted: boolean): Promise<void>;
}

/** Begins a transaction, and produces messages in it to partition 0 of a topic. @param id is used once */
export async function openTransaction(
  address: string,
  id: string,
  topic: string,
  values: readonly Buffer[],
): Promise<Transaction> {
  const [host = "", port] = address.split(":");
  const connection = new Connection("transactions");
  await connection.connect(host, Number(port));
  const { producerId, producerEpoch } = await retried(async () => {
    await findCoordinatorV6.api.async(connection, FindCoordinatorKeyTypes.TRANSACTION, [id]);
    return initProducerIdV5.api.async(connection, id, transactionMsMax, -1n, -1);
  });
  const topics = [{ name: topic, partitions: [0] }];
  const opened = { transactionalId: id, producerId, producerEpoch, verifyOnly: false, topics };
  await addPartitionsToTxnV5.api.async(connection, [opened]);
  const timestamp = BigInt(Date.now());
  const messages = values.map((value) => ({ topic, partition: 0, value, timestamp, headers: new Map() }));
  const producer = { transactionalId: id, producerId, producerEpoch, sequences: new NumericMap() };
  await produceV11.api.async(connection, -1, transactionMsMax, messages, producer);
  return {
    end: async (isCommitted) => {
      await endTxnV4.api.async(connection, id, producerId, producerEpoch, isCommitted);
      await connection.close();
    },
  };
}

/** The topic of the coordinator is created when it is first asked for, and takes a while to be ready. */
async function retried<T>(work: () => Promise<T>): Promise<T> {
  const untilMs = performance.now() + coordinatorMsMax;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() > untilMs) throw error;
    }
    await sleep(100);
  }
}
