import { describe, expect, it } from "vitest";
import { dayAfter, dayOf, dayText, rangeOf, withDay } from "../../web/accounts/account-range.js";
import { balanceHistory, balanceRows } from "../../web/accounts/balances.js";
import { axisTime } from "../../web/format/axis-text.js";
import { linkedTime, shortTime, typedTime } from "../../web/format/time-text.js";

const account = (balance: string, type = "GENERAL", marketId = "") => {
  return { owner: "p", asset: "a", marketId, type, balance };
};
const change = (timestamp: string, balance: string, accountType = "GENERAL") => {
  return { timestamp, balance, partyId: "p", assetId: "a", accountType };
};

describe("the history of accounts", () => {
  it("adds up what they hold together, and tells what each change moved", () => {
    const start = [account("10"), account("5", "BOND", "m")];
    const changes = [change("1", "7"), change("1", "3", "MARGIN"), change("2", "9"), change("3", "0", "MARGIN")];
    expect(balanceHistory(start, changes)).toEqual({
      first: 15n,
      steps: [
        { timestamp: "1", total: 15n },
        { timestamp: "2", total: 17n },
        { timestamp: "3", total: 14n },
      ],
      moves: [-3n, 3n, 2n, -3n],
    });
  });

  it("is exact for balances that no floating-point number holds", () => {
    const balance = String(10n ** 77n + 1n);
    expect(balanceHistory([], [change("1", balance)]).steps).toEqual([{ timestamp: "1", total: BigInt(balance) }]);
  });

  it("has a row for each account that is in any list, with nothing where it was not named yet", () => {
    const rows = balanceRows([[account("1")], [account("2"), account("3", "MARGIN", "m")]]);
    expect(rows.map(({ account: { type }, balances }) => [type, balances])).toEqual([
      ["GENERAL", [1n, 2n]],
      ["MARGIN", [0n, 3n]],
    ]);
  });
});

describe("the times of an account's URL", () => {
  it("are UTC or nanoseconds, and may be a day", () => {
    const url = withDay(new URLSearchParams("filter.partyIds=p&pagination.first=5&asOf=1"), "2024-02-29");
    expect(String(url)).toBe("filter.partyIds=p&dateRange.startTimestamp=2024-02-29&dateRange.endTimestamp=2024-03-01");
    for (const [name, text] of [...url]) if (name.startsWith("dateRange.")) url.set(name, linkedTime(text));
    const range = rangeOf(url);
    expect(range).toEqual({ startNs: 1_709_164_800_000_000_000n, endNs: 1_709_251_200_000_000_000n });
    expect(dayOf(range)).toBe("2024-02-29");
    expect(dayText("2024-02-29")).toBe("Thursday, 2024-02-29");
    expect([dayAfter("2024-03-01", -1), dayAfter("2023-12-31", 1)]).toEqual(["2024-02-29", "2024-01-01"]);
    expect(dayOf({ startNs: 1n, endNs: 86_400_000_000_001n })).toBe(undefined);
    expect(dayOf({ startNs: undefined, endNs: 86_400_000_000_000n })).toBe(undefined);
  });

  it.each([
    ["soon", /^"soon" is no time; one looks like 2024-01-31 12:00:00\.5/],
    ["1969-12-31 23:59:59", /^"1969-.*" is out of range: times are from 1970-01-01 to 2262-04-11 23:47:16\.854775807$/],
    ["9999-01-01", /^"9999-01-01" is out of range/],
    ["9223372036854775808", /^"9223372036854775808" is out of range/],
  ])("say what is wrong with %s", (text, message) => {
    expect(() => linkedTime(text)).toThrow(message);
    expect(() => typedTime(text)).toThrow(message);
  });

  it("may be numbers however short, which a reader cannot type", () => {
    expect([linkedTime("0"), linkedTime("20000")]).toEqual(["0", "20000"]);
    expect(() => typedTime("1706527000")).toThrow('"1706527000" is no time');
  });

  it.each([
    [0n, "1970-01-01 00:00"],
    [1_706_572_800_000_000_000n, "2024-01-30 00:00"],
    [1_706_572_810_000_000_000n, "2024-01-30 00:00:10"],
    [1_706_572_800_500_000_000n, "2024-01-30 00:00:00.5"],
  ])("%s is short: %s", (timeNs, text) => {
    expect(shortTime(timeNs)).toBe(text);
  });
});

describe("a time of an axis", () => {
  it.each([
    [60, 3_600, "00:00:10"],
    [7_200, 172_800, "01-30 00:00"],
    [86_400, 864_000, "2024-01-30"],
  ])("with steps of %i s over %i s is %s", (step, length, text) => {
    expect(axisTime(1_706_572_810, step, length)).toBe(text);
  });
});
