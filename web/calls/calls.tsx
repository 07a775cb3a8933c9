import { useId } from "preact/hooks";
import { Segments } from "../components/segments.js";
import { Observable, useObservable } from "../hooks/observable.js";
import { type Call, type Language, languages } from "./call.js";
import { CallText } from "./call-text.js";

/** The same in every view. */
const chosen = new Observable<Language>("curl");

/** The calls behind a view, ready to paste, in a language of the reader's choice. */
export function Calls({ calls }: { readonly calls: readonly Call[] }) {
  const language = useObservable(chosen, (value) => value);
  const id = useId();
  return (
    <section class="card calls" aria-labelledby={id}>
      <header>
        <h2 id={id}>The calls behind this view</h2>
        <Segments
          legend="Language"
          name="language"
          values={languages}
          chosen={language}
          onChoose={(value) => chosen.set(value)}
        />
      </header>
      {calls.map((call) => (
        <CallText key={call.title} call={call} language={language} />
      ))}
    </section>
  );
}
