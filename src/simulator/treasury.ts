import { AccountType, Side, TransferType } from "../../gen/vega/vega_pb.js";
import type { Asset } from "./asset.js";
import { type Account, amountMax, type Ledger, type Transfer } from "./ledger.js";
import type { Random } from "./random.js";
import { type Deal, networkParty, type SimulatedMarket } from "./simulated-market.js";

const rewardTypes = [
  AccountType.REWARD_MAKER_PAID_FEES,
  AccountType.REWARD_MAKER_RECEIVED_FEES,
  AccountType.REWARD_LP_RECEIVED_FEES,
  AccountType.REWARD_MARKET_PROPOSERS,
  AccountType.GLOBAL_REWARD,
] as const;

/** Moves the money of the simulated network. Amounts follow from trades, or are random. */
export class Treasury {
  readonly #random: Random;
  readonly #ledger: Ledger;
  readonly #parties: readonly string[];
  readonly #provider: string;
  /** Total deposits of each asset, so that no balance exceeds 256 bits. */
  readonly #supply = new Map<string, bigint>();

  constructor(random: Random, ledger: Ledger, parties: readonly string[], provider: string) {
    this.#random = random;
    this.#ledger = ledger;
    this.#parties = parties;
    this.#provider = provider;
  }

  /** The network starts from a checkpoint, which restores the provider's balance. */
  restore(asset: Asset): void {
    const to = this.#general(asset, this.#provider);
    this.#supply.set(asset.id, asset.endowment);
    this.#move(this.#external(asset), to, asset.endowment, TransferType.CHECKPOINT_BALANCE_RESTORE);
  }

