import { afterAll, beforeAll, expect, test } from "vitest";
import type { Connection } from "../../src/store/connection/connection.js";
import { migrate } from "../../src/store/migrate.js";
import { groupCharactersMax, StatementGroup } from "../../src/store/statement-group.js";
import { openWriter, type Writer } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";

let writer: Writer;

beforeAll(async () => {
  const { url } = newDatabaseUrl();
  await migrate(url, createLog("silent"));
  writer = await openWriter(url);
  await (await writer.connection()).run("CREATE TABLE note (id INT PRIMARY KEY, text LONGTEXT)");
});

afterAll(() => writer?.close());

async function texts(connection: Connection): Promise<(string | undefined)[]> {
  const rows = await connection.query<{ text: string }>("SELECT text FROM note ORDER BY id");
  return rows.map(({ text }) => text);
}

test("statements of a group run in their order, and their values stay values", async () => {
  const connection = await writer.connection();
  const text = "a'; DELETE FROM note; -- \\' ? \u0000";
  await writer.transaction(async () => {
    const group = new StatementGroup(connection);
    await group.run("DELETE FROM note");
    await group.run("INSERT INTO note VALUES (?, ?)", [1, "replaced"]);
    await group.run("REPLACE INTO note VALUES (?, ?)", [1, text]);
    await group.run("INSERT INTO note VALUES (2, '?')");
    expect(await texts(connection)).toEqual([]);
    await group.send();
    await group.send();
  });
  expect(await texts(connection)).toEqual([text, "?"]);
});

test("a large group is sent on its way", async () => {
  const connection = await writer.connection();
  const large = "x".repeat(groupCharactersMax);
  const group = new StatementGroup(connection);
  await group.run("DELETE FROM note");
  await group.run("INSERT INTO note VALUES (?, ?)", [1, large]);
  expect(await texts(connection)).toEqual([large]);
});

test("a statement that fails is the last of its group, and its transaction leaves nothing", async () => {
  const connection = await writer.connection();
  await connection.run("DELETE FROM note");
  const write = async () => {
    const group = new StatementGroup(connection);
    for (const id of [1, 1, 2]) await group.run("INSERT INTO note VALUES (?, '')", [id]);
    try {
      await group.send();
    } finally {
      expect(await texts(connection)).toEqual([""]);
    }
  };
  await expect(writer.transaction(write)).rejects.toMatchObject({ code: "ER_DUP_ENTRY" });
  expect(await texts(connection)).toEqual([]);
});
