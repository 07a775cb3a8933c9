import type { ComponentChildren } from "preact";
import { duration, timeOfDay } from "../../src/domain/instant.js";
import type { BookStore, StreamState } from "../books/book-store.js";
import { grouped, missing } from "../format/decimal.js";
import { useObservable } from "../hooks/observable.js";
import { blockAgeMaxSeconds, silentText } from "../hooks/staleness.js";
import { useSeconds } from "../hooks/use-seconds.js";
import { blockAgeSeconds, type ServiceStatus, type Status } from "../service/service-status.js";

/** The database is asked many times a second; after this long it counts as away. */
const databaseSilenceMaxSeconds = 3;

type Level = "good" | "warn" | "bad" | "plain";

interface FigureProps {
  readonly id: string;
  readonly name: string;
  readonly level?: Level;
  readonly children: ComponentChildren;
}

function Figure({ id, name, level = "plain", children }: FigureProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd id={id} data-level={level}>
        {children}
      </dd>
    </div>
  );
}

/** An open stream of a service that does not respond is not known to be live before it is silent for long. */
function streamText({ state, since, message }: StreamState, { reachable }: Status): readonly [Level, string] {
  if (state === "live") return reachable ? ["good", state] : ["warn", "not known"];
  if (state === "lost") return ["bad", `${message} since ${timeOfDay(since)}; trying again`];
  return state === "paused" ? ["plain", message] : ["warn", state];
}

function databaseText({ response }: Status): readonly [Level, string] {
  if (response === undefined) return ["plain", missing];
  const { databaseSilenceSeconds: silence } = response;
  if (silence === undefined) return ["bad", "never answered"];
  return silence < databaseSilenceMaxSeconds ? ["good", "answers"] : ["bad", `silent for ${duration(silence)}`];
}

function serviceText({ response }: Status): readonly [Level, string] {
  if (response === undefined) return ["plain", missing];
  return [response.status === "ready" ? "good" : "warn", response.status];
}

/** The state of the service, for operators: shown on every view. */
export function StatusStrip({ books, status }: { readonly books: BookStore; readonly status: ServiceStatus }) {
  const now = useObservable(status.status, (value) => value);
  const stream = useObservable(books.stream, (value) => value);
  const updates = useObservable(books.updatesPerSecond, (value) => value);
  const silent = now.reachable ? undefined : (["warn", silentText(now)] as const);
  const [streamLevel, streamState] = streamText(stream, now);
  const [serviceLevel, service] = silent ?? serviceText(now);
  const [databaseLevel, database] = silent ?? databaseText(now);
  useSeconds();
  const age = blockAgeSeconds(now);
  const { blockHeight, streamSequence, markets, staleMarkets = 0 } = now.response ?? {};
  return (
    <>
      <p class="visually-hidden" role="status">
        Stream {streamState}
      </p>
      <dl class="strip" data-stale={now.reachable ? undefined : ""} aria-label="Service">
        <Figure id="stream-state" name="Stream" level={streamLevel}>
          {streamState}
        </Figure>
        <Figure id="updates-per-second" name="Updates/s">
          {grouped(String(updates))}
        </Figure>
        <Figure id="service-state" name="Service" level={serviceLevel}>
          {service}
        </Figure>
        <Figure id="database-state" name="Database" level={databaseLevel}>
          {database}
        </Figure>
        <Figure id="block-height" name="Block">
          {blockHeight === undefined ? missing : grouped(blockHeight)}
        </Figure>
        <Figure id="block-age" name="Age" level={age !== undefined && age > blockAgeMaxSeconds ? "warn" : "plain"}>
          {age === undefined ? missing : duration(age)}
        </Figure>
        <Figure id="stream-sequence" name="Event">
          {streamSequence === undefined ? missing : grouped(streamSequence)}
        </Figure>
        <Figure id="market-count" name="Markets" level={staleMarkets > 0 ? "warn" : "plain"}>
          {markets === undefined ? missing : grouped(String(markets))}
          {staleMarkets > 0 && `, ${grouped(String(staleMarkets))} stale`}
        </Figure>
      </dl>
    </>
  );
}
