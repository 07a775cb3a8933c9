import { type DescExtension, type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

/** An index of the declarations that a set of services needs. */
export class DescriptorIndex {
  /** Full names of the services, sorted. */
  readonly services: readonly string[];
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();
  readonly #extensions = new Map<string, Map<number, DescFile>>();
  readonly #encoded = new Map<DescFile, Uint8Array>();

  /** `others` are files that no service imports but clients look up: those of error details. */
  constructor(services: readonly DescService[], others: readonly DescFile[] = []) {
    this.services = [...new Set(services.map((service) => service.typeName))].sort();
    for (const service of services) this.#add(service.file);
    for (const file of others) this.#add(file);
  }

  /** The file of that name, as `import` writes it. */
  file(name: string): DescFile | undefined {
    return this.#files.get(name);
  }

  /** The file that declares a message, field, enum, enum value, extension, service or method. */
  declaring(symbol: string): DescFile | undefined {
    return this.#symbols.get(symbol);
  }

  /** The file that declares an extension of a message. */
  extending(message: string, number: number): DescFile | undefined {
    return this.#extensions.get(message)?.get(number);
  }

  /** The numbers of a message's extensions, ascending; undefined if there is no such message. */
  extensionNumbers(message: string): number[] | undefined {
    const numbers = this.#extensions.get(message);
    if (numbers !== undefined) return [...numbers.keys()].sort((a, b) => a - b);
    return this.#symbols.has(message) ? [] : undefined;
  }

  /** A file and its dependencies as FileDescriptorProto bytes, each before the files that it imports. */
  closure(file: DescFile): Uint8Array[] {
    const importsFirst = new Set<DescFile>();
    const visit = (each: DescFile): void => {
      if (importsFirst.has(each)) return;
      for (const dependency of each.dependencies) visit(dependency);
      importsFirst.add(each);
    };
    visit(file);
    return [...importsFirst].reverse().map((each) => this.#bytes(each));
  }

  #bytes(file: DescFile): Uint8Array {
    let bytes = this.#encoded.get(file);
    if (bytes === undefined) {
      bytes = toBinary(FileDescriptorProtoSchema, file.proto);
      this.#encoded.set(file, bytes);
    }
    return bytes;
  }

  #add(file: DescFile): void {
    if (this.#files.has(file.proto.name)) return;
    this.#files.set(file.proto.name, file);
    for (const dependency of file.dependencies) this.#add(dependency);
    for (const type of nestedTypes(file)) {
      this.#symbols.set(type.typeName, file);
      if (type.kind === "service")
        for (const { name } of type.methods) this.#symbols.set(`${type.typeName}.${name}`, file);
      if (type.kind === "message")
        for (const { name } of type.fields) this.#symbols.set(`${type.typeName}.${name}`, file);
      if (type.kind === "enum") this.#addValues(type.typeName, type.values, file);
      if (type.kind === "extension") this.#addExtension(type, file);
    }
  }

  /** In protobuf's scoping, enum values are siblings of their enum. */
  #addValues(enumName: string, values: readonly { readonly name: string }[], file: DescFile): void {
    const scope = enumName.slice(0, enumName.lastIndexOf(".") + 1);
    for (const { name } of values) this.#symbols.set(`${scope}${name}`, file);
  }

  #addExtension(extension: DescExtension, file: DescFile): void {
    const message = extension.extendee.typeName;
    const numbers = this.#extensions.get(message) ?? new Map<number, DescFile>();
    numbers.set(extension.number, file);
    this.#extensions.set(message, numbers);
  }
}
