import { setTimeout as sleep } from "node:timers/promises";
import { fromJsonString } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GetLatestMarketDepthResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { RawConnection } from "../support/raw-http.js";
import { MarketFixture } from "./market-fixture.js";
import { startTestService, type TestService } from "./service.js";

let fixture: MarketFixture;
let service: TestService;

beforeAll(async () => {
  fixture = await MarketFixture.create();
  await fixture.add({ announce: ["m"], levels: [{ marketId: "m", side: 1, price: "1000", volume: 1n }] });
  service = await startTestService(fixture.url);
});

afterAll(async () => {
  await service?.drain();
  await fixture?.drop();
});

const blocks = 60;
let adding = true;

/** Asks for a book on one connection until it has seen the last block; every response has to be a book that there was. */
async function poll(conditional: boolean): Promise<{ readonly books: number; readonly notModified: number }> {
  const connection = await RawConnection.open(Number(new URL(service.url).port));
  const seen = { books: 0, notModified: 0 };
  let etag = "";
  let last = 0n;
  while (seen.books === 0 || last < (fixture.network.depth("m")?.sequenceNumber ?? 0n) || adding) {
    const condition = conditional && etag !== "" ? `If-None-Match: ${etag}\r\n` : "";
    const reply = await connection.ask(`GET /api/v2/market/depth/m/latest HTTP/1.1\r\nHost: x\r\n${condition}\r\n`);
    etag = /^etag: (.*)\r$/m.exec(reply.head)?.[1] ?? "";
    if (reply.status === 304) {
      seen.notModified++;
      await sleep(1);
      continue;
    }
    const { sequenceNumber, buy } = fromJsonString(GetLatestMarketDepthResponseSchema, reply.body);
    expect(sequenceNumber).toBeGreaterThanOrEqual(last);
    const levels = buy.map(({ price, volume, numberOfOrders }) => `${price} ${volume} ${numberOfOrders}`);
    expect(levels).toEqual(fixture.network.at("m", sequenceNumber)?.buy);
    last = sequenceNumber;
    seen.books++;
  }
  connection.close();
  return seen;
}

async function add(): Promise<void> {
  for (let block = 1; block <= blocks; block++) {
    await fixture.add({
      levels: [{ marketId: "m", side: 1, price: String(1000 + (block % 7)), volume: BigInt(block) }],
    });
    await sleep(block % 10 === 0 ? 60 : 5);
  }
  adding = false;
}

test("who asks for a book over and over, with a condition or without, sees each change", async () => {
  const [plain, conditional] = await Promise.all([poll(false), poll(true), add()]);
  expect(plain.books).toBeGreaterThan(blocks / 2);
  expect(conditional.books).toBeGreaterThan(blocks / 4);
  expect(conditional.notModified).toBeGreaterThan(blocks / 4);
});
