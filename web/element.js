/** The element of this id. @throws {Error} when the page has none */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element ${id}`);
  return found;
}

/** Makes an element; `properties` are set on it, children are elements or text. */
export function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

/** A definition list's content: pairs of name and text. */
export function facts(pairs) {
  return pairs.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]);
}
