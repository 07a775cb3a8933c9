import { Market_State, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import { type Asset, assetLife, type MarketProfile, makeAssets } from "./asset.js";
import { BlockWriter, eventKinds } from "./block-writer.js";
import { BulkLedger } from "./bulk-ledger.js";
import { Ledger } from "./ledger.js";
import { type LiquidityShare, marketData } from "./market-data.js";
import { marketDefinition } from "./market-definition.js";
import { realisticMarket, variedMarket } from "./market-kind.js";
import { live } from "./market-life.js";
import { announcementHeight, hasMarketData, isTrading } from "./market-role.js";
import { OrderFlow } from "./order-flow.js";
import { Random } from "./random.js";
import { Signers } from "./signers.js";
import { type Block, SimulatedMarket } from "./simulated-market.js";
import { Treasury } from "./treasury.js";

/** What the network is like. The same options give the same bytes. */
export interface NetworkOptions {
  readonly seed: number;
  readonly markets: number;
  /** Default: `varied`. */
  readonly profile?: MarketProfile;
  readonly parties: number;
  /** What parties do with orders in a block, on average; an action makes one or more order events. */
  readonly ordersPerBlock: number;
  /** Further ledger entries in a block, see {@link BulkLedger}. */
  readonly entriesPerBlock: number;
  /** Blocks that will be made, where that is known: the first twentieth of them is the past of the bulk ledger. */
  readonly blocks?: number;
  /** Default: a name made from the seed. */
  readonly chainId?: string;
  /** Time of the first block, about. Default: a moment in 2024. */
  readonly startTimeNs?: bigint;
  /** Time between blocks, on average. Default: a second. */
  readonly blockIntervalNs?: bigint;
}

/** What `simulate` and `demo` use where nothing else is asked for. */
export const networkDefaults = { markets: 12, parties: 50, ordersPerBlock: 20, entriesPerBlock: 10, seed: 1 } as const;

/** Parties that trade; more than these only appear in the bulk ledger. */
export const tradingPartiesMax = 200;
const epochBlocks = 20;
const markToMarketBlocks = 5;
const marketUpdateBlocks = 97;
/** A market whose data did not change states it again this often. */
const marketDataBlocks = 10;
const signerRemovalBlocks = 50;
const signerAdditionBlocks = 75;
const defaultStartTimeNs = 1_704_067_200_123_456_789n;
const defaultIntervalNs = 1_000_000_000n;
/** The length of the past of the bulk ledger where the number of blocks is not known. */
const pastHeightDefault = 100;

/** A small trading network. Each call of {@link Network.nextBlock} gives the frames of one more block. */
export class Network {
  readonly chainId: string;
  readonly #options: NetworkOptions;
  readonly #writer: BlockWriter;
  readonly #random: Random;
  readonly #clock: Random;
  readonly #ledger = new Ledger();
  readonly #assets: Asset[];
  readonly #markets: SimulatedMarket[];
  readonly #shares: readonly LiquidityShare[];
  readonly #parties: readonly string[];
  readonly #flow: OrderFlow;
  readonly #treasury: Treasury;
  readonly #signers: Signers;
  readonly #bulk: BulkLedger;
  #height = 0;
  #redefines = false;
  #timeNs: bigint;
  readonly #intervalNs: bigint;

  constructor(options: NetworkOptions) {
    const { seed } = options;
    this.#options = options;
    this.chainId = options.chainId ?? `simulated-${seed}`;
    this.#timeNs = options.startTimeNs ?? defaultStartTimeNs;
    this.#intervalNs = options.blockIntervalNs ?? defaultIntervalNs;
    this.#writer = new BlockWriter(this.chainId);
    this.#random = new Random(seed, "network");
    this.#clock = new Random(seed, "clock");
    const names = new Random(seed, "parties");
    this.#parties = Array.from({ length: Math.min(options.parties, tradingPartiesMax) }, () => names.identifier());
    const [provider, secondProvider] = [names.identifier(), names.identifier()];
    this.#shares = [
      { party: provider, hundredths: 62 },
      { party: secondProvider, hundredths: 38 },
    ];
    const profile = options.profile ?? "varied";
    this.#assets = makeAssets(new Random(seed, "assets"), profile);
    const markets = new Random(seed, "markets");
    this.#markets = Array.from({ length: options.markets }, (_, index) => this.#makeMarket(markets, index, profile));
    this.#flow = new OrderFlow(new Random(seed, "orders"), this.#parties, provider);
    this.#treasury = new Treasury(new Random(seed, "treasury"), this.#ledger, this.#parties, provider);
    this.#signers = new Signers(new Random(seed, "signers"));
    this.#bulk = new BulkLedger(new Random(seed, "bulk"), {
      parties: options.parties,
      marketIds: this.#markets.map((market) => market.id),
      pastHeight: options.blocks === undefined ? pastHeightDefault : Math.max(1, Math.floor(options.blocks / 20)),
    });
  }

  /** Height of the last block made; 0 before the first. */
  get height(): number {
    return this.#height;
  }

  /** Stream sequence number of the last event made. */
  get streamSequence(): bigint {
    return this.#writer.sequence;
  }

  /**
   * Makes the next block. What happens in it does not depend on its time, so that a network that is made again with
   * other times has the same events.
   * @param timeNs the block's time, where the caller has a clock; never before the last block's
   */
  nextBlock(timeNs?: bigint): Uint8Array {
    this.#height += 1;
    // From half to one and a half of the usual time, to the nanosecond.
    const jitter = (this.#intervalNs * BigInt(500_000_000 + this.#clock.below(1_000_000_000))) / 1_000_000_000n;
    const next = timeNs ?? this.#timeNs + jitter;
    this.#timeNs = next > this.#timeNs ? next : this.#timeNs + 1n;
    const writer = this.#writer;
    const block: Block = { height: this.#height, timeNs: this.#timeNs, intervalNs: this.#intervalNs, writer };
    this.#ledger.begin(block.timeNs);
    writer.begin(block.height, block.timeNs, this.#random.hex(32));
    writer.event(eventKinds.timeUpdate, { timestamp: block.timeNs });
    this.#signers.signLate(block);
    this.#announce(block);
    this.#fund(block);
    this.#trade(block);
    this.#account(block);
    this.#govern(block);
    this.#publish(block);
    this.#bulk.write(writer, block.height, block.timeNs, this.#options.entriesPerBlock);
    return writer.end();
  }

  /** Has the next block announce another number of decimals of the busiest market's prices; its numbers go on. */
  redefine(): void {
    this.#redefines = true;
  }

  /** Makes blocks up to this height and forgets them: a database that holds them can then be continued. */
  skipTo(height: number): void {
    while (this.#height < height) this.nextBlock();
  }

  #makeMarket(random: Random, index: number, profile: MarketProfile): SimulatedMarket {
    const kind = (profile === "realistic" ? realisticMarket : variedMarket)(index, this.#assets);
    const definition = marketDefinition(random, random.identifier(), index, kind, this.#timeNs);
    return new SimulatedMarket(definition, kind, random);
  }

  /** New markets, and what becomes of those that are there. */
  #announce(block: Block): void {
    if (block.height === 1) this.#announceAssets(block);
    for (const market of this.#markets) {
      const announced = market.role === "later" ? announcementHeight : 1;
      if (block.height === announced) block.writer.event(eventKinds.marketCreated, market.definition);
      if (block.height <= announced) continue;
      live(market, block, this.#treasury);
      market.expire(block);
    }
    if (this.#redefines) this.#redefineBusiest(block);
    const market = this.#random.pick(this.#markets);
    if (block.height % marketUpdateBlocks === 0 && market.definition.state === Market_State.ACTIVE) {
      const factor = this.#random.between(5, 9);
      market.definition.lpPriceRange = `0.${factor}`;
      market.update(block, market.definition.state, market.definition.tradingMode);
    }
  }

  #announceAssets(block: Block): void {
    const bulk = this.#options.entriesPerBlock > 0 ? this.#bulk.assets : [];
    for (const [index, asset] of [...this.#assets, ...bulk].entries()) {
      for (const state of assetLife(asset, index)) block.writer.event(eventKinds.asset, state);
    }
  }

  #redefineBusiest(block: Block): void {
    const market = this.#markets.find(({ role, isOpen }) => isTrading(role) && isOpen);
    if (market === undefined) return;
    this.#redefines = false;
    const { definition } = market;
    definition.decimalPlaces += definition.decimalPlaces % 2n === 0n ? 1n : -1n;
    market.update(block, definition.state, definition.tradingMode);
  }

  #fund(block: Block): void {
    for (const asset of this.#assets) {
      if (block.height === 1) this.#treasury.restore(asset);
      if (block.height === 2) for (const party of this.#parties) this.#treasury.deposit(asset, party);
    }
    this.#flush(block);
  }

  #trade(block: Block): void {
    const open = this.#markets.filter((market) => isTrading(market.role) && market.isOpen);
    if (open.length === 0) return;
    if (this.#options.ordersPerBlock > 0) {
      for (const market of open) {
        this.#flow.drift(market);
        this.#flow.provide(market, block);
      }
    }
    const usual = this.#options.ordersPerBlock;
    const count = this.#random.between(Math.ceil(usual / 2), Math.floor((usual * 3) / 2));
    for (let i = 0; i < count; i++) {
      // The first markets are the busiest.
      const market = open[this.#random.below(1 + this.#random.below(open.length))];
      if (market === undefined) continue;
      this.#flow.act(market, block);
      if (this.#random.chance(0.05)) this.#state(market, block);
    }
    for (const market of open) market.repricePegged(block);
  }

  /** Fees, margins and the settlement of price changes. */
  #account(block: Block): void {
    for (const [index, market] of this.#markets.entries()) {
      if (market.deals.length > 0) this.#treasury.settleDeals(market);
      if ((block.height + index) % markToMarketBlocks === 0 && market.auction === undefined && market.isOpen) {
        this.#treasury.markToMarket(market);
      }
    }
    this.#flush(block);
  }

  /** What happens beside the trading. */
  #govern(block: Block): void {
    const epoch = BigInt(Math.floor(block.height / epochBlocks) + 1);
    const trading = this.#markets.filter((each) => isTrading(each.role) && each.isOpen);
    const random = this.#random;
    if (trading.length > 0) {
      const market = random.pick(trading);
      const asset = random.pick(this.#assets);
      if (random.chance(0.3)) this.#treasury.transferFunds(asset, random.pick(trading));
      if (random.chance(0.1)) this.#treasury.bond(market);
      if (random.chance(0.1)) this.#treasury.withdraw(asset, random.pick(this.#parties));
      if (random.chance(0.05)) this.#treasury.confiscate(market);
      if (random.chance(0.2)) this.#treasury.distributeFees(market);
      if (block.height % epochBlocks === 0) {
        for (const each of this.#assets) this.#treasury.endEpoch(each, market);
      }
    }
    if (block.height % epochBlocks === 0) {
      block.writer.epochStart(epoch, block.timeNs, block.timeNs + BigInt(epochBlocks) * block.intervalNs);
    }
    if (block.height % signerRemovalBlocks === 3) this.#signers.remove(block, epoch);
    if (block.height % signerAdditionBlocks === 4) this.#signers.add(block, epoch);
    this.#flush(block);
  }

  #publish(block: Block): void {
    for (const [index, market] of this.#markets.entries()) {
      const due = market.touched || (block.height + index) % marketDataBlocks === 0;
      if (due) this.#state(market, block);
      market.touched = false;
    }
  }

  #state(market: SimulatedMarket, block: Block): void {
    const announced = market.definition.state !== Market_State.PROPOSED;
    if (!announced || !hasMarketData(market.role)) return;
    block.writer.event(eventKinds.marketData, marketData(market, block, this.#shares));
    if (market.definition.tradingMode === Market_TradingMode.CONTINUOUS)
      block.writer.marketTick(market.id, block.timeNs);
  }

  #flush(block: Block): void {
    const ledgerMovements = this.#ledger.take();
    if (ledgerMovements.length > 0) block.writer.event(eventKinds.ledgerMovements, { ledgerMovements });
  }
}

/** A whole recording, block by block. */
export function* simulate(
  options: NetworkOptions & { readonly blocks: number },
): Generator<Uint8Array, void, undefined> {
  const network = new Network(options);
  while (network.height < options.blocks) yield network.nextBlock();
}
