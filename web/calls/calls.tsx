import { useId, useRef, useState } from "preact/hooks";
import { Observable, useObservable } from "../hooks/observable.js";
import { type Call, callText, type Language, languages } from "./call.js";

/** The same in every view. */
const chosen = new Observable<Language>("curl");
const copiedMs = 1_500;

function CallText({ call, language }: { readonly call: Call; readonly language: Language }) {
  const text = callText(call, language);
  const block = useRef<HTMLPreElement>(null);
  const [copied, setCopied] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("Copied");
    } catch {
      // Without a secure origin there is no clipboard: the text is selected instead.
      if (block.current !== null) getSelection()?.selectAllChildren(block.current);
      setCopied("Selected");
    }
    setTimeout(() => setCopied("Copy"), copiedMs);
  };
  return (
    <div class="call">
      <header>
        <h3>{call.title}</h3>
        <button type="button" aria-label={`${copied}: ${call.title}`} onClick={copy}>
          {copied}
        </button>
      </header>
      <pre ref={block}>{text}</pre>
    </div>
  );
}

/** The calls behind a view, ready to paste, in a language of the reader's choice. */
export function Calls({ calls }: { readonly calls: readonly Call[] }) {
  const language = useObservable(chosen, (value) => value);
  const id = useId();
  return (
    <section class="card calls" aria-labelledby={id}>
      <header>
        <h2 id={id}>The calls behind this view</h2>
        <fieldset class="segments">
          <legend class="visually-hidden">Language</legend>
          {languages.map((each) => (
            <label key={each}>
              <input
                type="radio"
                name="language"
                value={each}
                checked={each === language}
                onChange={() => chosen.set(each)}
              />
              <span>{each}</span>
            </label>
          ))}
        </fieldset>
      </header>
      {calls.map((call) => (
        <CallText key={call.title} call={call} language={language} />
      ))}
    </section>
  );
}
