import { describe, expect, test } from "vitest";
import type { Pagination } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { bundleCursors, encodeCursor, numberCursors } from "../../src/domain/cursor.js";
import { readDateRange } from "../../src/domain/date-range.js";
import { Failure } from "../../src/domain/failure.js";
import { pageSizeDefault, pageSizeMax, readPagination } from "../../src/domain/page.js";

function pagination(fields: Omit<Pagination, "$typeName" | "$unknown">): Pagination {
  return { $typeName: "datanode.api.v2.Pagination", ...fields };
}

function failureOf(act: () => unknown): Failure {
  try {
    act();
  } catch (error) {
    if (error instanceof Failure) return error;
  }
  throw new Error("no failure");
}

const cursors = numberCursors("ledger");
const cursor = cursors.encode(77n);
const combined = "page forwards with first and after, or backwards with last and before";

describe("pagination", () => {
  test.each<[Omit<Pagination, "$typeName" | "$unknown">, string]>([
    [{ first: 1, last: 1 }, `pagination.last: cannot be combined with pagination.first; ${combined}`],
    [{ after: cursor, before: cursor }, `pagination.before: cannot be combined with pagination.after; ${combined}`],
    [{ first: 1, before: cursor }, `pagination.before: cannot be combined with pagination.first; ${combined}`],
    [{ last: 1, after: cursor }, `pagination.after: cannot be combined with pagination.last; ${combined}`],
    [{ first: 0 }, "pagination.first: is 0; it takes a number from 1"],
    [{ last: -5 }, "pagination.last: is -5; it takes a number from 1"],
    [{ after: "nonsense" }, "pagination.after: is not a cursor; take it from an earlier response, unchanged"],
    [{ after: `${cursor}=` }, "pagination.after: is not a cursor; take it from an earlier response, unchanged"],
    [{ before: "x".repeat(600) }, "pagination.before: is not a cursor; take it from an earlier response, unchanged"],
    [
      { after: encodeCursor("ledger", new Uint8Array(3)) },
      "pagination.after: is not a cursor; take it from an earlier response, unchanged",
    ],
    [
      { before: bundleCursors.encode({ timeNs: 1n, signatureId: "a" }) },
      "pagination.before: is a cursor of another list (bundles); this list is ledger",
    ],
  ])("%j is refused", (fields, message) => {
    const failure = failureOf(() => readPagination(pagination(fields), cursors.decode));
    expect([failure.code, failure.message]).toEqual(["invalid_argument", message]);
    expect(failure.violations[0]?.field).toBe(message.slice(0, message.indexOf(":")));
  });

  test.each<[Omit<Pagination, "$typeName" | "$unknown"> | undefined, object]>([
    [undefined, { newestFirst: true, size: pageSizeDefault, backwards: false, cursor: undefined }],
    [
      { first: 9999, newestFirst: false },
      { newestFirst: false, size: pageSizeMax, backwards: false, cursor: undefined },
    ],
    [{ last: 3 }, { newestFirst: true, size: 3, backwards: true, cursor: undefined }],
    [{ after: cursor }, { newestFirst: true, size: pageSizeDefault, backwards: false, cursor: 77n }],
    [{ before: cursor }, { newestFirst: true, size: pageSizeDefault, backwards: true, cursor: 77n }],
    [
      { first: 2, after: "", before: "" },
      { newestFirst: true, size: 2, backwards: false, cursor: undefined },
    ],
  ])("%j is read", (fields, expected) => {
    expect(readPagination(fields && pagination(fields), cursors.decode)).toEqual(expected);
  });
});

describe("cursors", () => {
  test("come back as they went, and are URL-safe", () => {
    for (const id of [0n, 1n, 2n ** 32n, 2n ** 63n - 1n]) {
      expect(cursors.encode(id)).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(cursors.decode("after", cursors.encode(id))).toBe(id);
    }
    const place = { timeNs: -5n, signatureId: "~ab/+" };
    expect(bundleCursors.decode("after", bundleCursors.encode(place))).toEqual(place);
  });

  test("one wrong character is noticed, wherever it is", () => {
    const text = cursors.encode(123_456_789n);
    for (let i = 0; i < text.length; i++) {
      const other = text[i] === "A" ? "B" : "A";
      const failure = failureOf(() => cursors.decode("after", text.slice(0, i) + other + text.slice(i + 1)));
      expect(failure.reason).toBe("INVALID_CURSOR");
    }
  });
});

test("a range that ends before it starts is refused", () => {
  const range = { $typeName: "datanode.api.v2.DateRange" as const, startTimestamp: 2n, endTimestamp: 1n };
  expect(failureOf(() => readDateRange(range)).message).toBe(
    "date_range.start_timestamp: is 2, after date_range.end_timestamp, which is 1",
  );
  expect(readDateRange({ ...range, endTimestamp: 2n })).toEqual({ startNs: 2n, endNs: 2n });
});
