import { NodeSignatureKind } from "../../gen/vega/commands/v1/validator_commands_pb.js";
import { eventKinds } from "./block-writer.js";
import type { Random } from "./random.js";
import type { Block } from "./simulated-market.js";

interface Validator {
  readonly nodeId: string;
  readonly address: string;
}

interface LateSignature {
  readonly id: string;
  readonly height: number;
}

const validatorCount = 7;
/** Validators that sign a bundle at once. */
const earlySignatures = 2;
/** Validators that sign some blocks later. */
const lateSignatures = 3;
const signatureBytes = 65;

/** The validators that sign for the ERC20 contract. Every removal is signed once for each possible submitter. */
export class Signers {
  readonly #random: Random;
  readonly #validators: readonly Validator[];
  #late: LateSignature[] = [];

  constructor(random: Random) {
    this.#random = random;
    this.#validators = Array.from({ length: validatorCount }, () => ({
      nodeId: random.identifier(),
      // Mixed case, as in contracts; readers must accept it.
      address: `0x${random.hex(10)}${random.hex(10).toUpperCase()}`,
    }));
  }

  /** Signatures that are due in this block. */
  signLate(block: Block): void {
    const due = this.#late.filter((each) => each.height <= block.height);
    this.#late = this.#late.filter((each) => each.height > block.height);
    for (const { id } of due) this.#sign(block, id, NodeSignatureKind.ERC20_MULTISIG_SIGNER_REMOVED);
  }

  /** Removes a validator: some signatures precede the event that names them, some follow it. */
  remove(block: Block, epoch: bigint): void {
    const removed = this.#random.pick(this.#validators);
    const submitters = this.#validators.filter((each) => each !== removed && this.#random.chance(0.6));
    const signatureSubmitters = (submitters.length > 0 ? submitters : this.#validators).map((submitter) => ({
      signatureId: this.#random.identifier(),
      submitter: submitter.address,
    }));
    for (const { signatureId } of signatureSubmitters) {
      for (let i = 0; i < earlySignatures; i++) {
        this.#sign(block, signatureId, NodeSignatureKind.ERC20_MULTISIG_SIGNER_REMOVED);
      }
    }
    block.writer.event(eventKinds.signerRemoved, {
      signatureSubmitters,
      validatorId: removed.nodeId,
      timestamp: block.timeNs,
      oldSigner: removed.address,
      nonce: this.#nonce(),
      epochSeq: epoch.toString(),
    });
    for (const { signatureId } of signatureSubmitters) {
      for (let i = 0; i < lateSignatures; i++) {
        this.#late.push({ id: signatureId, height: block.height + this.#random.between(0, 4) });
      }
    }
  }

  /** Adds a validator; these signatures belong to no bundle of removals. */
  add(block: Block, epoch: bigint): void {
    const added = this.#random.pick(this.#validators);
    const signatureId = this.#random.identifier();
    block.writer.event(eventKinds.signerAdded, {
      signatureId,
      validatorId: added.nodeId,
      timestamp: block.timeNs,
      newSigner: added.address,
      submitter: this.#random.pick(this.#validators).address,
      nonce: this.#nonce(),
      epochSeq: epoch.toString(),
    });
    this.#sign(block, signatureId, NodeSignatureKind.ERC20_MULTISIG_SIGNER_ADDED);
    this.#sign(block, this.#random.identifier(), NodeSignatureKind.ASSET_WITHDRAWAL);
  }

  #nonce(): string {
    return (BigInt(this.#random.u32()) * 0x1_0000_0000n * 0x1_0000_0000n + BigInt(this.#random.u32())).toString();
  }

  #sign(block: Block, id: string, kind: NodeSignatureKind): void {
    block.writer.event(eventKinds.nodeSignature, { id, sig: this.#random.bytes(signatureBytes), kind });
  }
}
