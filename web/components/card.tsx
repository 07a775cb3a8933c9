import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface CardProps {
  readonly title: string;
  readonly class?: string;
  /** Says since when the content is old, which dims it; empty: the page says so once. Undefined: it is up to date. */
  readonly stale?: string | undefined;
  readonly children: ComponentChildren;
}

/** A titled part of a view. */
export function Card({ title, stale, children, class: className = "" }: CardProps) {
  const id = useId();
  return (
    <section class={`card ${className}`} aria-labelledby={id} data-stale={stale === undefined ? undefined : ""}>
      <header>
        <h2 id={id}>{title}</h2>
        {stale && <p class="stale-note">{stale}</p>}
      </header>
      {children}
    </section>
  );
}
