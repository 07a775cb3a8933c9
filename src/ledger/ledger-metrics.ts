import { addCounter, type Metrics } from "../telemetry/metrics.js";
import { type Plan, planNames } from "./plan.js";

/** The cost of one run of a plan. */
export interface PlanCosts {
  readonly plan: Plan["name"];
  readonly statements: number;
  /** Entries of the table, or keys of an index, that were read. */
  readonly rowsExamined: number;
}

/** The cost of all runs of each plan since the start. */
export class PlanCounts {
  readonly #counts = new Map(planNames.map((name) => [name, { runs: 0, statements: 0, rowsExamined: 0 }]));

  /** Adds the cost of a page or a batch. */
  add(costs: readonly PlanCosts[]): void {
    for (const { plan, statements, rowsExamined } of costs) {
      const count = this.#counts.get(plan);
      if (count === undefined) continue;
      count.runs++;
      count.statements += statements;
      count.rowsExamined += rowsExamined;
    }
  }

  /** Registers the counts; values are read on collection. */
  register(metrics: Metrics): void {
    const counter = (name: string, help: string, key: "runs" | "statements" | "rowsExamined") => {
      const read = () => [...this.#counts].map(([plan, count]) => [plan, count[key]] as const);
      addCounter(metrics, name, help, read, { label: "plan" });
    };
    counter("marketd_ledger_plans_total", "Plans that were run to read ledger entries, by their name.", "runs");
    counter("marketd_ledger_statements_total", "SQL statements of these plans.", "statements");
    counter("marketd_ledger_rows_examined_total", "Entries and index keys that these plans read.", "rowsExamined");
  }
}
