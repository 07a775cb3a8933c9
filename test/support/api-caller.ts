import { fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { type OpenApi, openApi } from "../../src/api/open-api.js";
import type { EncodedResponse } from "../../src/domain/encoded-response.js";
import { Failure } from "../../src/domain/failure.js";
import type { Call, ResponseStream } from "../../src/domain/service.js";
import type { LiveLimits } from "../../src/live/limits.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics, type Metrics } from "../../src/telemetry/metrics.js";

const call: Call = { signal: new AbortController().signal, clientAddress: "10.0.0.1", requestHeaders: {} };

/** A page of any list, in JSON. */
export interface JsonPage {
  readonly edges: readonly { readonly cursor: string; readonly node: JsonObject }[];
  readonly pageInfo: {
    readonly hasNextPage: boolean;
    readonly hasPreviousPage: boolean;
    readonly startCursor: string;
    readonly endCursor: string;
  };
}

/** Calls the methods over a database, without a port. */
export class ApiCaller {
  private constructor(
    readonly opened: OpenApi,
    private readonly metrics: Metrics,
  ) {}

  static async open(databaseUrl: string, limits: Partial<LiveLimits> = {}): Promise<ApiCaller> {
    const metrics = createMetrics();
    return new ApiCaller(await openApi({ databaseUrl, log: createLog("silent"), metrics, limits }), metrics);
  }

  /** The values of a metric of streams, by the kind of stream. */
  async streamMetric(name: string): Promise<Record<string, number>> {
    const { values = [] } = (await this.metrics.getSingleMetric(`marketd_market_stream_${name}`)?.get()) ?? {};
    return Object.fromEntries(values.map(({ labels, value }) => [String(labels["stream"]), value]));
  }

  async response(name: string, request: JsonValue): Promise<EncodedResponse> {
    const method = this.opened.methods.find(({ desc }) => desc.name === name);
    if (method?.kind !== "unary") throw new Error(`no unary method ${name}`);
    return await method.invoke(fromJson(method.desc.input, request), call);
  }

  /** The response in JSON. */
  async json<T = JsonObject>(name: string, request: JsonValue = {}): Promise<T> {
    return JSON.parse((await this.response(name, request)).jsonText()) as T;
  }

  /** The page in the only field of a response. */
  async page(name: string, request: JsonValue = {}): Promise<JsonPage> {
    const [page] = Object.values(await this.json<Record<string, JsonPage>>(name, request));
    if (page === undefined) throw new Error(`${name} has no page`);
    return page;
  }

  /** Every row of a list, page by page, in the direction of `backwards`; each page is checked against its neighbours. */
  async pageThrough(
    name: string,
    request: JsonObject,
    size: number,
    order: { backwards?: boolean; newestFirst?: boolean },
  ) {
    const { backwards = false, newestFirst } = order;
    const rows: JsonObject[] = [];
    for (let cursor: string | undefined; ; ) {
      const place = backwards ? { last: size, before: cursor } : { first: size, after: cursor };
      const pagination = JSON.parse(JSON.stringify({ ...place, newestFirst })) as JsonObject;
      const { edges, pageInfo } = await this.page(name, { ...request, pagination });
      const nodes = edges.map(({ node }) => node);
      if (backwards) rows.unshift(...nodes);
      else rows.push(...nodes);
      const behind = backwards ? pageInfo.hasNextPage : pageInfo.hasPreviousPage;
      if (behind !== (cursor !== undefined)) throw new Error(`${name} does not know of the page before`);
      if (!(backwards ? pageInfo.hasPreviousPage : pageInfo.hasNextPage)) return rows;
      cursor = backwards ? pageInfo.startCursor : pageInfo.endCursor;
    }
  }

  /** Opens a stream. */
  async stream(name: string, request: JsonValue): Promise<ResponseStream> {
    const method = this.opened.methods.find(({ desc }) => desc.name === name);
    if (method?.kind !== "server_streaming") throw new Error(`no streaming method ${name}`);
    return await method.open(fromJson(method.desc.input, request), call);
  }

  /** The failure of a unary method: its code and reason. */
  async failure(name: string, request: JsonValue): Promise<Pick<Failure, "code" | "reason">> {
    try {
      await this.response(name, request);
    } catch (error) {
      if (error instanceof Failure) return { code: error.code, reason: error.reason };
      throw error;
    }
    throw new Error(`${name} did not fail`);
  }
}
