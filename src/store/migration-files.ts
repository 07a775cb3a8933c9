import { hash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** One numbered change of the schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** Whether programs without this migration keep working (`.add.` in the file name). */
  readonly compatible?: boolean;
  /** SHA-256 of the file, hexadecimal. */
  readonly checksum: string;
  readonly statements: readonly string[];
}

const fileName = /^(\d{3})\.(do|add)\.([a-z0-9-]+)\.sql$/;

/** All migrations of this program, in order. @throws Error if the numbers have a gap */
export function readMigrations(directory: URL = migrationsDirectory()): Migration[] {
  const migrations: Migration[] = [];
  for (const entry of readdirSync(directory).sort()) {
    const match = fileName.exec(entry);
    if (match === null) continue;
    const text = readFileSync(new URL(entry, directory), "utf8");
    migrations.push({
      version: Number(match[1]),
      name: match[3] ?? "",
      compatible: match[2] === "add",
      checksum: hash("sha256", text),
      statements: splitStatements(text),
    });
  }
  migrations.forEach((migration, index) => {
    if (migration.version !== index + 1) throw new Error(`migration ${index + 1} is missing`);
  });
  return migrations;
}

/** Beside this file in the sources; the build copies no SQL, so from `dist` they are read in the sources too. */
function migrationsDirectory(): URL {
  const beside = new URL("./migrations/", import.meta.url);
  return existsSync(beside) ? beside : new URL("../../../src/store/migrations/", import.meta.url);
}

/** A `;` that ends a line ends a statement. Comments have lines of their own. */
export function splitStatements(sql: string): string[] {
  const parts = sql.replaceAll(/^ *--.*$/gm, "").split(/;$/m);
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}