  deposit(asset: Asset, party: string): void {
    const amount = asset.deposit + BigInt(this.#random.u32());
    const supply = (this.#supply.get(asset.id) ?? 0n) + amount;
    if (supply > amountMax) return;
    this.#supply.set(asset.id, supply);
    this.#move(this.#external(asset), this.#general(asset, party), amount, TransferType.DEPOSIT);
  }

  withdraw(asset: Asset, party: string): void {
    const from = this.#general(asset, party);
    this.#move(from, this.#external(asset), from.balance / 20n, TransferType.WITHDRAW);
  }

  /** The provider commits to a market; later it changes its commitment, or is fined. */
  bond(market: SimulatedMarket): void {
    const general = this.#general(market.asset, this.#provider);
    const bond = this.#account(market, AccountType.BOND, this.#provider);
    const drawn = this.#random.below(4);
    if (bond.balance === 0n || drawn < 2) {
      this.#move(general, bond, market.asset.endowment / 1_000n, TransferType.BOND_LOW);
    } else if (drawn === 2) {
      this.#move(bond, general, bond.balance / 3n, TransferType.BOND_HIGH);
    } else {
      const insurance = this.#account(market, AccountType.INSURANCE);
      this.#move(bond, insurance, bond.balance / 50n, TransferType.BOND_SLASHING);
    }
  }

  /** Fees and margins of the trades since the last call. */
  settleDeals(market: SimulatedMarket): void {
    const { deals } = market;
    market.deals = [];
    const traders = new Set<string>();
    for (const deal of deals) {
      this.#fees(market, deal);
      traders.add(deal.buyer).add(deal.seller);
    }
    for (const trader of traders) if (trader !== networkParty) this.#margin(market, trader);
  }

  /** Marks to market: losers pay winners, and nothing remains in between. */
  markToMarket(market: SimulatedMarket): void {
    const price = market.lastTradedPrice;
    const change = price - market.markPrice;
    market.markPrice = price;
    if (change === 0 || market.positions.size === 0) return;
    const types = { loss: TransferType.MTM_LOSS, win: TransferType.MTM_WIN };
    this.#settle(market, change, types);
    for (const party of market.positions.keys()) {
      if (party !== networkParty && this.#random.chance(0.2)) this.#margin(market, party);
    }
  }

  /** Ends a market: final settlement, then its accounts are emptied. */
  close(market: SimulatedMarket): void {
    const settlement = market.fairPrice;
    this.#settle(market, settlement - market.markPrice, { loss: TransferType.LOSS, win: TransferType.WIN });
    for (const party of [...market.positions.keys(), this.#provider]) {
      if (party === networkParty) continue;
      for (const type of [AccountType.MARGIN, AccountType.BOND]) {
        const account = this.#account(market, type, party);
        if (account.balance === 0n) continue;
        this.#move(account, this.#general(market.asset, party), account.balance, TransferType.CLEAR_ACCOUNT);
      }
    }
    const insurance = this.#account(market, AccountType.INSURANCE);
    const global = this.#ledger.account(market.asset.id, AccountType.GLOBAL_INSURANCE);
    this.#move(insurance, global, insurance.balance, TransferType.CLEAR_ACCOUNT);
    market.positions.clear();
  }

  /** Distributes the fees of a market. */
  distributeFees(market: SimulatedMarket): void {
    const { asset } = market;
    const liquidity = this.#account(market, AccountType.FEES_LIQUIDITY);
    const provider = this.#general(asset, this.#provider);
    this.#move(liquidity, provider, liquidity.balance, TransferType.LIQUIDITY_FEE_DISTRIBUTE);
  }

  /** The end of an epoch: infrastructure fees go to validators, rewards to the parties that earned them. */
  endEpoch(asset: Asset, market: SimulatedMarket): void {
    const infrastructure = this.#ledger.account(asset.id, AccountType.FEES_INFRASTRUCTURE);
    const share = infrastructure.balance / 3n;
    const shares = [this.#party(), this.#party(), this.#party()].map((party) => ({
      from: infrastructure,
      to: this.#general(asset, party),
      amount: share,
      type: TransferType.INFRASTRUCTURE_FEE_DISTRIBUTE,
    }));
    this.#ledger.move(...shares);
    for (const type of rewardTypes) {
      const reward = this.#reward(asset, type, market);
      if (reward.balance === 0n) continue;
      const to = this.#general(asset, this.#party());
      this.#move(reward, to, reward.balance / 2n, TransferType.REWARD_PAYOUT);
    }
  }

  /** A party transfers to others, or to a reward pool, through the pending transfers. */
  transferFunds(asset: Asset, market: SimulatedMarket): void {
    const from = this.#general(asset, this.#party());
    const pending = this.#ledger.account(asset.id, AccountType.PENDING_TRANSFERS);
    const type = this.#random.pick(rewardTypes);
    const to = this.#random.chance(0.3) ? this.#general(asset, this.#party()) : this.#reward(asset, type, market);
    const amount = from.balance / 100n;
    this.#ledger.move(
      { from, to: pending, amount, type: TransferType.TRANSFER_FUNDS_SEND },
      { from: pending, to, amount, type: TransferType.TRANSFER_FUNDS_DISTRIBUTE },
    );
  }

  /** A party loses its margin. */
  confiscate(market: SimulatedMarket): void {
    const margin = this.#account(market, AccountType.MARGIN, this.#party());
    const insurance = this.#account(market, AccountType.INSURANCE);
    this.#move(margin, insurance, margin.balance, TransferType.MARGIN_CONFISCATED);
  }

  #fees(market: SimulatedMarket, deal: Deal): void {
    if (deal.aggressor === undefined) return;
    const [payer, maker] = deal.aggressor === Side.BUY ? [deal.buyer, deal.seller] : [deal.seller, deal.buyer];
    const from = this.#general(market.asset, payer);
    const makerFees = this.#account(market, AccountType.FEES_MAKER);
    const infrastructure = this.#ledger.account(market.asset.id, AccountType.FEES_INFRASTRUCTURE);
    const liquidity = this.#account(market, AccountType.FEES_LIQUIDITY);
    const { fees } = deal;
    this.#ledger.move(
      { from, to: makerFees, amount: fees.maker, type: TransferType.MAKER_FEE_PAY },
      { from, to: infrastructure, amount: fees.infrastructure, type: TransferType.INFRASTRUCTURE_FEE_PAY },
      { from, to: liquidity, amount: fees.liquidity, type: TransferType.LIQUIDITY_FEE_PAY },
      {
        from: makerFees,
        to: this.#general(market.asset, maker),
        amount: fees.maker,
        type: TransferType.MAKER_FEE_RECEIVE,
      },
    );
  }

  /** Adjusts a margin to the position: more from the general account, or the excess back to it. */
  #margin(market: SimulatedMarket, party: string): void {
    const position = Math.abs(market.positions.get(party) ?? 0);
    const needed = (BigInt(position) * BigInt(market.lastTradedPrice) * market.asset.unit) / 10n;
    const margin = this.#account(market, AccountType.MARGIN, party);
    const general = this.#general(market.asset, party);
    if (margin.balance < needed) {
      const missing = (needed * 6n) / 5n - margin.balance;
      if (general.balance < missing) this.deposit(market.asset, party);
      this.#move(general, margin, missing, TransferType.MARGIN_LOW);
    } else if (margin.balance > (needed * 7n) / 5n) {
      this.#move(margin, general, margin.balance - needed, TransferType.MARGIN_HIGH);
    }
  }

  /** Losers pay into the settlement account from margin, general account and insurance; winners share it. */
  #settle(market: SimulatedMarket, change: number, types: { loss: TransferType; win: TransferType }): void {
    const settlement = this.#account(market, AccountType.SETTLEMENT);
    const insurance = this.#account(market, AccountType.INSURANCE);
    const winners: { party: string; gain: number }[] = [];
    const losses: Transfer[] = [];
    for (const [party, position] of market.positions) {
      const gain = position * change;
      if (gain > 0) winners.push({ party, gain });
      if (gain >= 0) continue;
      const amount = BigInt(-gain) * market.asset.unit;
      const from = party === networkParty ? insurance : this.#account(market, AccountType.MARGIN, party);
      losses.push({ from, to: settlement, amount, type: types.loss });
      if (from.balance < amount && party !== networkParty) {
        const missing = amount - from.balance;
        losses.push({ from: this.#general(market.asset, party), to: settlement, amount: missing, type: types.loss });
      }
    }
    if (losses.length > 0) this.#ledger.move(...losses);
    const total = BigInt(winners.reduce((sum, each) => sum + each.gain, 0));
    const collected = settlement.balance;
    const wins = winners.map(({ party, gain }, index) => {
      const isNetwork = party === networkParty;
      const last = index === winners.length - 1;
      return {
        from: settlement,
        to: isNetwork ? insurance : this.#account(market, AccountType.MARGIN, party),
        amount: last ? collected : (collected * BigInt(gain)) / total,
        type: types.win,
      };
    });
    if (wins.length > 0) this.#ledger.move(...wins);
  }

  #move(from: Account, to: Account, amount: bigint, type: TransferType): void {
    this.#ledger.move({ from, to, amount, type });
  }

  #party(): string {
    return this.#random.pick(this.#parties);
  }

  #external(asset: Asset): Account {
    return this.#ledger.account(asset.id, AccountType.EXTERNAL);
  }

  #general(asset: Asset, party: string): Account {
    return this.#ledger.account(asset.id, AccountType.GENERAL, party);
  }

  #account(market: SimulatedMarket, type: AccountType, owner?: string): Account {
    return this.#ledger.account(market.asset.id, type, owner, market.id);
  }

  #reward(asset: Asset, type: AccountType, market: SimulatedMarket): Account {
    const ofMarket = type !== AccountType.GLOBAL_REWARD && market.asset.id === asset.id;
    return this.#ledger.account(asset.id, type, undefined, ofMarket ? market.id : undefined);
  }
}
