import { useEffect, useReducer, useRef } from "preact/hooks";

/** A value that tells its listeners when it is replaced. */
export class Observable<T> {
  #value: T;
  readonly #listeners = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    this.#value = value;
    for (const listener of this.#listeners) listener();
  }

  /** @returns what ends the subscription */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** A part of an observable's value; the component renders again when that part is another one. */
export function useObservable<T, P = T>(observable: Observable<T>, select: (value: T) => P): P {
  const [, renderAgain] = useReducer((count: number) => count + 1, 0);
  const selected = select(observable.value);
  const shown = useRef({ selected, select });
  shown.current = { selected, select };
  useEffect(() => {
    const check = () => {
      if (shown.current.select(observable.value) !== shown.current.selected) renderAgain(undefined);
    };
    check();
    return observable.subscribe(check);
  }, [observable]);
  return selected;
}
