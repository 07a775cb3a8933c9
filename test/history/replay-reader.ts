import { fromBinary, fromJsonString } from "@bufbuild/protobuf";
import { expect } from "vitest";
import {
  type ReplayMarketsDepthResponse,
  ReplayMarketsDepthResponseSchema,
  MarketHistoryState as State,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { DepthBook } from "../../src/domain/depth-book.js";
import type { ResponseStream } from "../../src/domain/service.js";
import { bookText } from "../live/model-network.js";
import type { BlockAt, PastFixture } from "./past-fixture.js";

/** Folds a replay, and holds its books to the truth at the block of every message. */
export class ReplayReader {
  readonly messages: ReplayMarketsDepthResponse[] = [];
  readonly books = new Map<string, DepthBook>();
  readonly states = new Map<string, State>();
  readonly decimals = new Map<string, bigint>();
  readonly #sent = new Map<string, bigint>();
  token = "";
  caughtUp = 0;
  /** Complete messages, and those since it has caught up. */
  blocks = 0;
  liveBlocks = 0;
  place = 0n;

  constructor(
    readonly past: PastFixture,
    readonly ids: readonly string[],
  ) {}

  /** Takes what there is, and again whenever there is more, until the stream ends or `enough` says so. */
  async read(stream: ResponseStream, enough: () => boolean = () => false): Promise<void> {
    let wake: () => void = () => {};
    stream.onReady(() => wake());
    for (;;) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const responses = stream.take();
      for (const response of responses) {
        const message = fromBinary(ReplayMarketsDepthResponseSchema, response.binary());
        const json = fromJsonString(ReplayMarketsDepthResponseSchema, Buffer.from(response.json()).toString());
        expect(json).toEqual(message);
        expect(response.eventId ?? "").toBe(message.resumeToken);
        this.fold(message);
      }
      if (enough()) break;
      if (responses.length > 0) continue;
      if (stream.failure !== undefined) throw stream.failure;
      if (stream.ended) return;
      await woken;
    }
    stream.close();
  }

  fold(message: ReplayMarketsDepthResponse): void {
    this.messages.push(message);
    for (const { marketId, state, decimalPlaces } of message.status) {
      this.states.set(marketId, state);
      this.decimals.set(marketId, decimalPlaces);
      if (state === State.STALE) this.books.delete(marketId);
    }
    for (const update of message.update) {
      const { marketId, previousSequenceNumber, sequenceNumber } = update;
      if (previousSequenceNumber === 0n) this.books.set(marketId, new DepthBook(marketId));
      else expect(previousSequenceNumber, marketId).toBe(this.#sent.get(marketId));
      expect(this.books.get(marketId)?.apply(update), marketId).toBe("applied");
      this.#sent.set(marketId, sequenceNumber);
    }
    if (message.caughtUp) this.caughtUp++;
    expect(message.resumeToken !== "").toBe(message.block !== undefined);
    if (message.block === undefined) return;
    this.token = message.resumeToken;
    expect(message.block.streamSequence).toBeGreaterThanOrEqual(this.place);
    this.place = message.block.streamSequence;
    this.#check(message.block.streamSequence, message.block.height);
  }

  #check(streamSequence: bigint, height: bigint): void {
    this.blocks++;
    this.liveBlocks = this.caughtUp === 0 ? 0 : this.liveBlocks + 1;
    const block = this.past.at(streamSequence);
    expect(block?.height).toBe(height);
    const next = this.past.blocks[this.past.blocks.indexOf(block as BlockAt) + 1];
    for (const [id, market] of block?.markets ?? []) {
      if (this.ids.length > 0 && !this.ids.includes(id)) continue;
      const where = `${id} at block ${height}`;
      if (next?.markets.get(id)?.state === "unkept" && this.states.get(id) === State.STALE) continue;
      if (market.state !== "whole" || streamSequence < this.past.prunedBefore) {
        if (market.state === "stale") expect(this.states.get(id), where).toBe(State.STALE);
        continue;
      }
      const book = this.books.get(id);
      expect(book?.sequenceNumber, where).toBe(market.number);
      expect(book && bookText(book), where).toEqual(market.book);
      expect(this.decimals.get(id), where).toBe(market.decimals);
    }
  }
}
