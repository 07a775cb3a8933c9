import { useEffect, useState } from "preact/hooks";
import { instant } from "../../src/domain/instant.js";
import { thrownText } from "../../src/domain/thrown-text.js";
import { type PastMarket, type Speed, speeds } from "../books/past-market.js";
import { typedTime } from "../format/time-text.js";
import { useObservable } from "../hooks/observable.js";
import { showMarket } from "../route.js";
import { Segments } from "./segments.js";

const nsPerMs = 1_000_000n;
/** Places of the slider. */
const slots = 1_000;
/** A moment is asked for when the slider has rested for this long. */
const restMs = 120;

interface TimeControlProps {
  readonly past: PastMarket;
  readonly marketId: string;
  /** The moment that is asked for, in nanoseconds; undefined: now. */
  readonly at: string | undefined;
  /** The oldest block that is kept, in nanoseconds; undefined: not known, or none. */
  readonly oldest: string | undefined;
  /** The newest block, in nanoseconds; undefined: not known. */
  readonly newest: string | undefined;
}

/** To the millisecond. */
const shortTime = (timestamp: string) => `${instant(timestamp).slice(0, 23)} UTC`;

/** Takes a time as text. */
function TimeText({ onTime }: { readonly onTime: (timestamp: string) => void }) {
  const submit = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const input = event.currentTarget.elements.namedItem("time") as HTMLInputElement;
    try {
      onTime(typedTime(input.value.trim()));
    } catch (thrown) {
      input.setCustomValidity(thrownText(thrown));
      input.reportValidity();
    }
  };
  return (
    <form class="time-text" onSubmit={submit}>
      <input
        name="time"
        aria-label="Time (UTC)"
        placeholder="2024-01-31 12:00"
        maxLength={40}
        autocomplete="off"
        required
        onInput={(event) => event.currentTarget.setCustomValidity("")}
      />
      <button type="submit">Go</button>
    </form>
  );
}

/** Chooses the moment that a market is shown at, and plays from there. */
export function TimeControl({ past, marketId, at, oldest, newest }: TimeControlProps) {
  const moment = useObservable(past.moment, (value) => value);
  const playing = useObservable(past.playing, (value) => value);
  const problem = useObservable(past.problem, (value) => value);
  const [speed, setSpeed] = useState<Speed>("10×");
  /** Where the slider was dragged to, until that moment is asked for. */
  const [dragged, setDragged] = useState<number | undefined>(undefined);
  const go = (timestamp: string | undefined) => showMarket(marketId, { at: timestamp });
  const max = Number(BigInt(newest ?? 0) / nsPerMs);
  // The first millisecond that is not before the oldest block.
  const min = oldest === undefined ? max : Number((BigInt(oldest) + nsPerMs - 1n) / nsPerMs);
  const step = Math.max(1, Math.ceil((max - min) / slots));

  useEffect(() => {
    if (dragged === undefined) return undefined;
    const timer = setTimeout(() => {
      setDragged(undefined);
      // The last place of the slider is less than a step before the newest block.
      go(dragged > max - step ? undefined : String(BigInt(dragged) * nsPerMs));
    }, restMs);
    return () => clearTimeout(timer);
  }, [dragged]);

  const shown = (playing === undefined ? at : undefined) ?? moment?.block.timestamp;
  const shownMs = dragged ?? (shown === undefined ? max : Number(BigInt(shown) / nsPerMs));
  const text = shown === undefined && dragged === undefined ? "now" : shortTime(String(BigInt(shownMs) * nsPerMs));
  const play = () => (playing === undefined ? past.play(speed) : past.pause());
  const choose = (chosen: Speed) => {
    setSpeed(chosen);
    if (playing !== undefined) past.play(chosen);
  };
  return (
    <section class="card" aria-label="Time">
      <div class="time-line">
        <input
          id="moment"
          type="range"
          aria-label="Moment"
          aria-valuetext={text}
          min={min}
          max={max}
          step={step}
          value={shownMs}
          disabled={oldest === undefined}
          onInput={(event) => setDragged(Number(event.currentTarget.value))}
        />
        <div class="time-buttons">
          <button type="button" aria-label="Block before" disabled={oldest === undefined} onClick={() => stepBack()}>
            ‹
          </button>
          <button type="button" id="play" disabled={moment === undefined} onClick={play}>
            {playing === undefined ? "Play" : "Pause"}
          </button>
          <button type="button" aria-label="Block after" disabled={moment === undefined} onClick={() => past.step(1)}>
            ›
          </button>
          <Segments legend="Speed" name="speed" values={speeds} chosen={speed} onChoose={choose} />
          <TimeText onTime={go} />
          <button type="button" id="live" aria-pressed={at === undefined} onClick={() => go(undefined)}>
            Live
          </button>
        </div>
      </div>
      <p id="moment-text" class="quiet">
        {moment === undefined ? (
          text === "now" ? (
            "The present, as it changes."
          ) : (
            `${text}, ${problem === "" ? "being read" : "not there"}.`
          )
        ) : (
          <>
            Block <span id="moment-block">{moment.block.height}</span> of{" "}
            <time id="moment-time">{instant(moment.block.timestamp)}</time> UTC
          </>
        )}
      </p>
      {problem !== "" && (
        <p id="moment-problem" class="notice" role="alert">
          {problem}
        </p>
      )}
    </section>
  );

  /** From the present: to the newest block. */
  function stepBack(): void {
    if (moment === undefined) go(newest);
    else void past.step(-1);
  }
}
