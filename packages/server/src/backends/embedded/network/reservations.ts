import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { Ipv4Range } from "@berth/protocol/network"
import { z } from "zod"
import { AddressLinks } from "./address-links.ts"
import { candidates } from "./candidates.ts"
import { isFull, orMissing } from "./file-codes.ts"
import type { Names } from "./names.ts"
import type { Pool } from "./pool.ts"

const Claim = z.strictObject({
  sandbox: SandboxId,
  device: z.string(),
  address: z.ipv4(),
  /** The ranges that the sandbox may reach besides the internet. Present once its link is being made. */
  allow: z.array(Ipv4Range).readonly().optional(),
})
/** A sandbox's claim: its device and address. It is on disk before anything else of the sandbox's network exists. */
export type Claim = Readonly<z.infer<typeof Claim>>

/** The claim of a sandbox whose link is made, or is about to be. */
export type Attached = Claim & { readonly allow: readonly Ipv4Range[] }

export const isAttached = (claim: Claim): claim is Attached => claim.allow !== undefined

/**
 * The claims of all sandboxes, in two directories: `devices/NAME` is the claim of the sandbox that the device is named
 * after, and `addresses/ADDRESS` is a link to that name, which only one claim can make.
 *
 * The device's file is written first and removed last: an address never lacks its owner. All of it is synchronous: a
 * change looks at what is taken before it writes, and nothing comes in between.
 */
export class Claims {
  readonly #devices: string
  readonly #addresses: AddressLinks
  readonly #names: Names
  readonly #pool: Pool

  constructor(directory: string, names: Names, pool: Pool) {
    this.#devices = join(directory, "devices")
    this.#addresses = new AddressLinks(
      join(directory, "addresses"),
      (device) => this.#read(device)?.address,
    )
    this.#names = names
    this.#pool = pool
  }

  /** Gives the sandbox's claim. A new claim takes an address that no claim has and that is not in `held`. */
  reserve(sandbox: SandboxId, held: ReadonlySet<string>): Claim {
    mkdirSync(this.#devices, { recursive: true, mode: 0o700 })
    this.#addresses.prepare()
    const device = this.#names.deviceOf(sandbox)
    const known = this.#read(device)
    if (known !== undefined && known.sandbox !== sandbox) {
      throw new BerthError("backend.network_conflict", `${device} is the link of another sandbox`, {
        details: { device, sandbox, holder: known.sandbox },
      })
    }
    if (known !== undefined && this.#addresses.take(known.address, device)) return known
    for (const address of candidates(sandbox, this.#pool)) {
      if (held.has(address) || this.#addresses.holderOf(address) !== undefined) continue
      const claim = { sandbox, device, address }
      this.#write(claim)
      if (this.#addresses.take(address, device)) return claim
    }
    const { range } = this.#pool
    throw new BerthError("backend.network_exhausted", `every address of ${range} is taken`, {
      details: { pool: range },
    })
  }

  attach(claim: Claim, allow: readonly Ipv4Range[]): Attached {
    const attached = { ...claim, allow }
    this.#write(attached)
    return attached
  }

  /**
   * The claim of the device that is named after this sandbox. Seldom, it is that of another sandbox with nearly the
   * same id.
   */
  holder(sandbox: SandboxId): Claim | undefined {
    return this.#read(this.#names.deviceOf(sandbox))
  }

  /** The devices of all claims, without reading them. */
  devices(): string[] {
    return (orMissing(() => readdirSync(this.#devices)) ?? []).filter((name) => !isDraft(name))
  }

  all(): Claim[] {
    return this.devices().flatMap((device) => {
      const claim = this.#read(device)
      if (claim === undefined) this.#discard(device)
      return claim ?? []
    })
  }

  release(sandbox: SandboxId): void {
    const device = this.#names.deviceOf(sandbox)
    const claim = this.#read(device)
    if (claim !== undefined) this.#addresses.release(claim.address, device)
    rmSync(this.#draftOf(device), { force: true })
    rmSync(this.#fileOf(device), { force: true })
  }

  /** Removes a claim that a power loss damaged; the link of its sandbox is gone by itself. */
  #discard(device: string): void {
    rmSync(this.#fileOf(device), { force: true })
    this.#addresses.sweep()
  }

  #read(device: string): Claim | undefined {
    const text = orMissing(() => readFileSync(this.#fileOf(device), "utf8"))
    return text === undefined ? undefined : parse(text)
  }

  /**
   * Writes a claim: the file appears whole or not at all. The draft's name is fixed, so that a crash leaves only one.
   */
  #write(claim: Claim): void {
    const draft = this.#draftOf(claim.device)
    try {
      writeFileSync(draft, JSON.stringify(claim), { mode: 0o600 })
      renameSync(draft, this.#fileOf(claim.device))
    } catch (cause) {
      rmSync(draft, { force: true })
      if (!isFull(cause)) throw cause
      throw new BerthError("backend.disk_full", "no space is left for a sandbox's address", {
        details: { path: draft },
        cause,
      })
    }
  }

  #fileOf(device: string): string {
    return join(this.#devices, device)
  }

  #draftOf(device: string): string {
    return this.#fileOf(`.${device}`)
  }
}

const isDraft = (name: string) => name.startsWith(".")

const parse = (text: string): Claim | undefined => {
  try {
    return Claim.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
