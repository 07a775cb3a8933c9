import type { Connection, ParameterList } from "./connection/connection.js";

/** Runs statements whose outcomes nobody asks for: at once, or with later ones. */
export interface StatementRunner {
  run(sql: string, parameters?: ParameterList): Promise<unknown>;
}

/** A group that has so many characters is sent. Statements of this size gain nothing from a common round trip. */
export const groupCharactersMax = 64 * 1024;

/** Sends statements together, in order, in one round trip. The connection must allow several statements in a query. */
export class StatementGroup implements StatementRunner {
  #statements: string[] = [];
  #characters = 0;

  constructor(private readonly connection: Connection) {}

  /** Adds a statement. @throws the server's error for this one or an earlier one, after which none was run */
  async run(sql: string, parameters: ParameterList = []): Promise<void> {
    const statement = parameters.length === 0 ? sql : this.connection.driver.format(sql, [...parameters]);
    this.#statements.push(statement);
    this.#characters += statement.length;
    if (this.#characters >= groupCharactersMax) await this.send();
  }

  /** Sends what was added. @throws as {@link run} */
  async send(): Promise<void> {
    if (this.#statements.length === 0) return;
    const text = this.#statements.join(";\n");
    this.#statements = [];
    this.#characters = 0;
    await this.connection.query(text);
  }
}
